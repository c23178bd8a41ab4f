//! `GET /api/key`: what the key of the request is, and what it may do.

use actix_web::HttpRequest;
use domain::api_key::{ApiKey, Party, Scope};
use serde::Serialize;

use crate::{
    access::{authentication::admit_any, rate_limit::Policy},
    respond::{answer::Answer, conditional, instants::timestamp},
    state::State,
};

pub(crate) const PATH: &str = "/api/key";

/// Needs no scope: each key may know itself.
pub(crate) async fn read(request: HttpRequest, api: State) -> Answer {
    let key = admit_any(&request, &api.access, Policy::Reads).await?;
    conditional::json(&request, &KeyRecord::of(&key), None)
}

/// The record of a key, without anything of the key itself.
#[derive(Serialize)]
struct KeyRecord {
    party: &'static str,
    signing_service_id: Option<i64>,
    scopes: Vec<&'static str>,
    is_test: bool,
    expires_at: Option<String>,
}

impl KeyRecord {
    fn of(key: &ApiKey) -> Self {
        let (party, service) = match key.party() {
            Party::Client(_) => ("client", key.key.signing_service),
            Party::Service(service) => ("service", Some(service)),
        };
        let scopes = Scope::ALL.into_iter().filter(|scope| key.may(*scope)).map(Scope::as_str);
        Self {
            party,
            signing_service_id: service.map(|service| service.0),
            scopes: scopes.collect(),
            is_test: key.key.is_test,
            expires_at: key.key.expires_at.map(timestamp),
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::order::SigningServiceId;
    use serde_json::json;
    use time::Duration;

    use super::*;
    use crate::test_support::{NOW, Ports, TestApi};

    #[actix_web::test]
    async fn client_learns_the_terms_of_its_key() {
        let ports = Ports::with_key(|key| {
            key.signing_service = Some(SigningServiceId(42));
            key.expires_at = Some(NOW + Duration::days(1));
        });
        let answer = ports.api().send(TestApi::get(PATH)).await;
        assert_eq!(answer.status, 200);
        let expected = json!({
            "party": "client", "signing_service_id": 42, "is_test": false,
            "scopes": ["orders:create", "orders:read", "webhooks:manage"],
            "expires_at": "2026-11-22T12:00:00.000000Z",
        });
        assert_eq!(answer.body, expected);
    }

    #[actix_web::test]
    async fn key_without_scopes_learns_its_service() {
        let ports = Ports::with_key(|key| {
            key.for_service = Some(SigningServiceId(7));
            key.scopes = [].into_iter().collect();
            (key.is_test, key.expires_at) = (true, None);
        });
        let answer = ports.api().send(TestApi::get(PATH)).await;
        let expected = json!({
            "party": "service", "signing_service_id": 7, "is_test": true, "scopes": [],
            "expires_at": null,
        });
        assert_eq!(answer.body, expected);
    }

    #[actix_web::test]
    async fn unknown_key_is_rejected() {
        let mut ports = Ports::without_key();
        ports.keys.expect_find().returning(|_| Ok(None));
        ports.api().send(TestApi::get(PATH)).await.problem(401, "unauthorized");
    }
}
