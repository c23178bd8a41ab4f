//! The clock is set back and forward while the service runs.

use reqwest::Response;
use serde_json::Value;
use time::Duration;

use crate::harness::{
    CREATE, CREATE_WITH_DOCUMENTS, TestApp, created, deed, eventually, eventually_told,
    form_with_deed, order, problem,
};

async fn with_key(app: &TestApp, path: &str, file_number: &str) -> Response {
    let request = app.post(path).header("Idempotency-Key", format!("\"{path} {file_number}\""));
    let request = if path == CREATE {
        request.json(&order(file_number))
    } else {
        request.multipart(form_with_deed(file_number))
    };
    request.send().await.unwrap()
}

async fn replayed(response: Response) -> Value {
    assert_eq!(response.headers()["idempotency-replayed"], "true");
    created(response).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_kept_and_orders_and_mails_go_on() {
    for step in [Duration::HOUR, -Duration::HOUR, Duration::DAY, -Duration::DAY] {
        let app = TestApp::start().await;
        let before = [
            with_key(&app, CREATE, "F-1").await,
            with_key(&app, CREATE_WITH_DOCUMENTS, "F-2").await,
        ];
        let [json, form] = before.map(created);
        let (json, form) = (json.await, form.await);
        app.mails(2).await;
        app.clock.advance(step);

        if step < Duration::DAY {
            assert_eq!(replayed(with_key(&app, CREATE, "F-1").await).await, json);
            assert_eq!(replayed(with_key(&app, CREATE_WITH_DOCUMENTS, "F-2").await).await, form);
        }
        created(with_key(&app, CREATE, "F-3").await).await;
        created(with_key(&app, CREATE_WITH_DOCUMENTS, "F-4").await).await;
        app.mails(4).await;
        let again = app.create(&order("F-1")).await;
        let more = if step.is_negative() {
            // The window is of the clock that there is; nobody is told to wait for a negative time.
            let wait: i64 = again.headers()["retry-after"].to_str().unwrap().parse().unwrap();
            assert!((1..=step.abs().whole_seconds() + 60).contains(&wait), "{wait}");
            problem(again, 409, "duplicate_order").await;
            app.clock.advance(Duration::seconds(wait));
            0
        } else {
            created(again).await;
            app.clock.advance(Duration::MINUTE);
            1
        };
        created(app.create(&order("F-1")).await).await;
        app.mails(5 + more).await;

        // With the clock where it was, and with it another two hours on, nobody has swept a
        // document that belongs to an order.
        app.clock.advance(-step);
        created(app.create(&order("F-5")).await).await;
        app.clock.advance(Duration::hours(2));
        let app = app.restart(&[]).await;
        eventually(|| app.rows("uploads") == 0 && app.rows("deliveries") == 0).await;
        assert_eq!(app.documents(), vec![deed(); 2], "{step}");
        assert_eq!(app.rows("orders"), 6 + i64::try_from(more).unwrap());
        assert_eq!(app.ops("/readyz").await.0, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_expired_by_a_clock_that_was_wrong_is_good_again_and_a_live_one_stays_good() {
    let app = TestApp::start().await;
    let terms = domain::manage_keys::KeyTerms {
        lifetime: Some(Duration::DAY),
        ..domain::manage_keys::KeyTerms::default()
    };
    let short = app.issue_key_on(terms).await;
    let ask = async |key: &str, number: &str| {
        app.client
            .post(app.url(CREATE))
            .bearer_auth(key)
            .json(&order(number))
            .send()
            .await
            .unwrap()
            .status()
    };
    assert_eq!(ask(&short, "F-1").await, 201);
    app.clock.advance(Duration::DAY);
    assert_eq!(
        (ask(&short, "F-2").await, ask(&app.key, "F-3").await),
        (reqwest::StatusCode::UNAUTHORIZED, reqwest::StatusCode::CREATED)
    );
    app.clock.advance(-Duration::DAY);
    assert_eq!(
        (ask(&short, "F-4").await, ask(&app.key, "F-5").await),
        (reqwest::StatusCode::CREATED, reqwest::StatusCode::CREATED)
    );
    app.clock.advance(-Duration::DAY);
    assert_eq!(
        (ask(&short, "F-6").await, ask(&app.key, "F-7").await),
        (reqwest::StatusCode::CREATED, reqwest::StatusCode::CREATED)
    );
}

/// Its mail waits for the relay when the clock is set.
#[tokio::test(flavor = "multi_thread")]
async fn a_mail_that_waits_is_delivered_whatever_the_clock_did() {
    for step in [Duration::HOUR, -Duration::HOUR, Duration::DAY, -Duration::DAY] {
        let app = TestApp::start().await;
        app.wiring.break_mail();
        created(app.create(&order("F-1")).await).await;
        eventually_told(async || {
            app.storage()
                .queue
                .list(false, 1)
                .await
                .unwrap()
                .first()
                .is_some_and(|delivery| delivery.last_error.is_some())
        })
        .await;
        app.clock.advance(step);
        app.wiring.mend_mail();
        // Once the time is there again for which it was put off.
        app.clock.advance(-step.min(Duration::ZERO) + Duration::seconds(5));
        app.mails(1).await;
        eventually(|| app.rows("deliveries") == 0).await;
    }
}
