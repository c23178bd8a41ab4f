use std::{
    convert::Infallible,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    pin::Pin,
    sync::{Arc, Mutex},
};

use actix_web::{
    body::SizedStream,
    http::{Method, header::HeaderMap},
    rt::{spawn, task::spawn_blocking},
    test::TestRequest,
};
use futures_util::{FutureExt as _, StreamExt as _, stream};

use super::*;
use crate::{
    Capacity, body::held::SLICE, request::trace::RequestTrace, serve_api, test_support::Ports,
};

/// Sends a request with these ids from an address. Returns the id of the answer.
async fn answered_id(peer: &str, ids: &[&str]) -> String {
    let ports = Ports { trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()], ..Ports::new() };
    let mut request = TestRequest::get().uri("/none").peer_addr(peer.parse().unwrap());
    for id in ids {
        request = request.append_header(("x-request-id", *id));
    }
    let answer = ports.api().send(request).await;
    let id = answer.header("x-request-id").to_owned();
    assert_eq!(answer.problem(404, "not_found")["request_id"], id);
    id
}

#[actix_web::test]
async fn sane_request_id_of_trusted_proxy_is_taken() {
    let longest = "a".repeat(128);
    for id in ["5a1c0e9d-7b3f_4a22.86", "1", &longest] {
        assert_eq!(answered_id("10.0.0.1:4711", &[id]).await, id);
    }
}

#[actix_web::test]
async fn other_request_ids_are_replaced() {
    let too_long = "a".repeat(129);
    for ids in [&["a b"][..], &["<b>"], &[""], &["é"], &[&too_long], &["a", "a"]] {
        assert_eq!(answered_id("10.0.0.1:4711", ids).await.len(), 24, "{ids:?}");
    }
    assert_eq!(answered_id("192.0.2.1:4711", &["forged"]).await.len(), 24);
}

#[actix_web::test]
async fn duration_begins_with_the_last_byte() {
    const HOUR: Duration = Duration::from_secs(3_600);
    let started = Instant::now().checked_sub(HOUR).unwrap();
    let mut request = TestRequest::post().set_payload("body").to_srv_request();
    let kept = HeldBody::share(&mut request, started);
    assert_eq!(kept.arrived(), started);
    let mut body = request.take_payload();
    while body.next().await.is_some() {}
    assert!(kept.arrived().duration_since(started) >= HOUR);
}

#[test]
fn answer_is_sent_in_small_slices() {
    let mut request = TestRequest::get().to_srv_request();
    let request = (HeldBody::share(&mut request, Instant::now()), None, None);
    let blocks = [vec![1; 2 * SLICE + 7], Vec::new(), vec![2; 3]];
    let blocks = stream::iter(blocks.map(|block| Ok::<_, Infallible>(Bytes::from(block))));
    let content = BoxBody::new(SizedStream::new(2 * SLICE as u64 + 10, blocks));
    let mut answer = AnswerBody { content, rest: Bytes::new(), is_head: false, _request: request };
    let slices = stream::poll_fn(|context| Pin::new(&mut answer).poll_next(context));
    let sizes = slices.map(|slice| slice.unwrap().len()).collect::<Vec<_>>();
    assert_eq!(sizes.now_or_never().unwrap(), [SLICE, SLICE, 7, 3]);
}

#[actix_web::test]
async fn request_behind_the_last_one_is_counted_as_a_problem() {
    for (version, header) in [
        ("1.1", "Upgrade: h2c\r\n"),
        ("1.1", "Connection: close\r\n"),
        ("1.1", "Connection: TE, Close\r\n"),
        ("1.0", ""),
    ] {
        let api = Ports::without_key().api();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let capacity = Capacity { workers: 1, connections_per_worker: 1 };
        let server = serve_api(listener, api.api.clone(), None, capacity, Duration::ZERO).unwrap();
        let handle = server.handle();
        spawn(server);
        let get = |version, header| format!("GET /none HTTP/{version}\r\nHost: a\r\n{header}\r\n");
        client.write_all((get(version, header) + &get("1.1", "")).as_bytes()).unwrap();
        let answers = spawn_blocking(move || {
            let mut answers = String::new();
            client.read_to_string(&mut answers).map(|_| answers)
        });
        let answers = answers.await.unwrap().unwrap();
        handle.stop(false).await;
        assert!(answers.contains("404") && answers.contains("malformed_request"), "{answers}");
        for code in ["not_found", "malformed_request"] {
            let line = format!("notary_orders_http_problems_total{{code=\"{code}\"}} 1");
            assert!(api.has_metric(&line), "{header}: {code}");
        }
    }
}

/// Exports every trace.
#[derive(Default)]
struct Traces {
    /// Method, route, status and problem of each answer.
    answers: Mutex<Vec<String>>,
}

impl TraceRequests for Traces {
    fn begin(&self, _request_id: &str, _method: &Method, headers: &HeaderMap) -> RequestTrace {
        let id = headers.get("traceparent").map(|value| value.to_str().unwrap().to_owned());
        RequestTrace { span: Span::none(), is_exported: id.is_some(), id }
    }

    fn answered(&self, _span: &Span, answer: &TracedAnswer<'_>) {
        let TracedAnswer { method, route, status, problem } = answer;
        self.answers.lock().unwrap().push(format!("{method} {route} {status} {problem:?}"));
    }
}

#[actix_web::test]
async fn problem_names_the_trace_of_its_request() {
    let traces = Arc::<Traces>::default();
    let send = async |trace: Option<&str>| {
        let ports = Ports { traces: Some(traces.clone()), ..Ports::new() };
        let mut request = TestRequest::get().uri("/secret-7");
        if let Some(id) = trace {
            request = request.append_header(("traceparent", id));
        }
        ports.api().send(request).await.problem(404, "not_found")["trace_id"].clone()
    };
    assert_eq!(
        send(Some("0af7651916cd43dd8448eb211c80319c")).await,
        "0af7651916cd43dd8448eb211c80319c"
    );
    assert_eq!(send(None).await, serde_json::Value::Null);
    let answers = traces.answers.lock().unwrap();
    assert_eq!(*answers, ["GET unmatched 404 Not Found Some(\"not_found\")"]);
}

/// Their log lines are limited, and those of a failure are not.
#[test]
fn stranger_causes_rejections_in_any_number() {
    use domain::{api_key::ApiKeyId, person::PersonId};
    let stranger = Notes::default();
    let key = Notes { api_key: Some(ApiKeyId(1)), ..stranger };
    let person = Notes { person: Some(PersonId(1)), ..stranger };
    for (code, of_stranger, of_caller) in [
        (ProblemCode::ValidationFailed, true, false),
        (ProblemCode::InvitationUsed, true, false),
        (ProblemCode::PasskeyRejected, true, true),
        (ProblemCode::Internal, false, false),
    ] {
        assert_eq!(is_in_numbers(code, &stranger), of_stranger, "{code:?}");
        assert_eq!(is_in_numbers(code, &key), of_caller, "{code:?}");
        assert_eq!(is_in_numbers(code, &person), of_caller, "{code:?}");
    }
}
