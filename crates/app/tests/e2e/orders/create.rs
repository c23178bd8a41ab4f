//! Orders without documents.

use serde_json::json;
use time::Duration;

use crate::{
    harness::{TestApp, created, order, problem},
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    response_is_exactly_the_order_record,
    duplicate_inside_window_is_rejected,
    window_is_a_setting,
}

async fn response_is_exactly_the_order_record(kind: Kind) {
    let app = kind.app().await;
    let response = app.order("F-1").await;
    assert_eq!(response.headers()["content-type"], "application/json");
    assert!(response.headers().contains_key("x-request-id"));
    let record = created(response).await;
    let expected = json!({
        "order_id": 1,
        "file_number": "F-1",
        "order_status": "NEW",
        "signer_name": "Jane Doe",
        "signing_date": "2026-12-01",
        "property_address": "123 Main St, Dallas, TX 75201",
        "signing_service_id": 42,
        "client_company_id": null,
        "notary_id": null,
        "invoice_fee": null,
        "notary_pay": null,
        "created_at": "2026-11-21T12:00:00.000000Z",
        "updated_at": "2026-11-21T12:00:00.000000Z"
    });
    assert_eq!(record, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_utc_datetime_is_counted() {
    let app = TestApp::start().await;
    let mut order = order("F-1");
    order["utcTimeDate"] = json!("2026-12-01T14:30:00Z");
    created(app.create(&order).await).await;
    let counted = r#"notary_orders_utc_disagreements_total{field="utcTimeDate"} 1"#;
    app.assert_metrics(&[counted]).await;
}

async fn duplicate_inside_window_is_rejected(kind: Kind) {
    let app = kind.app().await;
    created(app.order("F-1").await).await;
    app.clock.advance(Duration::milliseconds(17_500));
    let rejected = app.order(" F-1 ").await;
    assert_eq!(rejected.headers()["retry-after"], "43");
    problem(rejected, 409, "duplicate_order").await;
    created(app.order("f-1").await).await;
    app.clock.advance(Duration::milliseconds(42_499));
    problem(app.order("F-1").await, 409, "duplicate_order").await;
    app.clock.advance(Duration::MILLISECOND);
    created(app.order("F-1").await).await;
    problem(app.order("F-1").await, 409, "duplicate_order").await;
}

async fn window_is_a_setting(kind: Kind) {
    let app = kind.app_with(&["--duplicate-window-secs=5"]).await;
    created(app.order("F-1").await).await;
    app.clock.advance(Duration::seconds(5));
    created(app.order("F-1").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn base_path_precedes_every_path() {
    let app = TestApp::start_with(&["--base-path=/signing/v1/"]).await;
    problem(app.order("F-1").await, 404, "not_found").await;
    let request = app.post("/signing/v1/api/order/create").json(&order("F-1"));
    created(request.send().await.unwrap()).await;
}
