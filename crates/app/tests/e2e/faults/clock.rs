//! The clock is set back or forward while the service runs.

use domain::{
    clock_watch::STEP_KEPT, delivery::LEASE, ports::Clock as _,
    use_cases::keys::manage_keys::KeyTerms,
};
use operator::adapters::Storage;
use reqwest::Response;
use serde_json::Value;
use time::Duration;

use crate::{
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, TestApp, created, deed, eventually, eventually_async,
        problem, service_process::ServiceProcess, settings,
    },
    operators::doctor::report::Report,
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    acknowledged_orders_survive_clock_changes,
    mail_that_a_clock_ahead_has_put_off_is_named_and_leaves,
    clock_that_keeps_its_step_is_followed,
    key_stays_valid_while_a_clock_is_wrong,
    pending_mail_is_delivered_after_clock_change,
}

const STEPS: [Duration; 4] = [Duration::HOUR, Duration::HOUR, Duration::DAY, Duration::DAY];

async fn replayed(response: Response) -> Value {
    assert_eq!(response.headers()["idempotency-replayed"], "true");
    created(response).await
}

/// Waits until exactly `count` mails are sent, and none is in progress: an advance of the clock
/// would end its lease, and it would be sent twice.
async fn all_sent(app: &TestApp, count: usize) {
    app.mails_leave().await;
    app.mails(count).await;
}

/// Returns both directions of each step.
fn steps() -> impl Iterator<Item = Duration> {
    STEPS.into_iter().zip([1_i32, -1].into_iter().cycle()).map(|(step, sign)| step * sign)
}

/// Waits until the service has noticed a step of the clock that PostgreSQL and the machine share. From then on, it
/// delivers nothing until the clock is right.
async fn deliveries_wait(app: &TestApp) {
    eventually_async(async || app.metric("notary_orders_deliveries_wait").await == 1).await;
}

/// A step that is set right within minutes changes nothing.
async fn acknowledged_orders_survive_clock_changes(kind: Kind) {
    for step in steps() {
        let app = kind.app().await;
        let json = created(app.send_with_key(CREATE, "F-1").await).await;
        let form = created(app.send_with_key(CREATE_WITH_DOCUMENTS, "F-2").await).await;

        all_sent(&app, 2).await;
        app.clock.set(step);
        let has_server = app.wiring.has_server();
        if has_server {
            deliveries_wait(&app).await;
        }

        assert_eq!(replayed(app.send_with_key(CREATE, "F-1").await).await, json);
        assert_eq!(replayed(app.send_with_key(CREATE_WITH_DOCUMENTS, "F-2").await).await, form);
        created(app.send_with_key(CREATE, "F-3").await).await;
        created(app.send_with_key(CREATE_WITH_DOCUMENTS, "F-4").await).await;
        // The window goes on by the time that has passed.
        let duplicate = app.order("F-1").await;
        let wait: i64 = duplicate.headers()["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((1..=60).contains(&wait), "{wait}");
        problem(duplicate, 409, "duplicate_order").await;
        if has_server {
            assert_eq!((app.mails(2).await.len(), app.pending_mails()), (2, 2));
            // What passes now is longer than a lease, so deliveries go on.
            app.clock.set(-step);
            assert!(Duration::seconds(wait) >= LEASE);
        } else {
            all_sent(&app, 4).await;
        }
        app.clock.advance(Duration::seconds(wait));
        created(app.order("F-1").await).await;
        all_sent(&app, 5).await;

        // Back at the right time, and two hours later, every document of an order still exists.
        if !has_server {
            app.clock.set(-step);
        }
        created(app.order("F-5").await).await;
        all_sent(&app, 6).await;
        app.clock.advance(Duration::hours(2));
        app.store_a_use().await;
        let app = app.restart(&[]).await;
        eventually(|| app.rows("uploads") == 0 && app.pending_mails() == 0).await;
        assert_eq!(app.documents(), vec![deed(); 2], "{step}");
        assert_eq!(app.rows("orders"), 6);
        assert_eq!(app.ops("/readyz").await.0, 200);
    }
}

async fn key_stays_valid_while_a_clock_is_wrong(kind: Kind) {
    let app = kind.app().await;
    let terms = KeyTerms { lifetime: Some(Duration::DAY), ..KeyTerms::default() };
    let short = app.as_key(&app.issue_key_on(terms).await);
    for (number, (days, passed, expected)) in
        (0..).zip([(0, 0, 201), (1, 0, 201), (-1, 0, 201), (0, 1, 401)])
    {
        app.clock.set(Duration::days(days));
        app.clock.advance(Duration::days(passed));
        let status = short.order(&format!("F-{number}")).await.status().as_u16();
        assert_eq!(status, expected, "{number}");
    }
}

async fn pending_mail_is_delivered_after_clock_change(kind: Kind) {
    for step in steps() {
        let app = kind.app().await;
        app.wiring.break_mail();
        created(app.order("F-1").await).await;
        first_attempt_failed(&app).await;
        app.clock.set(step);
        if app.wiring.has_server() {
            deliveries_wait(&app).await;
            app.wiring.mend_mail();
            app.clock.set(-step);
            app.clock.advance(LEASE);
        } else {
            app.wiring.mend_mail();
            // Moves the clock past the time of the next attempt.
            app.clock.advance(Duration::seconds(5));
        }
        app.mails(1).await;
        app.mails_leave().await;
    }
}

async fn first_attempt_failed(app: &TestApp) {
    eventually_async(async || {
        let mails = app.storage().queue.list(false, 1).await.unwrap();
        mails.first().is_some_and(|mail| mail.last_error.is_some())
    })
    .await;
}

async fn mail_that_a_clock_ahead_has_put_off_is_named_and_leaves(kind: Kind) {
    let app = kind.app().await;
    app.wiring.break_mail();
    created(app.order("F-1").await).await;
    first_attempt_failed(&app).await;
    let (clock, key) = (app.clock.clone(), app.key.clone());
    let wiring = app.stop().await;
    let years = if wiring.has_server() { "interval '10 years'" } else { "315360000000000" };
    wiring.execute(&format!("UPDATE deliveries SET due_at = due_at + {years}")).unwrap();
    wiring.mend_mail();
    let report = Report::on(&wiring, &[]);
    assert!(report.found("warn", "mail").contains("a clock was ahead"), "{}", report.text);
    // An attempt that the stop has ended may have left its lease.
    clock.advance(LEASE);
    let app = TestApp::start_on(wiring, clock, &[], Some(key)).await;
    app.mails(1).await;
    app.mails_leave().await;
}

async fn clock_that_keeps_its_step_is_followed(kind: Kind) {
    let app = kind.app().await;
    let created_at = async |number: &str| {
        let id = created(app.order(number).await).await["order_id"].clone();
        app.read(&format!("/api/order/{id}")).await["created_at"].as_str().unwrap().to_owned()
    };
    app.clock.set(Duration::DAY);
    assert!(created_at("F-1").await.starts_with("2026-11-21T12:00"));
    if app.wiring.has_server() {
        deliveries_wait(&app).await;
    } else {
        all_sent(&app, 1).await;
    }
    app.clock.advance(STEP_KEPT);
    eventually_async(async || app.metric("notary_orders_clock_ahead_seconds").await == 0).await;
    assert!(created_at("F-2").await.starts_with("2026-11-22T12:05"));
    // No attempt is in progress whose lease would end.
    eventually(|| app.pending_mails() + app.wiring.mails().len() == 2).await;
    app.clock.advance(LEASE);
    app.mails(2).await;
}

/// SQLite has one service, so the start knows which leases are those of a dead process.
#[tokio::test(flavor = "multi_thread")]
async fn start_attempts_at_once_what_a_killed_process_had_leased() {
    let wiring = Wiring::embedded();
    let killed = ServiceProcess::keyed(&wiring, &[]);
    wiring.break_mail();
    created(killed.order("F-1").await).await;
    let storage = Storage::open(&settings(&wiring, &[], &[])).await.unwrap();
    let queue = storage.queue;
    eventually_async(async || {
        let mails = queue.list(false, 1).await.unwrap();
        mails.first().is_some_and(|mail| mail.last_error.is_some())
    })
    .await;
    killed.kill();
    // The lease of that process ends after all that a test waits for.
    let later = operator::SystemClock.now() + Duration::minutes(2);
    assert_eq!(queue.lease(later, LEASE, 10).await.unwrap().len(), 1);
    wiring.mend_mail();
    let _running = ServiceProcess::start(&wiring, &[]);
    // Its own leases are not given to another process.
    assert_eq!(queue.end_dead_leases(later).await.unwrap(), 0);
    eventually(|| wiring.mails().len() == 1 && wiring.pending_mails() == 0).await;
}
