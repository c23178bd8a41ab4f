//! Repeats under an `Idempotency-Key`.

use std::time::{Duration, Instant};

use domain::{
    create_order::CreateOrder,
    idempotency::{Claim, ClaimToken, IdempotencyKey, KeyUse},
    ports::{ClaimError, Clock as _},
};
use futures_util::future::join_all;
use reqwest::{Response, multipart::Form};
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, TestApp, created, deed, file, form, form_with_deed, order,
        problem, raw_order_parts,
    },
    service_process::{ServiceProcess, issue_key},
    wiring::Wiring,
};

const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";

impl TestApp {
    async fn create_under(&self, key: &str, order: &Value) -> Response {
        self.post(CREATE).header("Idempotency-Key", key).json(order).send().await.unwrap()
    }

    async fn create_with_under(&self, key: &str, form: Form) -> Response {
        self.post(CREATE_WITH_DOCUMENTS)
            .header("Idempotency-Key", key)
            .multipart(form)
            .send()
            .await
            .unwrap()
    }
}

/// The body of a first answer, as it was sent.
async fn first(response: Response) -> String {
    assert_eq!(
        (response.status().as_u16(), response.headers().get("idempotency-replayed")),
        (201, None)
    );
    response.text().await.unwrap()
}

/// The body of an answer that was given before.
async fn again(response: Response) -> String {
    let (status, replayed) =
        (response.status(), response.headers().get("idempotency-replayed").cloned());
    let text = response.text().await.unwrap();
    assert_eq!(
        (status.as_u16(), replayed.as_ref().map(|value| value.to_str().unwrap())),
        (201, Some("true")),
        "{text}"
    );
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_gets_the_same_answer_and_creates_nothing() {
    let app = TestApp::start().await;
    let body = first(app.create_under(KEY, &order("F-1")).await).await;
    // Within the duplicate window, in quotes, after the window, and after a restart.
    assert_eq!(again(app.create_under(KEY, &order("F-1")).await).await, body);
    assert_eq!(again(app.create_under(&format!("\"{KEY}\""), &order("F-1")).await).await, body);
    app.clock.advance(time::Duration::hours(23));
    assert_eq!(again(app.create_under(KEY, &order("F-1")).await).await, body);
    app.mails(1).await;
    let app = app.restart(&[]).await;
    assert_eq!(again(app.create_under(KEY, &order("F-1")).await).await, body);
    assert_eq!((app.rows("orders"), app.rows("deliveries")), (1, 0));
    app.mails(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_with_documents_stores_none_of_them_again() {
    let app = TestApp::start().await;
    let documents = |number| {
        form(&order(number))
            .part("documents", file("a.pdf", deed()))
            .part("documents", file("b.pdf", deed()))
    };
    let body = first(app.create_with_under(KEY, documents("F-1")).await).await;
    for _ in 0..3 {
        assert_eq!(again(app.create_with_under(KEY, documents("F-1")).await).await, body);
    }
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["documents_uploaded"], 2);
    assert_eq!(
        (app.rows("orders"), app.rows("documents"), app.rows("uploads"), app.documents().len()),
        (1, 2, 0, 2)
    );
    app.assert_spool_empty();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_may_be_written_otherwise() {
    let app = TestApp::start().await;
    let body = first(app.create_under(KEY, &order("F-1")).await).await;
    let mut otherwise = order("F-1");
    otherwise["signingDetailsFormData"]["signerName"] = json!("  Jane Doe\t");
    otherwise["signingDetailsFormData"]["lender"] = json!(" ");
    otherwise["signingContactsFormData"]["observer"] = Value::Null;
    otherwise["ours"] = json!({ "of no": "concern" });
    let pretty = serde_json::to_string_pretty(&otherwise).unwrap();
    let request = app
        .post(CREATE)
        .header("idempotency-key", KEY)
        .header("content-type", "application/json; charset=utf-8");
    assert_eq!(again(request.body(pretty).send().await.unwrap()).await, body);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_payload_under_the_key_is_refused() {
    let app = TestApp::start().await;
    first(app.create_under(KEY, &order("F-1")).await).await;
    let mut other = order("F-1");
    other["signingDetailsFormData"]["lender"] = json!("Another Bank");
    problem(app.create_under(KEY, &other).await, 422, "idempotency_key_reused").await;
    problem(app.create_under(KEY, &order("F-2")).await, 422, "idempotency_key_reused").await;
    // The same fields, but another operation.
    problem(app.create_with_under(KEY, form_with_deed("F-1")).await, 422, "idempotency_key_reused")
        .await;

    first(app.create_with_under("with-documents", form_with_deed("F-3")).await).await;
    let renamed = form(&order("F-3")).part("documents", file("deed-2.pdf", deed()));
    problem(app.create_with_under("with-documents", renamed).await, 422, "idempotency_key_reused")
        .await;
    let twice = form_with_deed("F-3").part("documents", file("deed.pdf", deed()));
    problem(app.create_with_under("with-documents", twice).await, 422, "idempotency_key_reused")
        .await;
    assert_eq!(
        (app.rows("orders"), app.rows("documents"), app.rows("uploads"), app.documents().len()),
        (2, 1, 0, 1)
    );
    app.assert_spool_empty();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_remembered_of_a_request_that_was_refused() {
    let app = TestApp::start().await;
    let mut bad = order("F-1");
    bad["signingDetailsFormData"]["state"] = json!("Texas");
    for _ in 0..2 {
        problem(app.create_under(KEY, &bad).await, 400, "validation_failed").await;
        problem(
            app.create_with_under(KEY, form(&bad).part("documents", file("deed.pdf", deed())))
                .await,
            400,
            "validation_failed",
        )
        .await;
        problem(app.create_with_under(KEY, form(&order("F-1"))).await, 400, "no_documents").await;
        problem(
            app.create_with_under(
                KEY,
                form(&order("F-1")).part("documents", file("deed.exe", deed())),
            )
            .await,
            400,
            "unsupported_document",
        )
        .await;
        problem(
            app.create_with_under(
                KEY,
                form_with_deed("F-1").part("deed", file("deed.pdf", deed())),
            )
            .await,
            400,
            "malformed_request",
        )
        .await;
        problem(
            app.post(CREATE)
                .header("idempotency-key", KEY)
                .body("{")
                .header("content-type", "application/json")
                .send()
                .await
                .unwrap(),
            400,
            "malformed_request",
        )
        .await;
        problem(
            app.post(CREATE_WITH_DOCUMENTS)
                .header("idempotency-key", KEY)
                .json(&order("F-1"))
                .send()
                .await
                .unwrap(),
            415,
            "unsupported_media_type",
        )
        .await;
    }
    app.assert_untouched();
    first(app.create_with_under(KEY, form_with_deed("F-1")).await).await;

    problem(app.create_under("another", &order("F-1")).await, 409, "duplicate_order").await;
    problem(app.create_with_under("another", form_with_deed("F-1")).await, 409, "duplicate_order")
        .await;
    app.clock.advance(time::Duration::MINUTE);
    first(app.create_under("another", &order("F-1")).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_free_again_after_as_long_as_is_set() {
    let app = TestApp::start_with(&["--idempotency-retention-secs=3600"]).await;
    let body = first(app.create_under(KEY, &order("F-1")).await).await;
    app.clock.advance(time::Duration::seconds(3599));
    assert_eq!(again(app.create_under(KEY, &order("F-1")).await).await, body);
    app.clock.advance(time::Duration::SECOND);
    assert_ne!(first(app.create_under(KEY, &order("F-1")).await).await, body);
    assert_eq!(app.rows("orders"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_client_has_keys_of_its_own() {
    let app = TestApp::start().await;
    let body = first(app.create_under(KEY, &order("F-1")).await).await;
    let other = app.issue_key(None).await;
    let request =
        app.client.post(app.url(CREATE)).bearer_auth(other).header("Idempotency-Key", KEY);
    assert_ne!(first(request.json(&order("F-2")).send().await.unwrap()).await, body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_has_rotated_its_key_may_repeat_what_it_sent_with_the_old_one() {
    let app = TestApp::start().await;
    let body = first(app.create_under(KEY, &order("F-1")).await).await;
    let keys = app.storage().manage_keys(app.machine());
    let id = keys.list().await.unwrap()[0].id;
    let new = keys.rotate(id, time::Duration::ZERO, "tests").await.unwrap().presented;
    // For so long a key is known without asking.
    app.clock.advance(time::Duration::seconds(5));
    problem(app.create_under(KEY, &order("F-1")).await, 401, "unauthorized").await;
    let request =
        app.client.post(app.url(CREATE)).bearer_auth(new.expose()).header("Idempotency-Key", KEY);
    assert_eq!(again(request.json(&order("F-1")).send().await.unwrap()).await, body);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_are_no_key_are_refused_by_name() {
    let app = TestApp::start().await;
    let long = "x".repeat(256);
    let quoted_long = format!("\"{long}\"");
    for value in [
        "",
        "\"\"",
        " ",
        "two words",
        "a,b",
        "\"open",
        "\"a\", \"b\"",
        long.as_str(),
        quoted_long.as_str(),
        "\u{e9}",
    ] {
        let bytes = reqwest::header::HeaderValue::from_bytes(value.as_bytes()).unwrap();
        for request in [
            app.post(CREATE).json(&order("F-1")),
            app.post(CREATE_WITH_DOCUMENTS).multipart(form_with_deed("F-1")),
        ] {
            let refused = problem(
                request.header("Idempotency-Key", bytes.clone()).send().await.unwrap(),
                400,
                "malformed_request",
            )
            .await;
            let detail = refused["detail"].as_str().unwrap();
            assert!(
                detail.contains("Idempotency-Key") && (value.len() < 5 || !detail.contains(value)),
                "{value}: {detail}"
            );
        }
    }
    for request in [
        app.post(CREATE).json(&order("F-1")),
        app.post(CREATE_WITH_DOCUMENTS).multipart(form_with_deed("F-1")),
    ] {
        let twice = request.header("Idempotency-Key", "a").header("Idempotency-Key", "a");
        let refused = problem(twice.send().await.unwrap(), 400, "malformed_request").await;
        assert!(refused["detail"].as_str().unwrap().contains("Idempotency-Key"), "{refused}");
    }
    app.assert_untouched();
    first(app.create_under(&"x".repeat(255), &order("F-1")).await).await;
    first(app.create_under(&format!("\"{}\"", "y".repeat(255)), &order("F-2")).await).await;
}

/// That answers to repeats of one request are the same order, or say that it is under way; the
/// body.
async fn one_answer(answers: Vec<Response>) -> String {
    let mut bodies = Vec::new();
    for answer in answers {
        if answer.status() == 201 {
            bodies.push(answer.text().await.unwrap());
        } else {
            assert!(answer.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
            problem(answer, 409, "idempotency_in_flight").await;
        }
    }
    assert!(!bodies.is_empty() && bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    bodies.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_repeats_with_documents_one_creates_and_the_others_hear_of_it() {
    let app = TestApp::start().await;
    let body = one_answer(
        join_all((0..50).map(|_| app.create_with_under(KEY, form_with_deed("F-1")))).await,
    )
    .await;
    assert_eq!(
        (app.rows("orders"), app.rows("documents"), app.rows("uploads"), app.documents().len()),
        (1, 1, 0, 1)
    );
    app.assert_spool_empty();
    assert_eq!(again(app.create_with_under(KEY, form_with_deed("F-1")).await).await, body);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_repeats_without_documents_one_creates_and_the_others_hear_of_it() {
    let app = TestApp::start().await;
    let order = order("F-1");
    let body = one_answer(join_all((0..50).map(|_| app.create_under(KEY, &order))).await).await;
    assert_eq!(app.rows("orders"), 1);
    assert_eq!(again(app.create_under(KEY, &order).await).await, body);
}

/// A connection on which a request has begun that holds its key, and whose body is to come.
async fn under_way(app: &TestApp, head: &str) -> TcpStream {
    let patience = Instant::now() + Duration::from_secs(10);
    loop {
        let mut stream = TcpStream::connect(app.address()).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        // Of a key that is under way, a repeat is told at once; before, and of any other, it would
        // be refused as empty. If it holds the key itself just when the request begins, then that
        // is the one that is told, and has to begin again.
        while stream.try_read(&mut [0]).is_err() {
            if app.create_under(KEY, &json!({})).await.status() == 409 {
                return stream;
            }
            assert!(Instant::now() < patience, "the request does not begin");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_an_order_without_documents_arrives_repeats_of_it_are_told_so() {
    let app = TestApp::start().await;
    let body = order("F-1").to_string();
    let head = format!(
        "POST {CREATE} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\nIdempotency-Key: {KEY}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        app.key,
        body.len()
    );
    let mut stream = under_way(&app, &head).await;
    let refused = app.create_under(KEY, &order("F-1")).await;
    assert_eq!(refused.headers()["retry-after"], "1");
    problem(refused, 409, "idempotency_in_flight").await;
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert_eq!(
        again(app.create_under(KEY, &order("F-1")).await).await,
        answer.split_once("\r\n\r\n").unwrap().1
    );
}

/// An upload whose last bytes are kept back.
async fn half_an_upload(app: &TestApp, file_number: &str) -> (TcpStream, Vec<u8>) {
    let mut body = raw_order_parts(file_number).into_bytes();
    body.extend_from_slice(
        b"--b\r\nContent-Disposition: form-data; name=\"documents\"; filename=\"deed.pdf\"\r\n\r\n",
    );
    body.extend_from_slice(&deed());
    body.extend_from_slice(b"\r\n--b--\r\n");
    let rest = body.split_off(body.len() - 100);
    let head = format!(
        "POST {CREATE_WITH_DOCUMENTS} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\nIdempotency-Key: {KEY}\r\nConnection: close\r\n\
         Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {}\r\n\r\n",
        app.key,
        body.len() + rest.len()
    );
    let mut stream = TcpStream::connect(app.address()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&body).await.unwrap();
    crate::harness::eventually(|| app.rows("idempotency_keys") == 1).await;
    (stream, rest)
}

/// Until when the key is in flight, as others are told.
async fn in_flight_until(app: &TestApp) -> OffsetDateTime {
    let client = app.storage().keys.list().await.unwrap()[0].client();
    let other =
        Claim { key: IdempotencyKey::new(client, KEY).unwrap(), token: ClaimToken([9; 16]) };
    let now = app.clock.now();
    match app.storage().idempotency.claim(&other, now, now).await {
        Err(ClaimError::Taken(KeyUse::InFlight { until })) => until,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_an_upload_arrives_repeats_of_it_are_told_so_however_long_it_takes() {
    let app = TestApp::start().await;
    let (mut stream, rest) = half_an_upload(&app, "F-1").await;
    assert_eq!(in_flight_until(&app).await, app.clock.now() + CreateOrder::CLAIM);
    app.clock.advance(time::Duration::seconds(14));
    let patience = Instant::now() + Duration::from_secs(20);
    while in_flight_until(&app).await < app.clock.now() + CreateOrder::CLAIM {
        assert!(Instant::now() < patience, "the claim is not extended");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    app.clock.advance(time::Duration::seconds(14));
    let refused = app.create_with_under(KEY, form_with_deed("F-1")).await;
    assert!(
        (1..=5)
            .contains(&refused.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap())
    );
    problem(refused, 409, "idempotency_in_flight").await;
    problem(app.create_under(KEY, &order("F-1")).await, 409, "idempotency_in_flight").await;

    stream.write_all(&rest).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    assert_eq!(again(app.create_with_under(KEY, form_with_deed("F-1")).await).await, body);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_breaks_off_frees_its_key() {
    let app = TestApp::start().await;
    let (stream, _) = half_an_upload(&app, "F-1").await;
    drop(stream);
    crate::harness::eventually(|| app.rows("idempotency_keys") == 0).await;
    first(app.create_with_under(KEY, form_with_deed("F-1")).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_a_killed_instance_held_is_free_within_seconds() {
    let app = TestApp::start().await;
    let client = app.storage().keys.list().await.unwrap()[0].client();
    let killed =
        Claim { key: IdempotencyKey::new(client, KEY).unwrap(), token: ClaimToken([9; 16]) };
    let now = app.clock.now();
    app.storage().idempotency.claim(&killed, now, now + CreateOrder::CLAIM).await.unwrap();
    problem(app.create_with_under(KEY, form_with_deed("F-1")).await, 409, "idempotency_in_flight")
        .await;
    app.clock.advance(CreateOrder::CLAIM);
    first(app.create_with_under(KEY, form_with_deed("F-1")).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_tell_repeats_from_orders() {
    let app = TestApp::start().await;
    for _ in 0..3 {
        created(app.create_under(KEY, &order("F-1")).await).await;
    }
    let metrics = app.ops("/metrics").await.1;
    for line in [
        r#"notary_orders_orders_created_total{operation="json"} 1"#,
        "notary_orders_idempotent_replays_total 2",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}\n\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_that_arrives_slowly_is_answered_even_when_the_key_is_free_again_meanwhile() {
    let app = TestApp::start().await;
    let body = first(app.create_with_under(KEY, form_with_deed("F-1")).await).await;
    app.clock.advance(time::Duration::DAY - time::Duration::SECOND);
    let (mut stream, rest) = half_an_upload(&app, "F-1").await;
    // Until it has begun, which nothing shows but that the head was read.
    crate::harness::eventually(|| !app.spooled().is_empty()).await;
    app.clock.advance(time::Duration::MINUTE);
    stream.write_all(&rest).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer.split_once("\r\n\r\n").unwrap().1, body, "{answer}");
    assert_eq!((app.rows("orders"), app.rows("uploads"), app.documents().len()), (1, 0, 1));
    app.assert_spool_empty();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_reaches_the_log_at_any_level() {
    let wiring = Wiring::new();
    let service = ServiceProcess::start(&wiring, &["--log-level=trace", "--rate-per-second=0"]);
    let (api_key, client) = (issue_key(&wiring), crate::harness::client());
    let marked = [
        r#""forged\\\" level=error""#,
        "marked-bare-key",
        "marked key, malformed",
        "marked\u{e9}",
        "\"marked-open",
    ];
    for (number, key) in marked.into_iter().enumerate() {
        for again in 0..2 {
            let header = reqwest::header::HeaderValue::from_bytes(key.as_bytes()).unwrap();
            let with_key = |path| {
                client
                    .post(service.url(path))
                    .bearer_auth(&api_key)
                    .header("Idempotency-Key", header.clone())
            };
            let order = order(&format!("F-{}", number + again));
            with_key(CREATE).json(&order).send().await.unwrap();
            with_key(CREATE_WITH_DOCUMENTS)
                .multipart(form(&order).part("documents", file("deed.pdf", deed())))
                .send()
                .await
                .unwrap();
        }
    }
    let log = service.stop_and_read_log();
    assert!(log.contains("order created") && log.contains("request_id"), "{log}");
    for trace in ["marked", "forged", "level=error"] {
        assert!(!log.contains(trace), "{}", log.lines().find(|line| line.contains(trace)).unwrap());
    }
}
