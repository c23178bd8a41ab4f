//! Reads orders back, alone and in lists.

use std::collections::BTreeSet;

use contract_tests::samples::maximal_request;
use domain::{api_key::Scope, order::SigningServiceId, use_cases::keys::manage_keys::KeyTerms};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use time::Duration;

use crate::{
    harness::{created, order},
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    order_reads_back_as_it_was_created,
    details_create_an_equal_order,
    unchanged_order_is_not_sent_again,
    links_lead_through_all_orders,
    filters_combine_for_both_sides,
}

/// Returns the identifiers of the orders on a page.
pub fn ids(list: &Value) -> Vec<i64> {
    list["data"].as_array().unwrap().iter().map(|it| it["order_id"].as_i64().unwrap()).collect()
}

/// Returns the path that `Link` has for a relation.
pub fn link(response: &Response, relation: &str) -> Option<String> {
    let links = response.headers().get("link")?.to_str().unwrap().to_owned();
    let wanted = format!("; rel=\"{relation}\"");
    let link = links.split(", ").find_map(|link| link.strip_suffix(&wanted).map(str::to_owned))?;
    Some(link.trim_matches(['<', '>']).to_owned())
}

async fn order_reads_back_as_it_was_created(kind: Kind) {
    let app = kind.app().await;
    let mut record = created(app.create(&maximal_request()).await).await;

    let mut read = app.read(&format!("/api/order/{}", record["order_id"])).await;

    let members: BTreeSet<_> = read.as_object().unwrap().keys().cloned().collect();
    let mut expected: BTreeSet<_> = record.as_object().unwrap().keys().cloned().collect();
    let of_reads = [
        "appointment",
        "attention",
        "calendar_uid",
        "client_name",
        "details",
        "documents",
        "documents_fetched",
        "documents_to_fetch",
        "documents_uploaded",
        "history",
        "notary",
        "notes",
        "scanbacks_required",
        "signed_documents",
        "signed_documents_uploaded",
        "signing_city",
        "signing_service_name",
        "signing_state",
        "signing_type",
    ];
    expected.extend(of_reads.map(str::to_owned));
    assert_eq!(members, expected);
    let details = read["details"].take();
    for name in [
        "documents_uploaded",
        "documents_fetched",
        "documents_to_fetch",
        "signed_documents_uploaded",
    ] {
        record[name] = json!(0);
    }
    for name in ["documents", "signed_documents", "notes"] {
        record[name] = json!([]);
    }
    assert!(read["client_name"].is_string());
    record["client_name"] = read["client_name"].clone();
    // No service has a record, and no notary is assigned.
    record["signing_service_name"] = Value::Null;
    record["notary"] = Value::Null;
    for name in ["appointment", "attention", "signing_city", "signing_state"] {
        assert!(!read[name].is_null(), "{name}");
        record[name] = read[name].clone();
    }
    let signing = &details["signingDetailsFormData"];
    record["signing_type"] = signing["signingType"].clone();
    record["scanbacks_required"] = signing["scanbacksRequired"].clone();
    record["details"] = Value::Null;
    record["history"] = json!([{
        "at": record["created_at"],
        "kind": "created",
        "order_status": "NEW",
        "notary_id": null,
        "actor": "client",
        // The name of the key.
        "by": "test",
        "reason": null,
    }]);
    assert!(read["calendar_uid"].as_str().unwrap().starts_with("order-1-"));
    record["calendar_uid"] = read["calendar_uid"].clone();
    assert_eq!(read, record);
    assert_eq!(details["signingContactsFormData"], maximal_request()["signingContactsFormData"],);
}

async fn details_create_an_equal_order(kind: Kind) {
    let app = kind.app().await;
    let first = created(app.create(&maximal_request()).await).await;
    let mut details =
        app.read(&format!("/api/order/{}", first["order_id"])).await["details"].take();
    let mut again = details.clone();
    again["signingServiceId"] = first["signing_service_id"].clone();
    again["signingDetailsFormData"]["fileNumber"] = json!("OTHER");

    let second = created(app.create(&again).await).await;

    details["signingDetailsFormData"]["fileNumber"] = json!("OTHER");
    let read = app.read(&format!("/api/order/{}", second["order_id"])).await;
    assert_eq!(read["details"], details);
}

async fn unchanged_order_is_not_sent_again(kind: Kind) {
    let app = kind.app().await;
    created(app.order_with_deed("F-1").await).await;
    for path in ["/api/order/1", "/api/order", "/api/order/1/documents", "/api/order/1/documents/0"]
    {
        let first = app.get(path).await;
        let tag = first.headers()["etag"].clone();
        assert_eq!(first.headers()["cache-control"], "private, no-cache", "{path}");
        let request = app.request(Method::GET, path);
        let again = request.header("if-none-match", &tag).send().await.unwrap();
        assert_eq!((again.status().as_u16(), &again.headers()["etag"]), (304, &tag), "{path}");
        assert!(again.bytes().await.unwrap().is_empty());
        let head = app.request(Method::HEAD, path).send().await.unwrap();
        let of_get = app.get(path).await;
        assert_eq!(head.status(), 200, "{path}");
        for name in ["etag", "content-type", "content-length", "cache-control"] {
            assert_eq!(head.headers()[name], of_get.headers()[name], "{path} {name}");
        }
        assert!(head.bytes().await.unwrap().is_empty(), "{path}");
    }
}

async fn links_lead_through_all_orders(kind: Kind) {
    let app = kind.app().await;
    for number in 1..=7 {
        created(app.order(&format!("F-{number}")).await).await;
    }
    let first = app.get("/api/order?limit=3").await;
    let (next, previous) = (link(&first, "next").unwrap(), link(&first, "prev"));
    let first: Value = first.json().await.unwrap();
    assert_eq!((ids(&first), &first["has_more"], previous), (vec![7, 6, 5], &json!(true), None));
    let second = app.get(&next).await;
    let (next, previous) = (link(&second, "next").unwrap(), link(&second, "prev").unwrap());
    assert_eq!(ids(&second.json().await.unwrap()), [4, 3, 2]);
    let last = app.get(&next).await;
    assert_eq!(link(&last, "next"), None);
    let last: Value = last.json().await.unwrap();
    assert_eq!((ids(&last), &last["has_more"]), (vec![1], &json!(false)));
    assert_eq!(ids(&app.read(&previous).await), [7, 6, 5]);
    let newer = app.read("/api/order?limit=2&ending_before=3").await;
    assert_eq!((ids(&newer), &newer["has_more"]), (vec![5, 4], &json!(true)));
}

async fn filters_combine_for_both_sides(kind: Kind) {
    let app = kind.app().await;
    let of_service = KeyTerms {
        for_service: Some(SigningServiceId(42)),
        scopes: Scope::DEFAULT_OF_SERVICES.into_iter().collect(),
        ..KeyTerms::default()
    };
    let service = app.as_key(&app.issue_key_on(of_service).await);
    for number in 1..=4 {
        let mut order = order(&format!("F-{number}"));
        let details = &mut order["signingDetailsFormData"];
        details["signingDate"] = json!(format!("2026-12-0{number}"));
        details["coSignerName"] = json!(format!("Zoë Straße{number}"));
        app.clock.advance(Duration::SECOND);
        created(app.create(&order).await).await;
    }
    let before = app.read("/api/order/4").await["updated_at"].as_str().unwrap().to_owned();
    app.clock.advance(Duration::SECOND);
    for id in [1, 3] {
        let request = service.request(Method::PATCH, &format!("/api/order/{id}"));
        let request = request.json(&json!({ "order_status": "on hold" }));
        assert_eq!(request.send().await.unwrap().status(), 200);
    }
    for (query, expected) in [
        ("order_status=NEW".to_owned(), vec![4, 2]),
        ("order_status=On-Hold,SIGNED".to_owned(), vec![3, 1]),
        ("order_status=new,ON_HOLD".to_owned(), vec![4, 3, 2, 1]),
        ("signing_date_from=2026-12-02&signing_date_to=2026-12-03".to_owned(), vec![3, 2]),
        ("signing_date_from=2026-12-02&order_status=ON_HOLD".to_owned(), vec![3]),
        (format!("updated_after={before}"), vec![4, 3, 1]),
        (format!("updated_after={before}&order_status=NEW"), vec![4]),
        ("search=STRASSE2,%20zo%C3%8B".to_owned(), vec![2]),
        ("search=jane&signing_date_to=2026-12-01".to_owned(), vec![1]),
        ("search=jane&file_number=F-3".to_owned(), vec![3]),
        ("search=nobody".to_owned(), vec![]),
        (format!("created_before={before}&limit=2"), vec![3, 2]),
    ] {
        for api in [&*app, &service] {
            let list = api.read(&format!("/api/order?{query}")).await;
            assert_eq!(ids(&list), expected, "{query}");
        }
    }
    let page = app.get("/api/order?order_status=new,on%20hold&limit=3").await;
    let next = link(&page, "next").unwrap();
    assert_eq!(ids(&app.read(&next).await), [1]);
}
