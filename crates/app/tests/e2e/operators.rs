//! What operators are told.

use serde_json::Value;

use crate::harness::{CREATE, TestApp, created, form_with_deed, order, problem};

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_runs_is_alive_and_ready() {
    let app = TestApp::start().await;
    assert_eq!(app.ops("/healthz").await, (reqwest::StatusCode::OK, "ok\n".to_owned()));
    let (status, body) = app.ops("/readyz").await;
    assert_eq!(status, 200);
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body, serde_json::json!({ "status": "ready", "database": "ok", "documents": "ok" }));
    assert_eq!(app.documents().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_asks_the_document_store() {
    let app = TestApp::start().await;
    app.wiring.break_documents();
    let (status, body) = app.ops("/readyz").await;
    assert_eq!(status, 503);
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&body["database"], &body["documents"]), (&"ok".into(), &"unavailable".into()));
    assert_eq!(app.ops("/healthz").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_asks_the_database() {
    let app = TestApp::start().await;
    app.wiring.break_database();
    let (status, body) = app.ops("/readyz").await;
    assert_eq!(status, 503);
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&body["database"], &body["documents"]), (&"unavailable".into(), &"ok".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_what_happened() {
    let app = TestApp::start().await;
    created(app.create(&order("F-1")).await).await;
    created(app.create_with(form_with_deed("F-2")).await).await;
    problem(app.create(&order("F-1")).await, 409, "duplicate_order").await;
    app.client.get(app.url("/nowhere/42")).send().await.unwrap();
    app.client
        .request(reqwest::Method::from_bytes(b"BREW").unwrap(), app.url(CREATE))
        .send()
        .await
        .unwrap();
    app.mails(2).await;
    crate::harness::eventually(|| app.rows("deliveries") == 0).await;
    let (status, metrics) = app.ops("/metrics").await;
    assert_eq!(status, 200);
    for line in [
        r#"notary_orders_http_requests_total{method="POST",route="/api/order/create",status="201"} 1"#,
        r#"notary_orders_http_requests_total{method="POST",route="/api/order/create",status="409"} 1"#,
        r#"notary_orders_http_requests_total{method="GET",route="unmatched",status="404"} 1"#,
        r#"notary_orders_http_requests_total{method="OTHER",route="/api/order/create",status="405"} 1"#,
        r#"notary_orders_http_request_duration_seconds_count{route="/api/order/create-with-documents"} 1"#,
        r#"notary_orders_orders_created_total{operation="json"} 1"#,
        r#"notary_orders_orders_created_total{operation="multipart"} 1"#,
        "notary_orders_duplicate_orders_total 1",
        "notary_orders_documents_stored_total 1",
        &format!("notary_orders_document_bytes_stored_total {}", crate::harness::deed().len()),
        "notary_orders_follow_ups_pending 0",
        "notary_orders_follow_ups_buried 0",
        "notary_orders_follow_up_oldest_age_seconds 0",
        r#"notary_orders_mails_total{outcome="delivered"} 2"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}\n\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_openapi_document_names_both_operations() {
    let app = TestApp::start().await;
    let document: Value =
        app.client.get(app.url("/openapi.json")).send().await.unwrap().json().await.unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    for path in ["/api/order/create", "/api/order/create-with-documents"] {
        assert!(document["paths"][path]["post"]["responses"]["201"].is_object(), "{path}");
    }
    assert_eq!(
        document["components"]["schemas"]["SigningDetailsRequest"]["properties"]
            .as_object()
            .unwrap()
            .len(),
        39
    );
    assert_eq!(
        document["components"]["schemas"]["SigningDetailsRequest"]["required"]
            .as_array()
            .unwrap()
            .len(),
        12
    );
}
