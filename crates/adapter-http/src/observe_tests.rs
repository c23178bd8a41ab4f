use std::sync::{Arc, Mutex};

use actix_web::{
    http::{Method, header::HeaderMap},
    test::TestRequest,
};
use futures_util::StreamExt as _;

use super::*;
use crate::{observe::trace::RequestTrace, test_support::Ports};

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
    let kept = KeptBody::share(&mut request, started);
    assert_eq!(kept.arrived(), started);
    let mut body = request.take_payload();
    while body.next().await.is_some() {}
    assert!(kept.arrived().duration_since(started) >= HOUR);
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
    assert_eq!(*answers, ["GET unmatched 404 Not Found Some(NotFound)"]);
}
