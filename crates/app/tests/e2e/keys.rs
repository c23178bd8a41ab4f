//! API keys as operators and clients meet them.

use std::process::Output;

use domain::manage_keys::KeyTerms;
use reqwest::{Client, RequestBuilder};

use crate::{
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, TestApp, created, eventually, form_with_deed, order, problem,
    },
    service_process::{ServiceProcess, notary_orders, output},
    wiring::Wiring,
};

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The key alone, as a script takes it.
fn key(output: &Output) -> String {
    let key = text(output);
    assert_eq!(key.lines().count(), 1, "{key}");
    key.trim().to_owned()
}

/// The line of a key in the list, without the heading.
fn listed(wiring: &Wiring, id: usize) -> String {
    text(&output(wiring, &["keys", "list"])).lines().nth(id).unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_key_is_good_for_the_grace_period_and_its_successor_at_once() {
    let wiring = Wiring::new();
    let service = ServiceProcess::start(&wiring, &[]);
    let old = key(&output(
        &wiring,
        &[
            "keys",
            "issue",
            "--name",
            "title company",
            "--signing-service",
            "42",
            "--limit-per-second",
            "7",
            "--limit-burst",
            "9",
        ],
    ));
    let id = text(&output(&wiring, &["keys", "list"]))
        .lines()
        .last()
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .to_owned();
    let rotated = output(&wiring, &["keys", "rotate", &id, "--grace-hours", "2"]);
    let new = key(&rotated);
    assert!(
        String::from_utf8(rotated.stderr)
            .unwrap()
            .contains(&format!("in the place of key {id}, which is good until "))
    );
    for (at, key) in [&old, &new].into_iter().enumerate() {
        created(service.post(key, &format!("F-{at}")).await).await;
    }
    // On the terms of the key whose place it takes.
    let answer = service.post(&new, "F-2").await;
    assert_eq!(answer.headers()["ratelimit-policy"], r#""orders";q=9;w=2"#);
    let mut elsewhere = order("F-3");
    elsewhere["signingServiceId"] = 43.into();
    let refused = crate::harness::client()
        .post(service.url(CREATE))
        .bearer_auth(&new)
        .json(&elsewhere)
        .send()
        .await
        .unwrap();
    problem(refused, 403, "forbidden").await;

    let last = key(&output(&wiring, &["keys", "rotate", &id, "--grace-hours", "0"]));
    service.refuses_within_ten_seconds(&old).await;
    created(service.post(&new, "F-5").await).await;
    created(service.post(&last, "F-6").await).await;
    // Issued for ever, like the key, whose end is the rotation's doing.
    let newest = text(&output(&wiring, &["keys", "list"])).lines().last().unwrap().to_owned();
    assert_eq!(newest.split_whitespace().nth(4), Some("never"), "{newest}");
    let again = output(&wiring, &["keys", "rotate", &id]);
    assert!(
        !again.status.success()
            && String::from_utf8(again.stderr).unwrap().contains("is revoked or expired")
    );
    let unknown = output(&wiring, &["keys", "rotate", "999"]);
    assert!(
        !unknown.status.success()
            && String::from_utf8(unknown.stderr).unwrap().contains("there is no key 999")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_trail_names_who_did_what() {
    let wiring = Wiring::new();
    let by = |user: &str, arguments: &[&str]| {
        text(&notary_orders(&wiring, arguments).env("SUDO_USER", user).output().unwrap())
    };
    by("jane", &["keys", "issue", "--name", "title company"]);
    by("rick", &["keys", "rotate", "1", "--grace-hours", "1"]);
    by("j\u{1b}[31mane\n", &["keys", "revoke", "1"]);
    let trail = text(&output(&wiring, &["keys", "trail"]));
    let lines: Vec<Vec<&str>> =
        trail.lines().skip(1).map(|line| line.split_whitespace().skip(1).collect()).collect();
    assert_eq!(
        lines,
        [
            vec!["1", "issued", "jane"],
            vec!["2", "issued", "rick"],
            vec!["1", "rotated", "to", "key", "2", "rick"],
            vec!["1", "revoked", "j[31mane"]
        ],
        "{trail}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_tells_when_a_key_was_last_used() {
    let wiring = Wiring::new();
    let service = ServiceProcess::start(&wiring, &[]);
    let used = key(&output(
        &wiring,
        &["keys", "issue", "--name", "used", "--limit-per-second", "5", "--limit-burst", "8"],
    ));
    output(&wiring, &["keys", "issue", "--name", "unused", "--test"]);
    let heading = text(&output(&wiring, &["keys", "list"]));
    let last = heading.lines().count() - 1;
    assert!(
        listed(&wiring, last - 1).contains("never                never")
            && listed(&wiring, last - 1).contains("5/s, 8")
    );
    created(service.post(&used, "F-1").await).await;
    eventually(|| !listed(&wiring, last - 1).contains("never                never")).await;
    assert!(
        listed(&wiring, last).contains("never                never")
            && listed(&wiring, last).contains("test")
    );
    service.stop("-TERM");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_last_use_right_before_the_stop_is_noted() {
    let app = TestApp::start().await;
    created(app.create(&order("F-1")).await).await;
    let (keys, used_at) = (app.storage().keys.clone(), domain::ports::Clock::now(&*app.clock));
    app.stop().await;
    assert_eq!(keys.list().await.unwrap()[0].last_used_at, Some(used_at));
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_limit_is_none() {
    let wiring = Wiring::new();
    for flag in [
        "--limit-per-second",
        "--limit-burst",
        "--documents-limit-per-second",
        "--documents-limit-burst",
    ] {
        let refused = output(&wiring, &["keys", "issue", "--name", "x", flag, "5"]);
        assert!(
            !refused.status.success()
                && String::from_utf8(refused.stderr).unwrap().contains("required"),
            "{flag}"
        );
        assert!(
            !output(&wiring, &["keys", "issue", "--name", "x", flag, "0"]).status.success(),
            "{flag}"
        );
    }
}

fn post(client: &Client, app: &TestApp, path: &str, key: &str) -> RequestBuilder {
    client.post(app.url(path)).bearer_auth(key)
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_of_a_test_key_are_answered_like_any_other_and_nobody_is_told() {
    let app = TestApp::start().await;
    let key = app.issue_key_on(KeyTerms { is_test: true, ..KeyTerms::default() }).await;
    assert!(key.starts_with("nok_test_"));
    let test = |path| post(&app.client, &app, path, &key);
    let record = created(test(CREATE).json(&order("F-1")).send().await.unwrap()).await;
    let documents =
        created(test(CREATE_WITH_DOCUMENTS).multipart(form_with_deed("F-2")).send().await.unwrap())
            .await;
    assert_eq!(
        (&record["order_status"], &documents["documents_uploaded"]),
        (&"NEW".into(), &1.into())
    );
    problem(test(CREATE).json(&order("F-1")).send().await.unwrap(), 409, "duplicate_order").await;
    problem(
        test(CREATE).json(&serde_json::json!({})).send().await.unwrap(),
        400,
        "validation_failed",
    )
    .await;
    // A real order with the same file number is none of its business.
    let real = created(app.create(&order("F-1")).await).await;
    assert_eq!(
        real.as_object().unwrap().keys().collect::<Vec<_>>(),
        record.as_object().unwrap().keys().collect::<Vec<_>>()
    );

    let is_test = async |record: &serde_json::Value| {
        let id = domain::order::OrderId(record["order_id"].as_i64().unwrap());
        app.storage().orders.find(id).await.unwrap().unwrap().is_test
    };
    assert!(is_test(&record).await && is_test(&documents).await && !is_test(&real).await);
    let mails = app.mails(1).await;
    assert!(mails[0].contains("F-1"));
    eventually(|| app.rows("deliveries") == 0).await;
    let metrics = app.ops("/metrics").await.1;
    for line in [
        r#"notary_orders_orders_created_total{operation="json"} 1"#,
        r#"notary_orders_test_orders_created_total{operation="json"} 1"#,
        r#"notary_orders_test_orders_created_total{operation="multipart"} 1"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}\n\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_keys_are_what_they_look_like() {
    let wiring = Wiring::new();
    for name in ["", " ", "two\nlines", "a\u{2028}b", "\u{202e}evil", "\u{200b}", &"x".repeat(101)]
    {
        let refused = output(&wiring, &["keys", "issue", "--name", name]);
        assert!(
            !refused.status.success()
                && String::from_utf8(refused.stderr).unwrap().contains("--name"),
            "{name:?}"
        );
    }
    key(&output(&wiring, &["keys", "issue", "--name", &"é".repeat(100)]));
    assert_eq!(text(&output(&wiring, &["keys", "list"])).lines().count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_cannot_be_shown_is_named_to_be_revoked() {
    let wiring = Wiring::new();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let failed =
        notary_orders(&wiring, &["keys", "issue", "--name", "lost"]).stdout(full).output().unwrap();
    assert!(!failed.status.success());
    assert!(
        String::from_utf8(failed.stderr)
            .unwrap()
            .contains("key 1 was issued and could not be shown; revoke it")
    );
}
