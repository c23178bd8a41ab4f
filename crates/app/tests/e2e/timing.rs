//! Promises about time of `docs/operations.md`. `scripts/test.sh` runs each alone on the machine, as those
//! of all modules of this name.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::Response;
use serde_json::Value;
use test_servers::{postgres::Stop, proxy::Proxy};

use crate::{
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, assert_unavailable, created, eventually, eventually_async,
        service_process::{ServiceProcess, SqlSession, issue_key, run},
    },
    wiring::{Kind, Wiring, on_both_wirings, psql},
};

on_both_wirings! {
    revoked_or_replaced_key_is_rejected_within_ten_seconds,
}

/// Asserts that an answer is 503 and comes within three seconds.
async fn assert_unavailable_in_time(answer: impl Future<Output = Response>) {
    let sent = Instant::now();
    let response = answer.await;
    let took = sent.elapsed();
    assert_unavailable(response).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
}

/// Asserts that several orders, with and without documents, are unavailable in time.
async fn assert_orders_are_unavailable_in_time(service: &ServiceProcess) {
    for at in 0..3 {
        assert_unavailable_in_time(service.order(&format!("F-{at}"))).await;
    }
    assert_unavailable_in_time(service.order_with_deed("F-with-a-document")).await;
}

/// Waits until a dependency is used again.
async fn resumes(service: &ServiceProcess, path: &str, name: &str) {
    eventually_async(async || service.send_with_key(path, name).await.status() == 201).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_or_silent_database_is_answered_within_three_seconds() {
    let wiring = Wiring::with_a_database_server();
    let service = ServiceProcess::keyed(&wiring, &[]);
    let server = wiring.servers().database_server();
    created(service.order("F-before").await).await;

    server.freeze();
    assert_orders_are_unavailable_in_time(&service).await;
    server.thaw();
    resumes(&service, CREATE, "F-thawed").await;
    server.stop(Stop::Fast);
    assert_orders_are_unavailable_in_time(&service).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_database_is_answered_within_three_seconds() {
    let wiring = Wiring::with_a_database_server();
    let port = wiring.servers().database_server().port();
    let proxy = Proxy::to(port);
    let url = wiring.servers().database_url();
    let url = url.replace(&format!(":{port}/"), &format!(":{}/", proxy.port()));
    let service =
        ServiceProcess::keyed(&wiring, &[&format!("--database-url={url}?sslmode=disable")]);
    for path in [CREATE, CREATE_WITH_DOCUMENTS] {
        resumes(&service, path, "F-before").await;
        proxy.slow_down(Duration::from_millis(1_600));
        assert_unavailable_in_time(service.send_with_key(path, "F-slow")).await;
        proxy.slow_down(Duration::ZERO);
    }
}

/// Another system holds an order. Its client cancels it sixty times at once.
#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_locked_order_are_answered_within_three_seconds_and_hold_up_no_other_client() {
    let wiring = Wiring::production();
    let service = ServiceProcess::keyed(&wiring, &["--rate-per-second=0"]);
    let other = service.as_key(&issue_key(&wiring));
    let cancelling = |record: Value| format!("/api/order/{}/cancel", record["order_id"]);
    let locked = created(service.order("F-locked").await).await;
    let lock = format!("BEGIN; SELECT FROM orders WHERE id = {} FOR UPDATE", locked["order_id"]);
    let (locked, free) =
        (cancelling(locked), cancelling(created(other.order("F-free").await).await));
    let _held = SqlSession::holding(psql(&wiring.servers().database_url()), &lock);

    let of_client = (0..60)
        .map(|_| assert_unavailable_in_time(async { service.post(&locked).send().await.unwrap() }));
    let of_other = async {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        eventually(|| wiring.servers().query(waiting) != "0").await;
        other.post(&free).send().await.unwrap()
    };
    let (_, cancelled) = tokio::join!(join_all(of_client), of_other);
    assert_eq!(cancelled.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_or_silent_bucket_is_answered_within_three_seconds() {
    let wiring = Wiring::production();
    let service = ServiceProcess::keyed(&wiring, &[]);
    created(service.order_with_deed("F-before").await).await;

    wiring.servers().silence_documents();
    for at in 0..3 {
        assert_unavailable_in_time(service.order_with_deed(&format!("F-{at}"))).await;
    }
    wiring.servers().documents_go_on();
    resumes(&service, CREATE_WITH_DOCUMENTS, "F-again").await;
    wiring.break_documents();
    for at in 0..3 {
        assert_unavailable_in_time(service.order_with_deed(&format!("F-{at}"))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_embedded_database_is_answered_within_three_seconds() {
    let wiring = Wiring::embedded();
    let service = ServiceProcess::keyed(&wiring, &[]);
    created(service.order("F-before").await).await;

    let _lock = wiring.lock_database();
    assert_orders_are_unavailable_in_time(&service).await;
}

async fn revoked_or_replaced_key_is_rejected_within_ten_seconds(kind: Kind) {
    let wiring = kind.wiring();
    let service = ServiceProcess::keyed(&wiring, &[]);
    // The service has the first key.
    for end in [&["revoke", "2"][..], &["rotate", "3", "--grace-hours=0"]] {
        let key = issue_key(&wiring);
        created(service.as_key(&key).order(&format!("F-{}", end[1])).await).await;
        run(&wiring, &[&["keys"], end].concat());
        let ended = Instant::now();
        service.rejects(&key).await;
        assert!(ended.elapsed() < Duration::from_secs(10), "{end:?}: {:?}", ended.elapsed());
    }
}
