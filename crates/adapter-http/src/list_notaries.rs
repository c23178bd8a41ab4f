//! `GET /api/notaries`: the notaries that a signing service knows.

use actix_web::HttpRequest;
use domain::{
    api_key::Party,
    notary::{KnownNotary, NotaryUse},
    order::EmailAddress,
};
use serde::Serialize;

use crate::{
    admission::{authentication::admit, rate_limit::Policy},
    respond::{
        answer::Answer,
        instants::timestamp,
        list::{self, Others, Paging},
        problem::{Problem, ProblemCode},
    },
    state::State,
};

pub(crate) const PATH: &str = "/api/notaries";

/// Clients learn of a notary by their orders alone: whom else a signing service knows is its own affair.
pub(crate) async fn list(request: HttpRequest, api: State) -> Answer {
    let caller = admit(&request, &api.admission, Policy::Reads).await?;
    let party = caller.party();
    if matches!(party, Party::Client(_)) {
        return Err(Problem::challenge(
            ProblemCode::Forbidden,
            "Only a key of a signing service lists notaries.",
            r#", error="insufficient_scope""#,
        ));
    }
    let (paging, after) = Paging::parse_older::<NotaryUse>(request.query_string())?;
    let walk = api.walks.acquire(&request, party).await?;
    api.answers.hold(&request, party).await?;
    let page = api.list_notaries.page(caller.owner(), paging.limit, after).await?;
    drop(walk);
    let records = page.notaries.iter().map(|one| (one.last_use, NotaryRecord::of(one)));
    let others = Others { older: page.has_more, newer: false, stopped_at: None };
    let url = format!("{}{PATH}", api.base_path);
    list::bounded_page(&request, url, &paging, others, Some(page.is_complete), records)
}

/// The record of a notary.
#[derive(Serialize)]
struct NotaryRecord<'a> {
    /// Its place in the list.
    id: String,
    name: &'a str,
    phone: Option<&'a str>,
    email: Option<&'a str>,
    notary_id: Option<i64>,
    orders: u64,
    last_used_at: String,
}

impl<'a> NotaryRecord<'a> {
    fn of(known: &'a KnownNotary) -> Self {
        Self {
            id: known.last_use.to_string(),
            name: &known.notary.name,
            phone: known.notary.phone.as_deref(),
            email: known.notary.email.as_ref().map(EmailAddress::as_str),
            notary_id: known.notary_id,
            orders: known.orders,
            last_used_at: timestamp(known.last_use.at),
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::{
        notary::KnownNotaries,
        order::{Notary, OrderId, SigningServiceId},
    };
    use serde_json::json;
    use time::Duration;

    use super::*;
    use crate::test_support::{NOW, Ports, TestApi};

    fn known(number: i64) -> KnownNotary {
        let email = EmailAddress::from_stored("pat@notary.example".to_owned());
        KnownNotary {
            notary: Notary {
                name: format!("N{number}"),
                phone: (number == 1).then(|| "+1 555 010 0142".to_owned()),
                email: (number == 1).then_some(email),
            },
            notary_id: (number == 1).then_some(7001),
            orders: 3,
            last_use: NotaryUse { at: NOW - Duration::hours(number), order: OrderId(number) },
        }
    }

    #[actix_web::test]
    async fn notaries_are_answered_in_pages_latest_first() {
        let mut ports = Ports::with_key(|key| key.for_service = Some(SigningServiceId(42)));
        ports.reader.expect_notaries().returning(|_, _, _| {
            Ok(KnownNotaries { found: [3, 1, 2].map(known).to_vec(), is_complete: false })
        });
        let api = ports.api();

        let first = api.send(TestApi::get(&format!("{PATH}?limit=2"))).await;

        let id = |number: i64| known(number).last_use.to_string();
        let expected = json!({
            "object": "list", "url": PATH, "has_more": true, "is_complete": false,
            "data": [
                { "id": id(1), "name": "N1", "phone": "+1 555 010 0142",
                    "email": "pat@notary.example", "notary_id": 7001, "orders": 3,
                    "last_used_at": "2026-11-21T11:00:00.000000Z" },
                { "id": id(2), "name": "N2", "phone": null, "email": null, "notary_id": null,
                    "orders": 3, "last_used_at": "2026-11-21T10:00:00.000000Z" },
            ],
        });
        assert_eq!((first.status.as_u16(), &first.body), (200, &expected));
        let next = format!("<{PATH}?limit=2&starting_after={}>; rel=\"next\"", id(2));
        assert_eq!(first.header("link"), next);
        let last = api.send(TestApi::get(&format!("{PATH}?starting_after={}", id(2)))).await;
        assert_eq!(last.body["data"][0]["name"], "N3");
        assert_eq!(last.body["has_more"], false);
        let wrong = api.send(TestApi::get(&format!("{PATH}?starting_after=x&limit=0"))).await;
        let expected = [("starting_after", "invalid_format"), ("limit", "out_of_range")];
        assert_eq!(wrong.errors(), expected);
    }

    #[actix_web::test]
    async fn client_is_told_that_it_may_not() {
        let answer = Ports::new().api().send(TestApi::get(PATH)).await;
        answer.problem(403, "forbidden");
        let challenge = r#"Bearer realm="notary-orders", error="insufficient_scope""#;
        assert_eq!(answer.header("www-authenticate"), challenge);
    }

    #[actix_web::test]
    async fn key_without_the_scope_is_told_of_it() {
        let ports = Ports::with_key(|key| {
            key.for_service = Some(SigningServiceId(42));
            key.scopes = [].into_iter().collect();
        });
        ports.api().send(TestApi::get(PATH)).await.problem(403, "forbidden");
    }
}
