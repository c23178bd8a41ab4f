//! Instances whose clocks differ from each other, or from that of the database.

use std::sync::Arc;

use contract_tests::fakes::ManualClock;
use domain::{
    api_key::Scope, delivery::LEASE, document::ObjectKey, ports::Clock as _,
    use_cases::keys::manage_keys::KeyTerms,
};
use serde_json::json;
use time::Duration;

use crate::{
    harness::webhook_receiver::Receiver,
    harness::{TestApp, WEBHOOKS, created, eventually, eventually_async},
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    start_with_a_clock_that_is_ahead_removes_no_access_and_no_upload,
    accesses_have_the_time_of_now_after_a_clock_was_ahead,
}

/// From a day back to ten years ahead; the last is tolerated.
const OFF: [Duration; 6] = [
    Duration::days(-1),
    Duration::minutes(-10),
    Duration::seconds(-150),
    Duration::seconds(150),
    Duration::days(10 * 365),
    Duration::seconds(-50),
];

/// The state of the clocks as the metrics show it.
async fn erasures_wait(app: &TestApp) -> bool {
    app.metric("notary_orders_erasures_wait").await == 1
}

/// The second instance has a relay of its own, which takes mails at once: it would deliver again what the first
/// has in progress.
#[tokio::test(flavor = "multi_thread")]
async fn instances_whose_clocks_differ_send_each_mail_once() {
    for off in OFF {
        let first = Kind::Production.app().await;
        let database = first.clock.clone();
        let clock = Arc::new(ManualClock::default());
        clock.set(database.now() - clock.now() + off);
        let stores = Wiring::on_database(first.wiring.servers().database_url());
        let key = Some(first.key.clone());
        // Its bucket is another, so it takes the database for a copy.
        let flags = ["--sends-messages=true"];
        let second =
            TestApp::start_beside(stores, clock.clone(), database.clone(), &flags, key).await;
        first.wiring.servers().stall_mail();
        created(first.order("F-1").await).await;
        let is_off = off.abs() > Duration::MINUTE;
        if is_off {
            first.wiring.servers().a_mail_stalls().await;
            eventually_async(async || erasures_wait(&second).await).await;
            created(second.order("F-2").await).await;
        }
        first.wiring.servers().mails_go_on();
        eventually(|| first.pending_mails() == 0).await;
        let sent = || first.wiring.mails().len() + second.wiring.mails().len();
        assert_eq!(sent(), if is_off { 2 } else { 1 }, "{off}");
        if is_off {
            assert_eq!(second.wiring.mails().len(), 0, "{off}");
            // The clock is set right.
            let _relay_of_second = first.stop().await;
            clock.set(-off);
            clock.advance(LEASE);
            database.advance(LEASE);
            created(second.order("F-3").await).await;
            second.mails(1).await;
        }
    }
}

/// The second instance would take the lease of an attempt in progress for ended.
#[tokio::test(flavor = "multi_thread")]
async fn instances_whose_clocks_differ_send_each_webhook_once() {
    for off in OFF {
        let first = Kind::Production.app_with(&WEBHOOKS).await;
        let scopes = Scope::ALL.into_iter().collect();
        let key = first.issue_key_on(KeyTerms { scopes, ..KeyTerms::default() }).await;
        let (client, receiver) = (first.as_key(&key), Receiver::holding());
        let webhook = json!({ "url": receiver.url(), "events": ["order.created"] });
        created(client.post("/api/webhooks").json(&webhook).send().await.unwrap()).await;
        let database = first.clock.clone();
        let clock = Arc::new(ManualClock::default());
        clock.set(database.now() - clock.now() + off);
        let stores = Wiring::on_database(first.wiring.servers().database_url());
        // Its bucket is another, so it takes the database for a copy.
        let flags = [&WEBHOOKS[..], &["--sends-messages=true"]].concat();
        let second =
            TestApp::start_beside(stores, clock, database, &flags, Some(key.clone())).await;
        if off.abs() > Duration::MINUTE {
            eventually_async(async || erasures_wait(&second).await).await;
        }
        created(client.order("F-1").await).await;
        eventually(|| receiver.received().len() == 1).await;
        created(second.order("F-2").await).await;
        eventually(|| first.rows("webhook_deliveries") == 2).await;
        receiver.answer();
        let pending = "SELECT count(*) FROM webhook_deliveries WHERE delivered_at IS NULL";
        eventually(|| first.wiring.lines(pending) == ["0"]).await;
        let attempts: Vec<_> = receiver.received().into_values().collect();
        assert_eq!(attempts, [1, 1], "{off}");
    }
}

/// The clock of the database stays right, where there is one.
async fn start_with_a_clock_that_is_ahead_removes_no_access_and_no_upload(kind: Kind) {
    let app = kind.app().await;
    created(app.order("F-1").await).await;
    app.read("/api/order/1").await;
    eventually(|| app.rows("accesses") == 1).await;
    let upload = ObjectKey::random(&operator::OsEntropy);
    app.storage().uploads.record(&[upload], app.clock.now()).await.unwrap();
    let (key, database) = (Some(app.key.clone()), Arc::new(ManualClock::default()));
    let (mut wiring, clock) = (app.stop().await, Arc::new(ManualClock::default()));
    for ahead in [Duration::days(4 * 365), Duration::days(10 * 365)] {
        clock.set(ahead);
        let app =
            TestApp::start_beside(wiring, clock.clone(), database.clone(), &[], key.clone()).await;
        eventually_async(async || erasures_wait(&app).await).await;
        // The stop waits for the first step of each worker.
        wiring = app.stop().await;
        assert_eq!((wiring.rows("accesses"), wiring.rows("uploads")), (1, 1), "{ahead}");
        clock.set(-ahead);
    }
}

async fn accesses_have_the_time_of_now_after_a_clock_was_ahead(kind: Kind) {
    let app = kind.app().await;
    created(app.order("F-1").await).await;
    for (number, set_by) in [(1, Duration::ZERO), (2, Duration::DAY), (3, -Duration::DAY)] {
        app.clock.set(set_by);
        app.read("/api/order/1").await;
        eventually(|| app.rows("accesses") == number).await;
    }
    let accesses = app.read("/api/order/1/accesses").await;
    let accesses = accesses["data"].as_array().unwrap().clone();
    assert_eq!(accesses.len(), 3);
    for access in accesses {
        let at = access["at"].as_str().unwrap();
        assert!(at.starts_with("2026-11-21T12:00:00"), "{at}");
    }
}
