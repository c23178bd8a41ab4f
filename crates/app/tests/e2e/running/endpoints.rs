//! The endpoints for operators.

use std::sync::Arc;

use contract_tests::fakes::ManualClock;
use reqwest::{Method, StatusCode};
use serde_json::json;
use time::Duration;

use crate::{
    harness::{CREATE, TestApp, created, deed, eventually_async, problem},
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    missing_dependency_is_unready,
    metrics_count_requests_orders_and_mails,
}

#[tokio::test(flavor = "multi_thread")]
async fn running_service_is_alive_and_ready() {
    let app = TestApp::start().await;
    assert_eq!(app.ops("/healthz").await, (StatusCode::OK, "ok\n".to_owned()));
    let (status, body) = app.readiness().await;
    assert_eq!(status, 200);
    assert_eq!(
        body,
        json!({ "status": "ready", "database": "ok", "documents": "ok", "mail": "ok" })
    );
    assert_eq!(app.documents().len(), 0);
}

async fn missing_dependency_is_unready(kind: Kind) {
    let app = kind.app().await;
    let readiness = async || {
        let (status, body) = app.readiness().await;
        assert_eq!((status.as_u16(), app.ops("/healthz").await.0.as_u16()), (503, 200));
        [body["database"].clone(), body["documents"].clone()]
    };
    app.wiring.break_documents();
    assert_eq!(readiness().await, ["ok", "unavailable"]);
    app.wiring.break_database();
    assert_eq!(readiness().await, ["unavailable", "unavailable"]);
}

async fn metrics_count_requests_orders_and_mails(kind: Kind) {
    let app = kind.app().await;
    created(app.order("F-1").await).await;
    created(app.order_with_deed("F-2").await).await;
    problem(app.order("F-1").await, 409, "duplicate_order").await;
    app.get("/nowhere/42").await;
    let unknown_method = Method::from_bytes(b"BREW").unwrap();
    app.client.request(unknown_method, app.url(CREATE)).send().await.unwrap();
    app.mails(2).await;
    // They are counted after their outcomes are stored.
    let delivered = r#"notary_orders_mails_total{outcome="delivered"}"#;
    eventually_async(async || app.metric(delivered).await == 2).await;
    let requests = |method, route, status| {
        let labels = format!(r#"method="{method}",route="{route}",status="{status}""#);
        format!("notary_orders_http_requests_total{{{labels}}} 1")
    };
    app.assert_metrics(&[
        &requests("POST", "/api/order/create", 201),
        &requests("POST", "/api/order/create", 409),
        &requests("GET", "unmatched", 404),
        &requests("OTHER", "/api/order/create", 405),
        "notary_orders_http_request_duration_seconds_count\
         {route=\"/api/order/create-with-documents\"} 1",
        r#"notary_orders_orders_created_total{operation="json"} 1"#,
        r#"notary_orders_orders_created_total{operation="multipart"} 1"#,
        "notary_orders_duplicate_orders_total 1",
        "notary_orders_documents_stored_total 1",
        &format!("notary_orders_document_bytes_stored_total {}", deed().len()),
        "notary_orders_events_pending 0",
        "notary_orders_mails_pending 0",
        "notary_orders_mails_failed 0",
        "notary_orders_mail_oldest_age_seconds 0",
        r#"notary_orders_http_problems_total{code="duplicate_order"} 1"#,
        r#"notary_orders_http_problems_total{code="not_found"} 1"#,
        &format!(r#"notary_orders_build_info{{version="{}"}} 1"#, env!("CARGO_PKG_VERSION")),
    ])
    .await;
    let (_, metrics) = app.ops("/metrics").await;
    for name in [
        "process_resident_memory_bytes",
        "notary_orders_data_free_bytes",
        "notary_orders_data_size_bytes",
        "process_open_fds",
        "process_cpu_seconds_total",
        "notary_orders_open_connections",
        "notary_orders_spool_bytes 0",
        "notary_orders_orders_in_progress 0",
        "notary_orders_database_connections",
        "notary_orders_database_waiting_calls",
        "notary_orders_batch_size_count",
    ] {
        assert!(metrics.lines().any(|found| found.starts_with(name)), "{name}\n\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_report_readiness_for_a_minute() {
    let clock = Arc::new(ManualClock::default());
    let app = TestApp::start_on(Wiring::embedded(), Arc::clone(&clock), &[], None).await;
    created(app.order("F-1").await).await;
    let of = |dependency, value| {
        format!("notary_orders_dependency_available{{dependency=\"{dependency}\"}} {value}\n")
    };
    let before = app.ops("/metrics").await.1;
    assert!(before.contains(&of("mail", 1)) && !before.contains("dependency=\"database\""));

    app.wiring.break_documents();
    assert_eq!(app.ops("/readyz").await.0, StatusCode::SERVICE_UNAVAILABLE);
    let after = app.ops("/metrics").await.1;
    assert!(after.contains(&of("database", 1)) && after.contains(&of("documents", 0)), "{after}");

    clock.advance(Duration::seconds(61));
    let later = app.ops("/metrics").await.1;
    assert!(later.contains(&of("mail", 1)) && !later.contains("dependency=\"documents\""));
}
