//! Causes every error of the API on both operations.

use contract_tests::documents;
use domain::use_cases::keys::manage_keys::KeyTerms;
use reqwest::{Method, header};
use serde_json::{Value, json};
use time::Duration;

use crate::{
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, TestApp, created, deed, errors, file, form, order, problem,
    },
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    broken_database_is_internal_problem_without_details,
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_or_malformed_credentials_are_unauthorized() {
    let app = TestApp::start().await;
    for path in [CREATE, CREATE_WITH_DOCUMENTS] {
        for value in [None, Some("Basic abc"), Some(app.key.as_str())] {
            let request = app.client.post(app.url(path)).body("not read");
            let request = value
                .into_iter()
                .fold(request, |request, value| request.header(header::AUTHORIZATION, value));
            let response = request.send().await.unwrap();
            assert_eq!(response.headers()["www-authenticate"], r#"Bearer realm="notary-orders""#);
            problem(response, 401, "unauthorized").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_expired_or_revoked_key_is_invalid_token() {
    let app = TestApp::start().await;
    let assert_invalid = async |token: &str| {
        for path in [CREATE, CREATE_WITH_DOCUMENTS] {
            let response = app.as_key(token).order_on(path, "F-1").send().await.unwrap();
            let challenge = r#"Bearer realm="notary-orders", error="invalid_token""#;
            assert_eq!(response.headers()["www-authenticate"], challenge);
            problem(response, 401, "unauthorized").await;
        }
    };
    assert_invalid("nonsense").await;
    // An unknown key, and a known one with another secret.
    for at in [4, app.key.len() - 1] {
        let mut changed = app.key.clone().into_bytes();
        changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
        assert_invalid(&String::from_utf8(changed).unwrap()).await;
    }

    let keys = app.storage().manage_keys(app.machine());
    let terms =
        KeyTerms { name: "short".to_owned(), lifetime: Some(Duration::DAY), ..KeyTerms::default() };
    let (_, expiring) = keys.issue(terms, "tests").await.unwrap();
    app.clock.advance(Duration::DAY);
    assert_invalid(expiring.expose()).await;
    let id = keys.keys.list().await.unwrap()[0].id;
    keys.revoke(id, "tests").await.unwrap();
    assert_invalid(&app.key).await;
    app.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_paths_and_methods_are_problems() {
    let app = TestApp::start().await;
    for path in [
        "/api/orders",
        "/api/order/create/",
        "/API/ORDER/CREATE",
        "/api%2Forder/create",
        "/metrics",
        "/healthz",
    ] {
        problem(app.post(path).json(&order("F-1")).send().await.unwrap(), 404, "not_found").await;
    }
    for method in [Method::PATCH, Method::from_bytes(b"BREW").unwrap()] {
        let response = app.client.request(method, app.url(CREATE)).send().await.unwrap();
        assert_eq!(response.headers()["allow"], "POST");
        problem(response, 405, "method_not_allowed").await;
    }
    app.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_content_type_is_unsupported() {
    let app = TestApp::start().await;
    let send = async |content_type| {
        let request = app.post(CREATE).header(header::CONTENT_TYPE, content_type);
        request.body(order("F-1").to_string()).send().await.unwrap()
    };
    for content_type in ["", "text/plain", "application/jsonp", "multipart/form-data; boundary=b"] {
        problem(send(content_type).await, 415, "unsupported_media_type").await;
    }
    let without = app.post(CREATE).body(order("F-1").to_string()).send().await.unwrap();
    problem(without, 415, "unsupported_media_type").await;
    app.assert_untouched();
    created(send("Application/JSON; charset=utf-8").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_operations_report_all_violations_at_once() {
    let app = TestApp::start().await;
    let mut bad = order("F-1");
    bad["signingContactsFormData"]["orderContactEmail"] = json!("no-address");
    bad["signingDetailsFormData"]["city"] = json!("  ");
    bad["signingDetailsFormData"]["zipcode"] = json!(75201);
    bad["signingDetailsFormData"]["signerName"] = Value::Null;
    bad["signingDetailsFormData"]["timeZoneId"] = json!("Texas");
    bad["requestedBy"] = json!({ "userId": -1 });
    let in_fields = [
        ("/requestedBy/userId", "out_of_range"),
        ("/signingContactsFormData/orderContactEmail", "invalid_format"),
        ("/signingDetailsFormData/city", "blank"),
        ("/signingDetailsFormData/signerName", "required"),
        ("/signingDetailsFormData/timeZoneId", "unknown_time_zone"),
        ("/signingDetailsFormData/zipcode", "wrong_type"),
    ];
    let in_documents = [
        ("/documents/0", "unsupported_extension"),
        ("/documents/1", "empty_document"),
        ("/documents/3", "content_mismatch"),
    ];
    // The media type of a part proves nothing.
    let disguised = file("d.pdf", documents::bytes("signature-page.png"));
    let disguised = disguised.mime_str("application/pdf").unwrap();
    let form = form(&bad)
        .part("documents", file("a.exe", "MZ"))
        .part("documents", file("b.pdf", ""))
        .part("documents", file("c.pdf", deed()))
        .part("documents", disguised);
    for (response, expected) in [
        (app.create(&bad).await, in_fields.to_vec()),
        (app.create_with(form).await, [&in_fields[..], &in_documents].concat()),
    ] {
        let body = problem(response, 400, "validation_failed").await;
        assert_eq!(errors(&body), expected);
        assert!(body["errors"].as_array().unwrap().iter().all(|error| error["detail"].is_string()));
        assert!(!body.to_string().contains("no-address"));
    }
    app.assert_untouched();
}

async fn broken_database_is_internal_problem_without_details(kind: Kind) {
    let app = kind.app().await;
    app.wiring.spoil_database();
    for response in [app.order("F-1").await, app.order_with_deed("F-2").await] {
        let body = problem(response, 500, "internal").await;
        for word in ["table", "orders\"", "sqlite", "diesel"] {
            assert!(!body["detail"].as_str().unwrap().to_lowercase().contains(word), "{body}");
        }
    }
    assert_eq!(app.documents().len(), 0);
}
