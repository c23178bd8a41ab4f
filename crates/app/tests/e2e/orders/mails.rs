//! The mails about an order.

use domain::{delivery::run_deliveries::OVER_LIMIT, ports::Clock as _};
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
async fn mail_above_the_hourly_limit_waits_for_the_next_hour() {
    let app = TestApp::start_with(&["--mails-per-recipient-hour=1"]).await;
    for file_number in ["F-1", "F-2", "F-3"] {
        created(app.order(file_number).await).await;
    }
    app.mails(1).await;
    let waiting = "notary_orders_mails_over_limit";
    eventually_async(async || app.metric(waiting).await == 2).await;
    // The one that left is in the queue until its outcome is stored.
    eventually(|| app.pending_mails() == 2).await;
    assert_eq!(app.storage().queue.list(true, 10).await.unwrap(), []);
    let pending = app.storage().queue.list(false, 10).await.unwrap();
    assert_eq!(pending[0].last_error.as_deref(), Some(OVER_LIMIT));

    app.clock.advance(time::Duration::HOUR);
    app.mails(2).await;
    // The operator decides: a retry is not counted.
    assert!(app.storage().queue.retry(pending[1].id, app.clock.now()).await.unwrap());
    app.mails(3).await;
}
