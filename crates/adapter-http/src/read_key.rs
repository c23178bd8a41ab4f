//! `GET /api/key`: what the key of the request is, what it may do, and how many of its requests were rejected.

use std::collections::BTreeMap;

use actix_web::HttpRequest;
use domain::api_key::{Party, Scope};
use serde::Serialize;

use crate::{
    admission::{authentication::admit_any, rate_limit::Policy},
    respond::{answer::Answer, conditional, instants::timestamp},
    state::State,
};

pub(crate) const PATH: &str = "/api/key";

/// Needs no scope: each key may know itself.
pub(crate) async fn read(request: HttpRequest, api: State) -> Answer {
    let caller = admit_any(&request, &api.admission, Policy::Reads).await?;
    api.answers.hold(&request, caller.party()).await?;
    let key = caller.key();
    let (party, client, service) = match caller.party() {
        Party::Client(client) => ("client", Some(client), caller.signing_service()),
        Party::Service(service) => ("service", None, Some(service)),
    };
    let client_name = api.admission.keys.client_name(caller.party()).await?;
    let service_name = match service {
        Some(service) => api.list_services.name(service).await?,
        None => None,
    };
    let rejected_last_day = match key {
        Some(key) => api.rejected.of_key(key.id).await?,
        None => BTreeMap::new(),
    };
    let scopes = Scope::ALL.into_iter().filter(|scope| caller.may(*scope)).map(Scope::as_str);
    let record = KeyRecord {
        name: caller.name(),
        party,
        client_id: client.map(|client| client.0),
        client_name,
        signing_service_id: service.map(|service| service.0),
        signing_service_name: service_name,
        scopes: scopes.collect(),
        is_test: caller.is_test(),
        expires_at: key.and_then(|key| key.key.expires_at).map(timestamp),
        last_used_at: key.and_then(|key| key.last_used_at).map(timestamp),
        rejected_last_day,
        limits: LimitsRecord {
            documents_per_request: api.limits.max_count,
            document_bytes: api.limits.max_bytes,
            signed_document_bytes: api.signed_limits.max_bytes,
        },
    };
    conditional::json(&request, &record, None)
}

/// The record of a key, without anything of the key itself.
#[derive(Serialize)]
struct KeyRecord<'a> {
    name: &'a str,
    party: &'static str,
    client_id: Option<i64>,
    client_name: Option<String>,
    signing_service_id: Option<i64>,
    signing_service_name: Option<String>,
    scopes: Vec<&'static str>,
    is_test: bool,
    expires_at: Option<String>,
    last_used_at: Option<String>,
    /// By the `code` of their problems.
    rejected_last_day: BTreeMap<String, u64>,
    limits: LimitsRecord,
}

/// The limits of what the key may send.
#[derive(Serialize)]
struct LimitsRecord {
    documents_per_request: usize,
    document_bytes: u64,
    signed_document_bytes: u64,
}

#[cfg(test)]
mod tests {
    use domain::{order::SigningServiceId, signing_service::SigningService};
    use serde_json::{Value, json};
    use time::Duration;

    use super::*;
    use crate::test_support::{NOW, Ports, TestApi, api_key};

    fn limits() -> Value {
        let mebibytes_10 = 10 << 20;
        json!({ "documents_per_request": 20, "document_bytes": mebibytes_10,
            "signed_document_bytes": mebibytes_10 })
    }

    #[actix_web::test]
    async fn client_learns_the_terms_of_its_key() {
        let mut ports = Ports::with_key(|key| {
            key.name = "closing desk".to_owned();
            key.signing_service = Some(SigningServiceId(42));
            key.expires_at = Some(NOW + Duration::days(1));
        });
        ports.keys.expect_first_of().returning(|_| {
            let mut first = api_key();
            first.key.client_name = Some("Acme Title".to_owned());
            Ok(Some(first))
        });
        ports.services.expect_find().returning(|_| {
            let (id, name) = (SigningServiceId(42), "Lone Star".to_owned());
            Ok(vec![SigningService { id, name, emails: vec![] }])
        });
        ports.rejected.expect_counts().returning(|_, _| {
            Ok(BTreeMap::from([("forbidden".to_owned(), 1), ("validation_failed".to_owned(), 57)]))
        });
        let answer = ports.api().send(TestApi::get(PATH)).await;
        assert_eq!(answer.status, 200);
        let expected = json!({
            "name": "closing desk", "party": "client", "client_id": 1, "client_name": "Acme Title",
            "signing_service_id": 42, "signing_service_name": "Lone Star", "is_test": false,
            "scopes": ["orders:create", "orders:read", "webhooks:manage"],
            "expires_at": "2026-11-22T12:00:00.000000Z", "last_used_at": null, "limits": limits(),
            "rejected_last_day": { "forbidden": 1, "validation_failed": 57 },
        });
        assert_eq!(answer.body, expected);
    }

    #[actix_web::test]
    async fn key_without_scopes_learns_its_service() {
        let mut ports = Ports::with_key(|key| {
            key.name = "dispatch".to_owned();
            key.for_service = Some(SigningServiceId(7));
            key.scopes = [].into_iter().collect();
            (key.is_test, key.expires_at) = (true, None);
        });
        ports.services.expect_find().returning(|_| Ok(vec![]));
        ports.rejected.expect_counts().returning(|_, _| Ok(BTreeMap::new()));
        let answer = ports.api().send(TestApi::get(PATH)).await;
        let expected = json!({
            "name": "dispatch", "party": "service", "client_id": null, "client_name": null,
            "signing_service_id": 7, "signing_service_name": null, "is_test": true, "scopes": [],
            "expires_at": null, "last_used_at": null, "limits": limits(), "rejected_last_day": {},
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
