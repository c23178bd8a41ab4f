//! The mails about an order.

use domain::delivery::run_deliveries::OVER_LIMIT;
use serde_json::json;

use crate::harness::{TestApp, created, eventually, eventually_async, order};

#[tokio::test(flavor = "multi_thread")]
async fn each_recipient_gets_one_mail() {
    let app = TestApp::start().await;
    let mut order = order("F-1");
    order["signingContactsFormData"] = json!({
        "orderContactEmail": "contact@example.com",
        "observer": "observer@example.com",
        "inHouseContact": { "contact_email": "house@example.com" },
        "inHouseContact2": { "contact_email": "CONTACT@example.com" }
    });
    created(app.create(&order).await).await;
    let mails = app.mails(3).await;
    for recipient in ["contact@example.com", "observer@example.com", "house@example.com"] {
        let to = format!("To: {recipient}");
        assert_eq!(mails.iter().filter(|mail| mail.contains(&to)).count(), 1, "{recipient}");
    }
    eventually(|| app.pending_mails() == 0).await;
    assert_eq!(app.wiring.mails().len(), 3);
    // They are counted after their outcomes are stored.
    let delivered = r#"notary_orders_mails_total{outcome="delivered"}"#;
    eventually_async(async || app.metric(delivered).await == 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_mail_is_retried_and_delays_no_response() {
    let app = TestApp::start().await;
    app.wiring.break_mail();
    created(app.order_with_deed("F-1").await).await;
    let postponed = r#"notary_orders_mails_total{outcome="postponed"}"#;
    eventually_async(async || app.metric(postponed).await == 1).await;
    let pending = app.storage().queue.list(false, 10).await.unwrap();
    assert_eq!((pending.len(), pending[0].attempts), (1, 0));
    assert!(pending[0].last_error.is_some());

    app.wiring.mend_mail();
    app.clock.advance(time::Duration::seconds(5));
    app.mails(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_above_the_hourly_limit_waits_for_the_operator() {
    let app = TestApp::start_with(&["--mails-per-recipient-hour=1"]).await;
    for file_number in ["F-1", "F-2"] {
        created(app.order(file_number).await).await;
    }
    app.mails(1).await;
    let over_limit = r#"notary_orders_mails_total{outcome="over_limit"}"#;
    eventually_async(async || app.metric(over_limit).await == 1).await;
    let failed = app.storage().queue.list(true, 10).await.unwrap();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].last_error.as_deref(), Some(OVER_LIMIT));

    // The operator decides: a retry is not counted again.
    assert!(app.storage().queue.retry(failed[0].id, failed[0].created_at).await.unwrap());
    app.mails(2).await;
}
