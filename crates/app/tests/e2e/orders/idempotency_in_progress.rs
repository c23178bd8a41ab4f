//! Repeats of requests that are still in progress.

use domain::{
    api_key::Owner,
    idempotency::{Claim, ClaimToken, IdempotencyKey, KeyUse},
    ports::{Clock as _, WriteError},
    use_cases::intake::Intake,
};
use futures_util::future::join_all;
use reqwest::Response;
use time::OffsetDateTime;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, TestApp, eventually, eventually_async, form_with_deed,
        order, problem,
    },
    orders::idempotency::{KEY, assert_stored, first, replayed},
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    concurrent_repeats_create_one_order,
    repeat_that_overtakes_a_json_request_creates_the_order,
    upload_in_progress_blocks_repeats_until_it_ends,
    aborted_upload_frees_its_key,
    slow_repeat_is_replayed_after_retention_ends,
}

fn retry_after(response: &Response) -> u64 {
    response.headers()["retry-after"].to_str().unwrap().parse().unwrap()
}

/// Asserts that each response is the same order or asks for a repeat, as a busy machine also does. Returns
/// the order.
async fn one_order(responses: Vec<Response>) -> String {
    let mut bodies = Vec::new();
    for response in responses {
        if response.status() == 201 {
            bodies.push(response.text().await.unwrap());
        } else {
            assert!(retry_after(&response) >= 1);
            let is_busy = response.status() == 503;
            let (status, code) =
                if is_busy { (503, "unavailable") } else { (409, "idempotency_in_flight") };
            problem(response, status, code).await;
        }
    }
    assert!(!bodies.is_empty() && bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    bodies.remove(0)
}

async fn concurrent_repeats_create_one_order(kind: Kind) {
    let app = kind.app().await;
    for path in [CREATE, CREATE_WITH_DOCUMENTS] {
        let repeats = (0..50).map(|_| app.send_with_key(path, path));
        let body = one_order(join_all(repeats).await).await;
        assert_eq!(replayed(app.send_with_key(path, path).await).await, body);
    }
    assert_stored(&app, 2, 1);
}

async fn repeat_that_overtakes_a_json_request_creates_the_order(kind: Kind) {
    let app = kind.app().await;
    let request = app.raw_order("F-1", &format!("Idempotency-Key: {KEY}\r\nConnection: close\r\n"));
    let (head, body) = request.split_at(request.len() - 100);
    let mut stream = TcpStream::connect(app.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();

    let created = first(app.create_under(KEY, &order("F-1")).await).await;

    assert_eq!(finish_request(stream, body.as_bytes()).await, created);
    assert_stored(&app, 1, 0);
}

/// Sends the rest of a request that the service accepts. Returns the body of the response.
async fn finish_request(mut stream: TcpStream, rest: &[u8]) -> String {
    stream.write_all(rest).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 201 "), "{response}");
    response.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// Sends an upload without its last bytes. Returns the connection and these bytes.
async fn begin_upload(app: &TestApp) -> (TcpStream, Vec<u8>) {
    let headers = format!("Idempotency-Key: {KEY}\r\nConnection: close\r\n");
    let mut request = app.raw_order_with_deed("F-1", &headers);
    let rest = request.split_off(request.len() - 100);
    let mut stream = TcpStream::connect(app.address).await.unwrap();
    stream.write_all(&request).await.unwrap();
    eventually(|| app.rows("idempotency_keys") == 1).await;
    (stream, rest)
}

/// Returns the end of the current claim of the key, which another request cannot claim.
async fn claimed_until(app: &TestApp) -> OffsetDateTime {
    let (client, now) = (app.storage().keys.list().await.unwrap()[0].client(), app.clock.now());
    let key = IdempotencyKey::new(Owner::client(client, false), KEY).unwrap();
    let other = Claim { key, token: ClaimToken([9; 16]) };
    match app.storage().idempotency.claim(&other, now, now).await {
        Err(WriteError::KeyInUse(KeyUse::InProgress { until })) => until,
        other => panic!("{other:?}"),
    }
}

async fn upload_in_progress_blocks_repeats_until_it_ends(kind: Kind) {
    let app = kind.app().await;
    let (stream, rest) = begin_upload(&app).await;
    assert_eq!(claimed_until(&app).await, app.clock.now() + Intake::CLAIM);
    app.clock.advance(time::Duration::seconds(14));
    let extended = app.clock.now() + Intake::CLAIM;
    eventually_async(async || claimed_until(&app).await >= extended).await;
    app.clock.advance(time::Duration::seconds(14));
    let rejected = app.create_with_under(KEY, form_with_deed("F-1")).await;
    assert!((1..=5).contains(&retry_after(&rejected)));
    problem(rejected, 409, "idempotency_in_flight").await;
    problem(app.create_under(KEY, &order("F-1")).await, 409, "idempotency_in_flight").await;

    let body = finish_request(stream, &rest).await;
    assert_eq!(replayed(app.create_with_under(KEY, form_with_deed("F-1")).await).await, body);
}

async fn aborted_upload_frees_its_key(kind: Kind) {
    let app = kind.app().await;
    let (stream, _) = begin_upload(&app).await;
    drop(stream);
    eventually(|| app.rows("idempotency_keys") == 0).await;
    first(app.create_with_under(KEY, form_with_deed("F-1")).await).await;
}

async fn slow_repeat_is_replayed_after_retention_ends(kind: Kind) {
    let app = kind.app().await;
    let body = first(app.create_with_under(KEY, form_with_deed("F-1")).await).await;
    app.clock.advance(time::Duration::DAY - time::Duration::SECOND);
    let (stream, rest) = begin_upload(&app).await;
    // Bytes of the document show that the service has read the head.
    eventually_async(async || app.metric("notary_orders_spool_bytes").await > 0).await;
    app.clock.advance(time::Duration::MINUTE);
    assert_eq!(finish_request(stream, &rest).await, body);
    assert_stored(&app, 1, 1);
}
