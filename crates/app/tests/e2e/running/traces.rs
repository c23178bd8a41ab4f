//! Traces, exported to a collector.

use std::net::TcpListener;

use reqwest::RequestBuilder;
use serde_json::Value;
use test_servers::collector::{Collector, ReceivedSpan};

use crate::{
    harness::scripted_server::{Reply, ScriptedServer},
    harness::service_process::{ServiceProcess, issue_key, run},
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, WEBHOOKS, created, deed, eventually, eventually_async, file,
        form, order, patiently, problem,
    },
    wiring::Wiring,
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const OTHER: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT_SPAN: &str = "b7ad6b7169203331";

/// Starts the service with environment variables.
fn start(wiring: &Wiring, variables: &str, flags: &[&str]) -> ServiceProcess {
    let flags = [flags, &["--rate-per-second=0"]].concat();
    let key = issue_key(wiring);
    ServiceProcess::start_after(wiring, &format!("export {variables}"), &flags).with_key(key)
}

fn in_trace(request: RequestBuilder, trace: &str, flags: &str) -> RequestBuilder {
    let traceparent = format!("00-{trace}-{CLIENT_SPAN}-{flags}");
    request.header("traceparent", traceparent).header("tracestate", "rojo=00f067aa0ba902b7")
}

fn of_trace(spans: &[ReceivedSpan], trace: &str) -> Vec<ReceivedSpan> {
    spans.iter().filter(|span| span.trace == trace).cloned().collect()
}

/// Returns the span of the request, and checks that every other span is its child.
fn request_of(spans: &[ReceivedSpan]) -> &ReceivedSpan {
    let request = spans.iter().find(|span| span.kind.contains("SERVER")).expect("a request");
    assert_eq!(request.parent, CLIENT_SPAN);
    for span in spans {
        assert!(span.id == request.id || span.parent == request.id, "{span:?}");
    }
    request
}

fn names(spans: &[ReceivedSpan]) -> Vec<&str> {
    let mut names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Waits until the collector has the traces of both orders. A span ends when its request was
/// answered, so the spans of deliveries may come first.
async fn received(collector: &Collector) -> [Vec<ReceivedSpan>; 2] {
    let traces = || [TRACE, OTHER].map(|trace| of_trace(&collector.spans(), trace));
    let is_whole = |spans: &[ReceivedSpan]| {
        ["SERVER", "CLIENT"].iter().all(|kind| spans.iter().any(|span| span.kind.contains(kind)))
            && spans.iter().any(|span| span.name == "deliver webhook")
            && spans.iter().any(|span| span.name == "deliver mail")
    };
    eventually(|| traces().iter().all(|spans| is_whole(spans))).await;
    traces()
}

#[tokio::test(flavor = "multi_thread")]
async fn request_and_its_deliveries_are_one_trace() {
    let (wiring, collector) = (Wiring::embedded(), Collector::start());
    let receiver = ScriptedServer::start(Vec::new());
    let url = format!("--url={}/secret-path", receiver.url());
    let variables = format!(
        "OTEL_EXPORTER_OTLP_ENDPOINT={} OTEL_BSP_SCHEDULE_DELAY=50 OTEL_SERVICE_NAME=orders-test",
        collector.url()
    );
    let service = start(&wiring, &variables, &WEBHOOKS);
    run(&wiring, &[&["webhooks", "create", "--client=1", &*url][..], &WEBHOOKS].concat());

    let json = service.order_on(CREATE, "SECRET-1");
    created(in_trace(json, TRACE, "01").send().await.unwrap()).await;
    let form = form(&order("SECRET-2")).part("documents", file("SECRET.pdf", deed()));
    let post = service.post(CREATE_WITH_DOCUMENTS).multipart(form);
    created(in_trace(post, OTHER, "01").send().await.unwrap()).await;
    let [first, second] = received(&collector).await;
    let log = service.stop_and_read_log();

    let request = request_of(&first);
    assert_eq!(request.name, "POST /api/order/create");
    let steps = ["authenticate", "commit", "deliver mail", "deliver webhook", "read"];
    assert_eq!(names(&first), [&[request.name.as_str()][..], &steps].concat());
    let request = request_of(&second);
    let steps =
        ["authenticate", "commit", "deliver mail", "deliver webhook", "read", "store document"];
    assert_eq!(names(&second), [&[request.name.as_str()][..], &steps].concat());

    for (webhook, spans) in receiver.stop().iter().zip([first, second]) {
        let traceparent = webhook.header("traceparent").unwrap();
        let trace = traceparent.split('-').nth(1).unwrap();
        let spans = if spans[0].trace == trace { spans } else { continue };
        let delivery = spans.iter().find(|span| span.name == "deliver webhook").unwrap();
        assert_eq!(traceparent, format!("00-{trace}-{}-01", delivery.id));
        assert_eq!(webhook.header("tracestate"), Some("rojo=00f067aa0ba902b7"));
    }
    let line = log.lines().find(|line| line.contains("\"order created\"")).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["span"]["trace_id"], TRACE);
    let output = collector.output();
    assert!(output.contains("orders-test"), "{output}");
    assert!(!output.contains("SECRET") && !output.contains("secret-path"), "{output}");
}

/// The collector of these tests is a server that accepts everything.
#[tokio::test(flavor = "multi_thread")]
async fn unsampled_trace_is_not_exported() {
    let (wiring, collector) = (Wiring::embedded(), ScriptedServer::start(Vec::new()));
    let variables =
        format!("OTEL_EXPORTER_OTLP_ENDPOINT={} OTEL_BSP_SCHEDULE_DELAY=50", collector.url());
    let service = start(&wiring, &variables, &[]);
    let post = || service.order_on(CREATE, "F-1");
    created(in_trace(post(), TRACE, "00").send().await.unwrap()).await;
    let unsampled =
        problem(in_trace(post(), TRACE, "00").send().await.unwrap(), 409, "duplicate_order").await;
    let sampled = problem(post().send().await.unwrap(), 409, "duplicate_order").await;

    assert_eq!(unsampled["trace_id"], TRACE);
    let trace = sampled["trace_id"].as_str().unwrap();
    let exported = |trace: &str| {
        let bytes = u128::from_str_radix(trace, 16).unwrap().to_be_bytes();
        let requests = collector.requests();
        requests.iter().any(|request| request.body.windows(16).any(|part| part == bytes))
    };
    eventually(|| exported(trace)).await;
    service.stop_and_read_log();
    assert!(!exported(TRACE));
    assert!(collector.requests().iter().all(|request| request.path() == "/v1/traces"));
}

/// Whether nothing listens, nothing answers, or the answer is no HTTP.
#[tokio::test(flavor = "multi_thread")]
async fn collector_that_fails_costs_no_order() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let hangs_up = ScriptedServer::start((0..1_000).map(|_| Reply::Hangup).collect());
    for url in [
        format!("http://{}", silent.local_addr().unwrap()),
        "http://127.0.0.1:1".to_owned(),
        hangs_up.url(),
    ] {
        let wiring = Wiring::embedded();
        let variables = format!(
            "OTEL_EXPORTER_OTLP_ENDPOINT={url} OTEL_EXPORTER_OTLP_TIMEOUT=3600000 \
             OTEL_BSP_SCHEDULE_DELAY=1 OTEL_BSP_MAX_QUEUE_SIZE=8 OTEL_BSP_MAX_EXPORT_BATCH_SIZE=4"
        );
        let service = start(&wiring, &variables, &[]);
        // An order that waited for an export would wait for an hour.
        for number in 0..20 {
            created(patiently(service.order(&format!("F-{number}"))).await).await;
        }
        eventually_async(async || {
            let [ended, exported] = ["ended", "exported"]
                .map(|outcome| format!("notary_orders_trace_spans_total{{outcome=\"{outcome}\"}}"));
            service.metric(&ended).await >= 20 && service.metric(&exported).await == 0
        })
        .await;
        assert_eq!(service.stop("-TERM").0, Some(0), "{url}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_collector_there_is_no_export() {
    let collector = ScriptedServer::start(Vec::new());
    let endpoint =
        format!("OTEL_EXPORTER_OTLP_ENDPOINT={} OTEL_BSP_SCHEDULE_DELAY=50", collector.url());
    for (variables, exports) in [
        ("OTEL_SERVICE_NAME=unused".to_owned(), false),
        (format!("{endpoint} OTEL_SDK_DISABLED=true"), false),
        (endpoint, true),
    ] {
        let wiring = Wiring::embedded();
        let service = start(&wiring, &variables, &[]);
        created(service.order("F-1").await).await;
        let mut threads = std::fs::read_dir(service.proc("task")).unwrap();
        let is_exporter = |thread: std::io::Result<std::fs::DirEntry>| {
            let name = std::fs::read_to_string(thread.unwrap().path().join("comm")).unwrap();
            name.starts_with("OpenTelemetry")
        };
        assert_eq!(threads.any(is_exporter), exports);
        let problem = problem(service.order("F-1").await, 409, "duplicate_order").await;
        assert_eq!(problem["trace_id"].is_string(), exports);
        let metrics = service.ops("/metrics").await.1;
        assert_eq!(metrics.contains("notary_orders_trace_spans_total"), exports);
        if exports {
            eventually(|| !collector.requests().is_empty()).await;
        }
        service.stop_and_read_log();
        assert_eq!(!collector.requests().is_empty(), exports);
    }
}
