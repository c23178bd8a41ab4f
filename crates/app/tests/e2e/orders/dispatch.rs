//! The lists of a dispatcher: what is late, who is searched for, and what comes next.

use domain::ports::Clock as _;
use operator::SystemClock;
use reqwest::Method;
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};

use super::changes::{as_service, instances};
use crate::{
    harness::{Api, created, eventually_async, order},
    orders::read::{ids, link},
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    late_orders_are_in_lists_reads_and_metrics,
    search_finds_an_order_by_what_people_know_of_it,
    agenda_is_read_page_by_page,
}

/// Returns a request of an order that begins at an instant.
fn at(file_number: &str, starts: OffsetDateTime) -> Value {
    let mut request = order(file_number);
    let details = &mut request["signingDetailsFormData"];
    details["signingDate"] = json!(starts.date().to_string());
    details["specificTime"] = json!(format!("{:02}:{:02}", starts.hour(), starts.minute()));
    details["timeZoneId"] = json!("Etc/UTC");
    request
}

async fn id_of(api: &Api, request: &Value) -> i64 {
    created(api.create(request).await).await["order_id"].as_i64().unwrap()
}

async fn patch(service: &Api, id: i64, body: &Value) -> Value {
    let patch = service.request(Method::PATCH, &format!("/api/order/{id}")).json(body);
    let answer = patch.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.json().await.unwrap()
}

/// Returns every identifier of a list, page by page.
async fn all(api: &Api, path: &str) -> Vec<i64> {
    let (mut found, mut path) = (Vec::new(), Some(path.to_owned()));
    while let Some(current) = path {
        let page = api.get(&current).await;
        path = link(&page, "next");
        found.extend(ids(&page.json().await.unwrap()));
    }
    found
}

async fn late_orders_are_in_lists_reads_and_metrics(kind: Kind) {
    let wiring = kind.wiring();
    let instances = instances(&wiring);
    let client = &instances[0];
    let service = as_service(&wiring, client);
    let now = SystemClock.now();
    let soon = id_of(client, &at("F-1", now + Duration::minutes(90))).await;
    let later = id_of(client, &at("F-2", now + Duration::hours(30))).await;
    let past = id_of(client, &at("F-3", now - Duration::hours(30))).await;
    let expected = [
        (soon, json!(["unassigned", "no_documents"])),
        (later, json!([])),
        (past, json!(["no_result"])),
    ];
    for api in [&**client, &service] {
        let list = api.read("/api/order").await;
        for (id, codes) in &expected {
            let read = api.read(&format!("/api/order/{id}")).await;
            assert_eq!(read["attention"], *codes, "{id}");
            let listed = list["data"].as_array().unwrap().iter().find(|it| it["order_id"] == *id);
            assert_eq!(listed.unwrap()["attention"], *codes, "{id}");
        }
        for (filter, expected) in [
            ("any", vec![past, soon]),
            ("no_documents,no_scanbacks", vec![soon]),
            ("no_result", vec![past]),
            ("any&order_by=appointment", vec![past, soon]),
            ("any&file_number=F-1", vec![soon]),
            ("not_fetched", vec![]),
        ] {
            assert_eq!(all(api, &format!("/api/order?attention={filter}")).await, expected);
        }
    }
    let assigned = patch(&service, soon, &json!({ "notary": { "name": "Pat Quimby" } })).await;
    assert_eq!(assigned["attention"], json!(["unconfirmed", "no_documents"]));
    let read = client.get(&format!("/api/order/{soon}")).await;
    let tag = read.headers()["etag"].clone();
    let known = client.request(Method::GET, &format!("/api/order/{soon}"));
    let known = known.header("if-none-match", tag).send().await.unwrap();
    assert_eq!(known.status(), 304);
    eventually_async(async || {
        client.ops("/metrics").await.1.contains("notary_orders_attention{code=\"no_result\"} 1")
    })
    .await;
}

async fn search_finds_an_order_by_what_people_know_of_it(kind: Kind) {
    let wiring = kind.wiring();
    let instances = instances(&wiring);
    let client = &instances[0];
    let service = as_service(&wiring, client);
    let mut request = order("REFI-2026-001");
    let details = &mut request["signingDetailsFormData"];
    for (member, value) in [
        ("signerName", "Harriet O’Brien"),
        ("spouseName", "José Núñez"),
        ("signerPhone", "(214) 555-0142"),
        ("signerEmail", "harriet@home.example.com"),
        ("signingAddress", "9 Elm St."),
        ("signingCity", "Plano"),
        ("signingZipcode", "75023"),
    ] {
        details[member] = json!(value);
    }
    details["isPropertyAddressSame"] = json!(false);
    let id = id_of(client, &request).await;
    created(client.order("REFI-2026-002").await).await;
    patch(&service, id, &json!({ "notary": { "name": "Pat Quimby" } })).await;
    for text in [
        "refi-2026-001",
        "obrien, harriet",
        "nunez",
        "o'brien",
        "O%E2%80%99Brien",
        "N%C3%BA%C3%B1ez",
        "214 555",
        "(214)%20555-0142",
        "%2B1%20(214)%20555-0142",
        "o%20brien",
        "75023",
        "75201 plano",
        "elm st plano",
        "harriet@home.example.com",
        "quimby",
        "quimby, harriet",
    ] {
        for api in [&**client, &service] {
            assert_eq!(all(api, &format!("/api/order?search={text}")).await, [id], "{text}");
        }
    }
    assert_eq!(all(client, "/api/order?search=quimby jane").await, [0; 0]);
    assert_eq!(all(client, "/api/order?notary=at%20QUIM").await, [id]);
    assert_eq!(all(client, "/api/order?signing_service_id=42").await.len(), 2);
    assert_eq!(all(client, "/api/order?signing_service_id=43").await, [0; 0]);
    let name = client.read("/api/order/1").await["client_name"].as_str().unwrap().to_owned();
    let own = format!("/api/order?client={}", name.replace(' ', "%20"));
    assert_eq!(all(&service, &own).await.len(), 2);
    assert_eq!(all(&service, "/api/order?client=Nobody").await, [0; 0]);
}

async fn agenda_is_read_page_by_page(kind: Kind) {
    let wiring = kind.wiring();
    let instances = instances(&wiring);
    let client = &instances[0];
    let service = as_service(&wiring, client);
    let first = SystemClock.now() + Duration::days(3);
    let mut expected = Vec::new();
    for number in 0..7_i64 {
        let starts = first + Duration::hours(number * 5 % 7);
        let id = id_of(client, &at(&format!("F-{number}"), starts)).await;
        expected.push((number * 5 % 7, id));
    }
    expected.sort_unstable();
    let expected: Vec<_> = expected.into_iter().map(|it| it.1).collect();
    for api in [&**client, &service] {
        assert_eq!(all(api, "/api/order?order_by=appointment&limit=2").await, expected);
    }
    let last = client.get("/api/order?order_by=appointment&limit=3&ending_before=0").await;
    let before = link(&last, "prev").unwrap();
    assert_eq!(ids(&last.json().await.unwrap()), expected[4..]);
    assert_eq!(ids(&client.read(&before).await), expected[1..4]);
    let entry = &client.read("/api/order?order_by=appointment&limit=1").await["data"][0];
    assert_eq!(entry["last_change"]["kind"], "created");
    assert_eq!(entry["newest_note"], Value::Null);
    let note = client.post(&format!("/api/order/{}/notes", expected[0]));
    let note = note.json(&json!({ "text": "Ring twice." })).send().await.unwrap();
    assert_eq!(note.status(), 201);
    let entry = &service.read("/api/order?order_by=appointment&limit=1").await["data"][0];
    assert_eq!(entry["newest_note"]["author"], "client");
}
