//! The notaries that a signing service knows from its orders.

use domain::{order::SigningServiceId, use_cases::keys::manage_keys::KeyTerms};
use reqwest::Method;
use serde_json::{Value, json};
use time::Duration;

use crate::{
    harness::{Api, TestApp, created, order, problem},
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    service_finds_its_notaries_latest_first_and_no_others,
}

const PATH: &str = "/api/notaries";

/// Returns a service with a key of a signing service.
async fn service(app: &TestApp, number: i64, is_test: bool) -> Api {
    let for_service = Some(SigningServiceId(number));
    let scopes = domain::api_key::Scope::DEFAULT_OF_SERVICES.into_iter().collect();
    let terms = KeyTerms { for_service, scopes, is_test, ..KeyTerms::default() };
    app.as_key(&app.issue_key_on(terms).await)
}

async fn assign(service: &Api, order: &Value, body: &Value) {
    let path = format!("/api/order/{}", order["order_id"]);
    let changed = service.request(Method::PATCH, &path).json(body).send().await.unwrap();
    assert_eq!(changed.status(), 200);
}

async fn service_finds_its_notaries_latest_first_and_no_others(kind: Kind) {
    let app = kind.app().await;
    let dispatch = service(&app, 42, false).await;
    assert_eq!(dispatch.read(PATH).await["data"], json!([]));
    let mut orders = Vec::new();
    for number in 0..5 {
        orders.push(created(app.order(&format!("F-{number}")).await).await);
    }
    let mut of_other = order("F-9");
    of_other["signingServiceId"] = json!(43);
    let of_other = created(app.create(&of_other).await).await;
    let named = |name: &str, phone: &str| json!({ "notary": { "name": name, "phone": phone } });
    for (order, body) in [
        (0, named("Long Gone", "+1 555 010 0100")),
        (1, named("Pat Garcia", "+1 555 010 0101")),
        (2, named("Nora Tary", "+1 555 010 0102")),
        (3, named("PAT GARCIA", "+1 555 010 0103")),
        (4, json!({ "notary_id": 7 })),
    ] {
        assign(&dispatch, &orders[order], &body).await;
        app.clock.advance(if order == 0 { Duration::days(366) } else { Duration::SECOND });
    }
    let other = service(&app, 43, false).await;
    assign(&other, &of_other, &named("Ann Other", "+1 555 010 0104")).await;

    let found = dispatch.read(PATH).await;
    let shown = |one: &Value| {
        json!([one["name"], one["phone"], one["email"], one["notary_id"], one["orders"]])
    };
    let rows: Vec<_> = found["data"].as_array().unwrap().iter().map(shown).collect();
    let expected = [
        json!(["PAT GARCIA", "+1 555 010 0103", null, null, 2]),
        json!(["Nora Tary", "+1 555 010 0102", null, null, 1]),
    ];
    assert_eq!(rows, expected);
    assert_eq!((&found["url"], &found["has_more"]), (&json!(PATH), &json!(false)));
    assert_eq!(found["is_complete"], true);

    // A note is no use of a notary, a status is.
    let note = json!({ "text": "The gate code is 4711." });
    let notes = format!("/api/order/{}/notes", orders[1]["order_id"]);
    created(app.post(&notes).json(&note).send().await.unwrap()).await;
    assign(&dispatch, &orders[2], &json!({ "order_status": "CONFIRMED" })).await;
    let first = dispatch.read(&format!("{PATH}?limit=1")).await;
    assert_eq!(first["data"][0]["name"], "Nora Tary");
    assert_eq!(first["has_more"], true);
    let next = format!("{PATH}?starting_after={}", first["data"][0]["id"].as_str().unwrap());
    assert_eq!(dispatch.read(&next).await["data"][0]["name"], "PAT GARCIA");

    assert_eq!(other.read(PATH).await["data"][0]["name"], "Ann Other");
    assert_eq!(service(&app, 42, true).await.read(PATH).await["data"], json!([]));
    problem(app.get(PATH).await, 403, "forbidden").await;
}
