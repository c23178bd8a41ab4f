//! Causes every error of the API on both operations.

use domain::api_key::manage_keys::KeyTerms;
use futures_util::future::join_all;
use reqwest::{Method, RequestBuilder, header};
use serde_json::{Value, json};
use time::Duration;

use crate::harness::{
    CREATE, CREATE_WITH_DOCUMENTS, TestApp, created, deed, errors, file, form, order, problem,
};

#[tokio::test(flavor = "multi_thread")]
async fn missing_or_malformed_credentials_are_unauthorized() {
    let app = TestApp::start().await;
    for path in [CREATE, CREATE_WITH_DOCUMENTS] {
        for value in [
            None,
            Some(""),
            Some("Bearer"),
            Some("Basic abc"),
            Some("Bearer a b"),
            Some(app.key.as_str()),
        ] {
            let mut request = app.client.post(app.url(path)).body("not read");
            if let Some(value) = value {
                request = request.header(header::AUTHORIZATION, value);
            }
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
async fn bound_key_is_limited_to_its_signing_service() {
    let app = TestApp::start().await;
    let other = app.as_key(&app.issue_key(Some(7)).await);
    for path in [CREATE, CREATE_WITH_DOCUMENTS] {
        let response = other.order_on(path, "F-1").send().await.unwrap();
        let challenge = r#"Bearer realm="notary-orders", error="insufficient_scope""#;
        assert_eq!(response.headers()["www-authenticate"], challenge);
        problem(response, 403, "forbidden").await;
    }
    app.assert_untouched();
    let own = app.as_key(&app.issue_key(Some(42)).await);
    created(own.order("F-1").await).await;
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
    for path in [CREATE, CREATE_WITH_DOCUMENTS] {
        for method in [
            Method::GET,
            Method::PUT,
            Method::DELETE,
            Method::PATCH,
            Method::OPTIONS,
            Method::from_bytes(b"BREW").unwrap(),
        ] {
            let response = app.client.request(method, app.url(path)).send().await.unwrap();
            assert_eq!(response.headers()["allow"], "POST");
            problem(response, 405, "method_not_allowed").await;
        }
    }
    app.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_content_type_is_unsupported() {
    let app = TestApp::start().await;
    let body = order("F-1").to_string();
    let assert_unsupported = async |request: RequestBuilder| {
        problem(request.send().await.unwrap(), 415, "unsupported_media_type").await;
    };
    for content_type in [
        "",
        "text/plain",
        "application/xml",
        "application/jsonp",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=b",
        "nonsense",
    ] {
        let request = app.post(CREATE).header(header::CONTENT_TYPE, content_type);
        assert_unsupported(request.body(body.clone())).await;
    }
    assert_unsupported(app.post(CREATE).body(body.clone())).await;
    for content_type in [
        "application/json",
        "multipart/mixed; boundary=b",
        "multipart/form-dat; boundary=b",
        "text/plain",
        "nonsense",
    ] {
        let request = app.post(CREATE_WITH_DOCUMENTS).header(header::CONTENT_TYPE, content_type);
        assert_unsupported(request.body(body.clone())).await;
    }
    let encoded = app
        .post(CREATE)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONTENT_ENCODING, "gzip");
    assert_unsupported(encoded.body(body.clone())).await;
    app.assert_untouched();
    let with_parameter = app
        .post(CREATE)
        .header(header::CONTENT_TYPE, "Application/JSON; charset=utf-8")
        .body(body)
        .send()
        .await
        .unwrap();
    assert_eq!(with_parameter.status(), 201);
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
    let expected = [
        ("/signingContactsFormData/orderContactEmail", "invalid_format"),
        ("/signingDetailsFormData/timeZoneId", "unknown_time_zone"),
        ("/signingDetailsFormData/city", "blank"),
        ("/signingDetailsFormData/zipcode", "wrong_type"),
        ("/signingDetailsFormData/signerName", "required"),
        ("/requestedBy/userId", "out_of_range"),
    ];
    let form = form(&bad).part("documents", file("deed.pdf", deed()));
    for response in [app.create(&bad).await, app.create_with(form).await] {
        let body = problem(response, 400, "validation_failed").await;
        assert_eq!(errors(&body), expected);
        assert!(body["errors"].as_array().unwrap().iter().all(|error| error["detail"].is_string()));
        assert!(!body.to_string().contains("no-address"));
    }
    app.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_document_store_fails_only_uploads() {
    let app = TestApp::start().await;
    app.wiring.break_documents();
    let response = app.order_with_deed("F-1").await;
    assert!(response.headers().contains_key("retry-after"));
    let body = problem(response, 503, "unavailable").await;
    assert!(!body.to_string().contains("documents"), "{body}");
    app.assert_spool_empty();
    assert_eq!(app.rows("orders"), 0);
    assert_eq!(app.order("F-1").await.status(), 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_database_is_internal_problem_without_details() {
    let app = TestApp::start().await;
    app.wiring.spoil_database();
    for response in [app.order("F-1").await, app.order_with_deed("F-2").await] {
        let body = problem(response, 500, "internal").await;
        for word in ["table", "orders\"", "sqlite", "diesel"] {
            assert!(!body["detail"].as_str().unwrap().to_lowercase().contains(word), "{body}");
        }
    }
    assert_eq!(app.documents().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_or_missing_database_is_unavailable_quickly() {
    let app = TestApp::start().await;
    let lock = app.wiring.lock_database();
    let started = std::time::Instant::now();
    let attempt = async |at| problem(app.order(&format!("F-{at}")).await, 503, "unavailable").await;
    join_all((0..10).map(attempt)).await;
    assert!(started.elapsed() < std::time::Duration::from_secs(8), "{:?}", started.elapsed());
    drop(lock);
    // A new file number: the requests above may have created their orders.
    created(app.order("F-10").await).await;
    app.wiring.break_database();
    problem(app.order("F-11").await, 503, "unavailable").await;
    problem(app.order_with_deed("F-12").await, 503, "unavailable").await;
}
