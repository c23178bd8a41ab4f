use domain::{
    access::{
        Access, AccessActor, AccessFacts, AccessId, AccessKind, DONE, NOT_MODIFIED, PublicAccessId,
        RunId,
    },
    api_key::{ApiKeyId, ClientId, NewApiKey, Party},
    order::{OrderId, SigningServiceId},
    ports::MaybeErased,
};
use serde_json::{Value, json};
use time::Duration;

use crate::test_support::{NOW, Ports, TestApi};

const PATH: &str = "/api/order/7/accesses";

fn access(number: u64, actor: AccessActor) -> Access {
    let at = NOW + Duration::seconds(i64::try_from(number).unwrap());
    let is_key = matches!(actor, AccessActor::Key { .. });
    Access {
        id: AccessId { at, run: RunId(255), number },
        facts: AccessFacts {
            kind: AccessKind::Download,
            order: Some(OrderId(7)),
            orders: None,
            position: Some(2),
            subject: None,
            actor,
            address: "203.0.113.9".parse().ok().filter(|_| is_key),
            request_id: is_key.then(|| "5a1c".to_owned()),
        },
        outcome: if number == 1 { NOT_MODIFIED } else { DONE }.to_owned(),
    }
}

fn of_key(number: u64, party: Party) -> Access {
    access(number, AccessActor::Key { id: ApiKeyId(number.try_into().unwrap()), party })
}

fn of_operator(number: u64) -> Access {
    let (command, user) = ("orders show".to_owned(), "jane".to_owned());
    access(number, AccessActor::Operator { command, user })
}

/// Returns the accesses of both sides and of an operator, newest first.
fn all() -> Vec<Access> {
    let (client, service) = (Party::Client(ClientId(1)), Party::Service(SigningServiceId(42)));
    vec![of_operator(3), of_key(2, service), of_key(1, client)]
}

fn ports(change: fn(&mut NewApiKey)) -> Ports {
    let mut ports = Ports::with_key(change);
    ports.accesses.expect_of_order().returning(|_, order, before, limit| {
        assert_eq!(order, OrderId(7));
        let id = |access: &Access| PublicAccessId::from(access.id);
        if before.is_some_and(|before| all().iter().all(|access| id(access) != before)) {
            return Ok(Some(MaybeErased::Whole(None)));
        }
        let older = |access: &Access| before.is_none_or(|before| access.id.at < before.at);
        let page = all().into_iter().filter(older).take(limit).collect();
        Ok(Some(MaybeErased::Whole(Some(page))))
    });
    ports
}

fn seen(record: &Value) -> Value {
    let names = ["actor", "api_key_id", "address", "request_id"];
    Value::Array(names.map(|name| record[name].clone()).to_vec())
}

#[actix_web::test]
async fn each_side_sees_the_keys_and_addresses_of_its_own_only() {
    let as_service: fn(&mut NewApiKey) = |key| key.for_service = Some(SigningServiceId(42));
    let hidden = |actor: &str| json!([actor, null, null, null]);
    let shown = |actor: &str, id: i64| json!([actor, id, "203.0.113.9", "5a1c"]);
    for (change, expected) in [
        (
            (|_| {}) as fn(&mut NewApiKey),
            [hidden("operator"), hidden("service"), shown("client", 1)],
        ),
        (as_service, [hidden("operator"), shown("service", 2), hidden("client")]),
    ] {
        let answer = ports(change).api().send(TestApi::get(PATH)).await;
        assert_eq!(answer.status, 200);
        let data = answer.body["data"].as_array().unwrap();
        assert_eq!(data.iter().map(seen).collect::<Vec<_>>(), expected);
        assert!(!answer.body.to_string().contains("jane"));
        let first = json!({
            "id": "1795262403000000-ff-0", "at": "2026-11-21T12:00:03.000000Z", "kind": "download",
            "position": 2, "actor": "operator", "api_key_id": null, "address": null,
            "request_id": null, "outcome": "ok",
        });
        assert_eq!(data[0], first);
        assert_eq!(data[2]["outcome"], "not_modified");
    }
}

#[actix_web::test]
async fn pages_are_linked() {
    let api = ports(|_| {}).api();
    let mut path = format!("{PATH}?limit=1");
    let mut pages = Vec::new();
    loop {
        let answer = api.send(TestApi::get(&path)).await;
        pages.push(answer.body["data"][0]["id"].as_str().unwrap().to_owned());
        let has_more = answer.body["has_more"] == true;
        assert_eq!(answer.headers.contains_key("link"), has_more);
        if !has_more {
            break;
        }
        let link = answer.header("link");
        let next = link.strip_prefix('<').unwrap().strip_suffix(">; rel=\"next\"").unwrap();
        path = next.to_owned();
    }
    let ids = all().into_iter().map(|access| PublicAccessId::from(access.id).to_string());
    assert_eq!(pages, ids.collect::<Vec<_>>());
}

#[actix_web::test]
async fn wrong_parameters_are_rejected() {
    let api = Ports::new().api();
    for (query, errors) in [
        ("starting_after=7", &[("starting_after", "invalid_format")][..]),
        ("starting_after=1-FF-3", &[("starting_after", "invalid_format")]),
        ("starting_after=", &[("starting_after", "blank")]),
        ("ending_before=1-ff-3", &[("ending_before", "unknown_parameter")]),
        ("limit=0&kind=read", &[("limit", "out_of_range"), ("kind", "unknown_parameter")]),
    ] {
        let answer = api.send(TestApi::get(&format!("{PATH}?{query}"))).await;
        assert_eq!(answer.errors(), errors, "{query}");
    }
}

#[actix_web::test]
async fn cursor_of_another_list_is_rejected() {
    let other = PublicAccessId { at: NOW, run: RunId(255) };
    let api = ports(|_| {}).api();
    let answer = api.send(TestApi::get(&format!("{PATH}?starting_after={other}"))).await;
    assert_eq!(answer.errors(), [("starting_after", "unknown_entry")]);
}

#[actix_web::test]
async fn foreign_and_erased_orders_show_nothing() {
    for (found, status, code) in
        [(None, 404, "not_found"), (Some(MaybeErased::Erased), 410, "erased")]
    {
        let mut ports = Ports::new();
        ports.accesses.expect_of_order().return_once(move |_, _, _, _| Ok(found));
        ports.api().send(TestApi::get(PATH)).await.problem(status, code);
    }
    Ports::new().api().send(TestApi::get("/api/order/x/accesses")).await.problem(404, "not_found");
}
