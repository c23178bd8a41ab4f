//! No personal data and no secret is in the log, the metrics, the problems or the list of
//! deliveries, whatever clients send and whatever fails. Markers are sent in every field, and every
//! output except the order record is searched for them.

use reqwest::{
    RequestBuilder, StatusCode,
    header::HeaderValue,
    multipart::{Form, Part},
};
use serde_json::{Value, json};

use crate::{
    harness::markers::{MarkedOrder, Marker},
    harness::service_process::{ServiceProcess, run},
    harness::{CREATE, CREATE_WITH_DOCUMENTS, client, deed, eventually, file, form, order},
    wiring::{Kind, SECRETS, Wiring, on_both_wirings},
};

on_both_wirings! {
    outputs_contain_no_client_data,
    failures_reveal_no_client_data,
}

/// A service with its most detailed log, and its responses.
struct Observed {
    process: ServiceProcess,
    marked: MarkedOrder,
    /// All problems.
    problems: Vec<String>,
}

impl Observed {
    fn start(wiring: &Wiring) -> Self {
        let flags = ["--log-level=trace", "--rate-per-second=0", "--duplicate-window-secs=60"];
        let process = ServiceProcess::keyed(wiring, &flags);
        let mut marked = MarkedOrder::new();
        for (carrier, needle) in [
            ("file name", "mkfilezq"),
            ("document", "mkcontentzq"),
            ("Idempotency-Key", "mkidemzq"),
            ("elsewhere", "mkelsewherezq"),
        ] {
            marked.markers.push(Marker::text(carrier, needle));
        }
        Self { process, marked, problems: Vec::new() }
    }

    fn post(&self, path: &str) -> RequestBuilder {
        self.process.post(path)
    }

    async fn send(&mut self, request: RequestBuilder, status: u16) {
        let response = request.send().await.unwrap();
        let got = response.status();
        let body = response.text().await.unwrap();
        assert_eq!(got, status, "{body}");
        // The order record repeats the order on purpose.
        if got != StatusCode::CREATED {
            self.problems.push(body);
        }
    }

    /// Sends an order to both operations.
    async fn send_twice(&mut self, order: &Value, status: u16) {
        self.send(self.post(CREATE).json(order), status).await;
        let form = form(order).part("documents", file("Mkfilezq deed.pdf", document()));
        self.send(self.post(CREATE_WITH_DOCUMENTS).multipart(form), status).await;
    }

    /// Stops the service and searches all of its outputs.
    async fn assert_silent_about_markers(self, deliveries: &[String]) {
        let Self { process, marked, problems } = self;
        let operators = [process.ops("/metrics").await.1, process.ops("/readyz").await.1];
        let key = process.key.clone();
        let log = process.stop_and_read_log();
        assert!(log.contains("\"TRACE\"") || log.contains("\"DEBUG\""), "no details: {log}");
        let secrets =
            [SECRETS.map(str::to_owned).to_vec(), vec![key[key.len() - 48..].to_owned(), key]]
                .concat();
        let log = log.lines().map(without_measures);
        let outputs = log.chain(problems).chain(operators).chain(deliveries.iter().cloned());
        for output in outputs {
            assert_eq!(marked.found_in(&output).collect::<Vec<_>>(), [""; 0], "{output}");
            for secret in &secrets {
                assert!(!output.contains(secret), "{output}");
            }
        }
    }
}

/// Returns a PDF with a marker.
fn document() -> Vec<u8> {
    [deed(), b"\n% mkcontentzq\n".to_vec()].concat()
}

/// Removes the measured numbers from a line of the log: any digits may occur in them.
pub fn without_measures(line: &str) -> String {
    let mut event: Value =
        serde_json::from_str(line).unwrap_or_else(|_| panic!("not an event: {line}"));
    for measure in ["timestamp", "milliseconds"] {
        event.as_object_mut().unwrap().remove(measure);
    }
    event.to_string()
}

/// Returns the marked order with altered fields, and the number of them.
fn altered(marked: &MarkedOrder, alter: impl Fn(&str, &Value) -> Option<Value>) -> (Value, usize) {
    let (mut order, mut count) = (marked.order.clone(), 0);
    for (pointer, kind) in &marked.fields {
        let field = order.pointer_mut(pointer).unwrap();
        if let Some(value) = alter(kind, field) {
            *field = value;
            count += 1;
        }
    }
    (order, count)
}

async fn send_invalid_requests(service: &mut Observed) {
    let wrong_type = |_: &str, value: &Value| Some(json!({ "mkelsewherezq": value }));
    let control = |kind: &str, value: &Value| {
        (kind == "string").then(|| json!(format!("{}\u{7}", value.as_str().unwrap())))
    };
    let long = |kind: &str, value: &Value| {
        let text = value.as_str().filter(|_| kind == "string")?;
        // An instant has at most 128 bytes in a form; a longer part is rejected before it is read.
        let times = if text.ends_with('Z') { 6 } else { 1 + 5_000 / text.len() };
        Some(json!(text.repeat(times)))
    };
    let out_of_range = |kind: &str, value: &Value| {
        (kind == "integer" || kind == "number").then(|| json!(-value.as_f64().unwrap()))
    };
    for (alter, minimum) in [
        (&wrong_type as &dyn Fn(&str, &Value) -> Option<Value>, 50),
        (&control, 40),
        (&long, 40),
        (&out_of_range, 5),
    ] {
        let (order, count) = altered(&service.marked, alter);
        assert!(count >= minimum, "{count}");
        service.send(service.post(CREATE).json(&order), 400).await;
        let problem: Value = serde_json::from_str(service.problems.last().unwrap()).unwrap();
        // Time fields of another type are ignored, and some altered numbers are valid.
        assert!(problem["errors"].as_array().unwrap().len() + 11 >= count, "{problem}");
        if order["signingServiceId"].is_i64() {
            service.send_twice(&order, 400).await;
        }
    }
    for part in [
        "mkelsewherezq",
        "Content-Disposition: mkelsewherezq; name=mkelsewherezq",
        "Content-Disposition: form-data; name=\"mkelsewherezq\"; mkelsewherezq",
    ] {
        let body = format!("--b\r\n{part}\r\n\r\nmkelsewherezq\r\n--b-mkelsewherezq\r\n");
        let content_type = "multipart/form-data; boundary=b";
        let post = service.post(CREATE_WITH_DOCUMENTS).header("content-type", content_type);
        service.send(post.body(body), 400).await;
    }
    let whole = service.marked.order.to_string();
    for body in [
        &whole[..whole.len() / 2],
        &whole.replacen("\"fileNumber\"", "\"fileNumber\":\"Mkelsewherezq\",\"fileNumber\"", 1),
        "\"mkelsewherezq\"",
        "mkelsewherezq",
    ] {
        let post = service.post(CREATE).header("content-type", "application/json");
        service.send(post.body(body.to_owned()), 400).await;
        let with_broken_part = Form::new()
            .text("signingDetailsFormData", body.to_owned())
            .text("mkelsewherezq", "mkelsewherezq");
        service.send(service.post(CREATE_WITH_DOCUMENTS).multipart(with_broken_part), 400).await;
    }
}

async fn send_invalid_documents(service: &mut Observed) {
    let form = || form(&order("F-rejected"));
    let large = vec![b'x'; 10 * 1024 * 1024 + 1];
    let part = |name: &str, content: &[u8]| file(name, content.to_vec());
    for (rejected, status) in [
        (form().part("documents", part("Mkfilezq.exe", b"mkcontentzq")), 400),
        (form().part("documents", part("Mkfilezq.pdf", b"mkcontentzq")), 400),
        (form().part("documents", part("Mkfilezq.docx", &document())), 400),
        (form().part("documents", part("Mkfilezq.pdf", b"")), 400),
        (form().part("mkelsewherezq", part("Mkfilezq.pdf", &document())), 400),
        (form().part("requestedBy", part("Mkfilezq.pdf", &document())), 400),
        (form().text("mkelsewherezq", "mkcontentzq".repeat(30_000)), 413),
        (form().part("mkelsewherezq", Part::bytes(b"mkcontentzq\xFF".to_vec())), 400),
        (form().text("signingServiceId", "mkelsewherezq"), 400),
        (form(), 400),
    ] {
        service.send(service.post(CREATE_WITH_DOCUMENTS).multipart(rejected), status).await;
    }
    // This problem names the file on purpose.
    let too_large = form().part("documents", part("Mkfilezq.pdf", &large));
    service.send(service.post(CREATE_WITH_DOCUMENTS).multipart(too_large), 413).await;
    let problem = service.problems.pop().unwrap();
    let parsed: Value = serde_json::from_str(&problem).unwrap();
    assert_eq!(
        parsed["detail"],
        "The document \u{201c}Mkfilezq.pdf\u{201d} is larger than 10485760 bytes."
    );
    service.problems.push(problem.replace("Mkfilezq", ""));
}

async fn send_invalid_heads(service: &mut Observed) {
    let json = |request: RequestBuilder| request.json(&order("F-heads"));
    let with_key = |key: &[u8]| {
        json(service.post(CREATE)).header("idempotency-key", HeaderValue::from_bytes(key).unwrap())
    };
    let typed = |path, media_type| service.post(path).header("content-type", media_type);
    let client = client();
    let url = service.process.url(CREATE);
    for (request, status) in [
        (json(client.post(&url)).bearer_auth("mkelsewherezq"), 401),
        (
            json(client.post(&url)).bearer_auth(service.process.key.replace("nok_", "nok_test_")),
            401,
        ),
        (json(client.post(&url)).basic_auth("mkelsewherezq", Some("mkelsewherezq")), 401),
        (json(service.post(CREATE)).header("content-type", "text/mkelsewherezq"), 400),
        (typed(CREATE, "text/mkelsewherezq").body("mkelsewherezq"), 415),
        (
            typed(CREATE_WITH_DOCUMENTS, "multipart/form-data; boundary=mkelsewherezq")
                .body("mkelsewherezq"),
            400,
        ),
        (
            typed(CREATE, "application/json")
                .header("content-encoding", "mkelsewherezq")
                .body("{}"),
            415,
        ),
        (with_key(b"mkidemzq, malformed"), 400),
        (with_key(b"\"mkidemzq"), 400),
        (with_key(b"mkidemzq\xE9"), 400),
        (json(service.post("/api/mkelsewherezq?mkelsewherezq=mkelsewherezq")), 404),
        (client.request(reqwest::Method::from_bytes(b"MKELSEWHEREZQ").unwrap(), &url), 405),
        (
            client
                .get(format!("{url}?mkelsewherezq"))
                .header("user-agent", "mkelsewherezq")
                .header("referer", "http://mkelsewherezq/")
                .header("x-mkelsewherezq", "mkelsewherezq"),
            405,
        ),
    ] {
        service.send(request, status).await;
    }
}

async fn outputs_contain_no_client_data(kind: Kind) {
    let wiring = kind.wiring();
    let mut service = Observed::start(&wiring);
    let keyed = |service: &Observed, order: &Value| {
        service.post(CREATE).header("idempotency-key", "\"mkidemzq 1\"").json(order)
    };
    let order = service.marked.order.clone();
    service.send(keyed(&service, &order), 201).await;
    service.send(keyed(&service, &order), 201).await;
    // Both are duplicates; then the same key comes with another order.
    service.send_twice(&order, 409).await;
    let mut other = order.clone();
    other["signingDetailsFormData"]["signingTimeType"] = json!("between");
    service.send(keyed(&service, &other), 422).await;
    other["signingDetailsFormData"]["fileNumber"] = json!("Mkelsewherezq");
    let with_documents = form(&other)
        .part("documents", file("Mkfilezq deed.pdf", document()))
        .part("documents", file("../Mkfilezq/2.PDF", document()));
    let post = service.post(CREATE_WITH_DOCUMENTS).header("idempotency-key", "mkidemzq-2");
    service.send(post.multipart(with_documents), 201).await;
    send_invalid_requests(&mut service).await;
    send_invalid_documents(&mut service).await;
    send_invalid_heads(&mut service).await;
    // The mails contain the markers and are delivered.
    eventually(|| wiring.pending_mails() == 0).await;
    assert!(wiring.mails().iter().any(|mail| mail.to_lowercase().contains("to: mk")));
    service.assert_silent_about_markers(&[]).await;
}

async fn failures_reveal_no_client_data(kind: Kind) {
    let wiring = kind.wiring();
    let mut service = Observed::start(&wiring);
    let mut deliveries = Vec::new();
    let mut number = 0;
    let mut fresh = |service: &Observed| {
        number += 1;
        let mut order = service.marked.order.clone();
        order["signingDetailsFormData"]["fileNumber"] = json!(format!("Mkelsewherezq-{number}"));
        order
    };
    for &refusal in wiring.refusals() {
        wiring.refuse_mails(refusal);
        let order = fresh(&service);
        service.send(service.post(CREATE).json(&order), 201).await;
        deliveries.push(attempted_deliveries(&wiring).await);
    }
    wiring.break_documents();
    let without = fresh(&service);
    let with_documents = form(&without).part("documents", file("Mkfilezq deed.pdf", document()));
    service.send(service.post(CREATE_WITH_DOCUMENTS).multipart(with_documents), 503).await;
    service.process.ops("/readyz").await;
    wiring.spoil_database();
    for order in [fresh(&service), fresh(&service)] {
        service.send(service.post(CREATE).json(&order), 500).await;
    }
    wiring.break_database();
    for order in [fresh(&service), fresh(&service)] {
        service.send(service.post(CREATE).json(&order), 503).await;
    }
    service.assert_silent_about_markers(&deliveries).await;
}

/// Waits until an attempt at every delivery has failed, and returns the lists of deliveries.
async fn attempted_deliveries(wiring: &Wiring) -> String {
    let mut listed = String::new();
    eventually(|| {
        let list = ["deliveries", "list", "--failed"];
        listed = run(wiring, &list[..2]) + &run(wiring, &list);
        let failed = listed.lines().filter(|line| line.contains("mail")).count();
        failed == wiring.pending_mails() && failed > 0
    })
    .await;
    listed
}
