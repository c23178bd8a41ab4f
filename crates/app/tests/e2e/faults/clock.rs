//! The clock is set back or forward while the service runs.

use domain::use_cases::keys::manage_keys::KeyTerms;
use reqwest::Response;
use serde_json::Value;
use time::Duration;

use crate::{
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, TestApp, created, deed, eventually, eventually_async,
        problem,
    },
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    acknowledged_orders_survive_clock_changes,
    expired_key_is_valid_again_after_clock_correction,
    pending_mail_is_delivered_after_clock_change,
}

async fn replayed(response: Response) -> Value {
    assert_eq!(response.headers()["idempotency-replayed"], "true");
    created(response).await
}

/// Waits until exactly `count` mails are sent, and none is in progress: an advance of the clock
/// would end its lease, and it would be sent twice.
async fn all_sent(app: &TestApp, count: usize) {
    eventually(|| app.pending_mails() == 0).await;
    app.mails(count).await;
}

async fn acknowledged_orders_survive_clock_changes(kind: Kind) {
    for step in [Duration::HOUR, -Duration::HOUR, Duration::DAY, -Duration::DAY] {
        let app = kind.app().await;
        let before = [
            app.send_with_key(CREATE, "F-1").await,
            app.send_with_key(CREATE_WITH_DOCUMENTS, "F-2").await,
        ];
        let [json, form] = before.map(created);
        let (json, form) = (json.await, form.await);
        all_sent(&app, 2).await;
        app.clock.advance(step);

        if step < Duration::DAY {
            assert_eq!(replayed(app.send_with_key(CREATE, "F-1").await).await, json);
            assert_eq!(replayed(app.send_with_key(CREATE_WITH_DOCUMENTS, "F-2").await).await, form);
        }
        created(app.send_with_key(CREATE, "F-3").await).await;
        created(app.send_with_key(CREATE_WITH_DOCUMENTS, "F-4").await).await;
        all_sent(&app, 4).await;
        let duplicate = app.order("F-1").await;
        let extra_orders = if step.is_negative() {
            // The window follows the clock; `Retry-After` stays positive.
            let wait: i64 = duplicate.headers()["retry-after"].to_str().unwrap().parse().unwrap();
            assert!((1..=step.abs().whole_seconds() + 60).contains(&wait), "{wait}");
            problem(duplicate, 409, "duplicate_order").await;
            app.clock.advance(Duration::seconds(wait));
            0
        } else {
            created(duplicate).await;
            app.clock.advance(Duration::MINUTE);
            1
        };
        created(app.order("F-1").await).await;
        all_sent(&app, 5 + extra_orders).await;

        // Back at the right time, and two hours later, every document of an order still exists.
        app.clock.advance(-step);
        created(app.order("F-5").await).await;
        app.clock.advance(Duration::hours(2));
        let app = app.restart(&[]).await;
        eventually(|| app.rows("uploads") == 0 && app.pending_mails() == 0).await;
        assert_eq!(app.documents(), vec![deed(); 2], "{step}");
        assert_eq!(app.rows("orders"), 6 + extra_orders);
        assert_eq!(app.ops("/readyz").await.0, 200);
    }
}

async fn expired_key_is_valid_again_after_clock_correction(kind: Kind) {
    let app = kind.app().await;
    let terms = KeyTerms { lifetime: Some(Duration::DAY), ..KeyTerms::default() };
    let short = app.issue_key_on(terms).await;
    let statuses = async |number: i64| {
        let [short, other] = [&short, &app.key].map(|key| app.as_key(key));
        let number = format!("F-{number}");
        [short.order(&number).await, other.order(&(number + "-other")).await]
            .map(|response| response.status().as_u16())
    };
    for (number, (days, expected)) in
        (0..).zip([(0, [201, 201]), (1, [401, 201]), (-1, [201, 201]), (-1, [201, 201])])
    {
        app.clock.advance(Duration::days(days));
        assert_eq!(statuses(number).await, expected, "{number}");
    }
}

async fn pending_mail_is_delivered_after_clock_change(kind: Kind) {
    for step in [Duration::HOUR, -Duration::HOUR, Duration::DAY, -Duration::DAY] {
        let app = kind.app().await;
        app.wiring.break_mail();
        created(app.order("F-1").await).await;
        eventually_async(async || {
            let mails = app.storage().queue.list(false, 1).await.unwrap();
            mails.first().is_some_and(|mail| mail.last_error.is_some())
        })
        .await;
        app.clock.advance(step);
        app.wiring.mend_mail();
        // Moves the clock past the time of the next attempt.
        app.clock.advance(-step.min(Duration::ZERO) + Duration::seconds(5));
        app.mails(1).await;
        eventually(|| app.pending_mails() == 0).await;
    }
}
