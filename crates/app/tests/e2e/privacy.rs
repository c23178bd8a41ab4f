//! Nothing personal, and no secret, is in the log, the metrics, the answers or the list of
//! follow-ups, whatever is asked and whatever fails: markers are planted in everything that a
//! client sends, and looked for in everything that the service says beside the order record.

use std::time::Instant;

use reqwest::{Client, RequestBuilder, Response, StatusCode, header::HeaderValue, multipart::Form};
use serde_json::{Value, json};

use crate::{
    harness::{CREATE, CREATE_WITH_DOCUMENTS, deed, eventually, file, form, order},
    markers::{MarkedOrder, Marker},
    service_process::{ServiceProcess, issue_key, output},
    wiring::Wiring,
};

/// A service that tells as much as it can, and what it has said.
struct Observed {
    process: ServiceProcess,
    client: Client,
    key: String,
    marked: MarkedOrder,
    answers: Vec<(u16, String)>,
}

impl Observed {
    fn start(wiring: &Wiring) -> Self {
        let process = ServiceProcess::start(
            wiring,
            &["--log-level=trace", "--rate-per-second=0", "--duplicate-window-secs=60"],
        );
        let mut marked = MarkedOrder::new();
        for (what, needle) in [
            ("file name", "mkfilezq"),
            ("document", "mkcontentzq"),
            ("Idempotency-Key", "mkidemzq"),
            ("elsewhere", "mkelsewherezq"),
        ] {
            marked.markers.push(Marker::text(what, needle));
        }
        Self {
            process,
            client: crate::harness::client(),
            key: issue_key(wiring),
            marked,
            answers: Vec::new(),
        }
    }

    fn post(&self, path: &str) -> RequestBuilder {
        self.client.post(self.process.url(path)).bearer_auth(&self.key)
    }

    async fn note(&mut self, response: Response, status: u16) {
        let got = response.status();
        let body = response.text().await.unwrap();
        assert_eq!(got, StatusCode::from_u16(status).unwrap(), "{body}");
        // The order record is the order that was asked for.
        if got != StatusCode::CREATED {
            self.answers.push((status, body));
        }
    }

    async fn send(&mut self, request: RequestBuilder, status: u16) {
        let response = request.send().await.unwrap();
        self.note(response, status).await;
    }

    async fn both(&mut self, order: &Value, status: u16) {
        self.send(self.post(CREATE).json(order), status).await;
        let form = form(order).part("documents", file("Mkfilezq deed.pdf", document()));
        self.send(self.post(CREATE_WITH_DOCUMENTS).multipart(form), status).await;
    }

    async fn metrics(&self) -> String {
        self.client
            .get(format!("http://{}/metrics", self.process.ops_address))
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap()
    }

    async fn readiness(&self) -> String {
        self.client
            .get(format!("http://{}/readyz", self.process.ops_address))
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap()
    }

    /// Stops the service and looks through all that it said.
    async fn assert_silent_about(self, deliveries: &[String]) {
        let operators = [self.metrics().await, self.readiness().await];
        let Self { process, key, marked, answers, .. } = self;
        let log = process.stop_and_read_log();
        assert!(
            log.contains("\"TRACE\"") || log.contains("\"DEBUG\""),
            "the log tells less than it can: {log}"
        );
        let log = log.lines().map(without_measures);
        let said = log
            .chain(answers.into_iter().map(|(_, body)| body))
            .chain(operators)
            .chain(deliveries.iter().cloned());
        for said in said {
            assert_eq!(marked.found_in(&said).collect::<Vec<_>>(), Vec::<&str>::new(), "{said}");
            for secret in Wiring::secrets().iter().chain([&key, &key[key.len() - 48..].to_owned()])
            {
                assert!(!said.contains(secret.as_str()), "{said}");
            }
        }
    }
}

/// A document that says something.
fn document() -> Vec<u8> {
    [deed(), b"\n% mkcontentzq\n".to_vec()].concat()
}

/// A line of the log but for its numbers that are different each time, in which any digits may come
/// up.
fn without_measures(line: &str) -> String {
    let mut event: Value =
        serde_json::from_str(line).unwrap_or_else(|_| panic!("no line of the log: {line}"));
    for measure in ["timestamp", "milliseconds"] {
        event.as_object_mut().unwrap().remove(measure);
    }
    event.to_string()
}

/// The marked order with another value in each field, made of the one before.
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

async fn send_what_is_wrong(service: &mut Observed) {
    let wrong_type = |_: &str, value: &Value| Some(json!({ "mkelsewherezq": value }));
    let control = |kind: &str, value: &Value| {
        (kind == "string").then(|| json!(format!("{}\u{7}", value.as_str().unwrap())))
    };
    let long = |kind: &str, value: &Value| {
        (kind == "string").then(|| {
            json!(value.as_str().unwrap().repeat(1 + 5_000 / value.as_str().unwrap().len()))
        })
    };
    let out_of_range = |kind: &str, value: &Value| {
        (kind == "integer" || kind == "number").then(|| json!(-value.as_f64().unwrap()))
    };
    for (alter, least) in [
        (&wrong_type as &dyn Fn(&str, &Value) -> Option<Value>, 50),
        (&control, 40),
        (&long, 40),
        (&out_of_range, 5),
    ] {
        let (order, count) = altered(&service.marked, alter);
        assert!(count >= least, "{count}");
        service.send(service.post(CREATE).json(&order), 400).await;
        let problem: Value = serde_json::from_str(&service.answers.last().unwrap().1).unwrap();
        // Fields that do not belong to the kind of time are ignored, and a number may be sent as
        // another.
        assert!(problem["errors"].as_array().unwrap().len() + 8 >= count, "{problem}");
        if order["signingServiceId"].is_i64() {
            service.both(&order, 400).await;
        }
    }
    for part in [
        "mkelsewherezq",
        "Content-Disposition: mkelsewherezq; name=mkelsewherezq",
        "Content-Disposition: form-data; name=\"mkelsewherezq\"; mkelsewherezq",
    ] {
        let body = format!("--b\r\n{part}\r\n\r\nmkelsewherezq\r\n--b-mkelsewherezq\r\n");
        service
            .send(
                service
                    .post(CREATE_WITH_DOCUMENTS)
                    .header("content-type", "multipart/form-data; boundary=b")
                    .body(body),
                400,
            )
            .await;
    }
    let whole = service.marked.order.to_string();
    for body in [
        &whole[..whole.len() / 2],
        &whole.replacen("\"fileNumber\"", "\"fileNumber\":\"Mkelsewherezq\",\"fileNumber\"", 1),
        "\"mkelsewherezq\"",
        "mkelsewherezq",
    ] {
        service
            .send(
                service
                    .post(CREATE)
                    .header("content-type", "application/json")
                    .body(body.to_owned()),
                400,
            )
            .await;
        let with_broken_part = Form::new()
            .text("signingDetailsFormData", body.to_owned())
            .text("mkelsewherezq", "mkelsewherezq");
        service.send(service.post(CREATE_WITH_DOCUMENTS).multipart(with_broken_part), 400).await;
    }
}

async fn send_documents_that_are_refused(service: &mut Observed) {
    let form = || form(&order("F-refused"));
    let large = vec![b'x'; 10 * 1024 * 1024 + 1];
    let part = |name: &str, content: &[u8]| file(name, content.to_vec());
    for (refused, status) in [
        (form().part("documents", part("Mkfilezq.exe", b"mkcontentzq")), 400),
        (form().part("documents", part("Mkfilezq.pdf", b"mkcontentzq")), 400),
        (form().part("documents", part("Mkfilezq.docx", &document())), 400),
        (form().part("documents", part("Mkfilezq.pdf", b"")), 400),
        (form().part("mkelsewherezq", part("Mkfilezq.pdf", &document())), 400),
        (form().part("requestedBy", part("Mkfilezq.pdf", &document())), 400),
        (form().text("mkelsewherezq", "mkcontentzq".repeat(30_000)), 413),
        (
            form().part(
                "mkelsewherezq",
                reqwest::multipart::Part::bytes(b"mkcontentzq\xFF".to_vec()),
            ),
            400,
        ),
        (form().text("signingServiceId", "mkelsewherezq"), 400),
        (form(), 400),
    ] {
        service.send(service.post(CREATE_WITH_DOCUMENTS).multipart(refused), status).await;
    }
    // The one answer that repeats something: the API promises to name the file, to the client that
    // has just sent the name.
    service
        .send(
            service
                .post(CREATE_WITH_DOCUMENTS)
                .multipart(form().part("documents", part("Mkfilezq.pdf", &large))),
            413,
        )
        .await;
    let (_, named) = service.answers.pop().unwrap();
    let named: Value = serde_json::from_str(&named).unwrap();
    assert_eq!(
        named["detail"],
        "The document \u{201c}Mkfilezq.pdf\u{201d} is larger than 10485760 bytes."
    );
    service.answers.push((413, named.to_string().replace("Mkfilezq", "")));
}

async fn send_heads_that_are_refused(service: &mut Observed) {
    let json = |request: RequestBuilder| request.json(&order("F-heads"));
    let client = service.client.clone();
    let url = service.process.url(CREATE);
    for (request, status) in [
        (json(client.post(&url)).bearer_auth("mkelsewherezq"), 401),
        (json(client.post(&url)).bearer_auth(service.key.replace("nok_", "nok_test_")), 401),
        (json(client.post(&url)).basic_auth("mkelsewherezq", Some("mkelsewherezq")), 401),
        (json(service.post(CREATE)).header("content-type", "text/mkelsewherezq"), 400),
        (
            service.post(CREATE).header("content-type", "text/mkelsewherezq").body("mkelsewherezq"),
            415,
        ),
        (
            service
                .post(CREATE_WITH_DOCUMENTS)
                .header("content-type", "multipart/form-data; boundary=mkelsewherezq")
                .body("mkelsewherezq"),
            400,
        ),
        (
            service
                .post(CREATE)
                .header("content-type", "application/json")
                .header("content-encoding", "mkelsewherezq")
                .body("{}"),
            415,
        ),
        (json(service.post(CREATE)).header("idempotency-key", "mkidemzq, malformed"), 400),
        (
            json(service.post(CREATE))
                .header("idempotency-key", HeaderValue::from_bytes(b"mkidemzq\xE9").unwrap()),
            400,
        ),
        (json(service.post("/api/order/mkelsewherezq?mkelsewherezq=mkelsewherezq")), 404),
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

#[tokio::test(flavor = "multi_thread")]
async fn what_clients_send_is_in_no_log_metric_or_problem() {
    let wiring = Wiring::new();
    let mut service = Observed::start(&wiring);
    let keyed = |service: &Observed, order: &Value| {
        service.post(CREATE).header("idempotency-key", "\"mkidemzq 1\"").json(order)
    };
    let order = service.marked.order.clone();
    service.send(keyed(&service, &order), 201).await;
    service.send(keyed(&service, &order), 201).await;
    // Of the other operation, and then of another kind of time: the file number is in use.
    service.both(&order, 409).await;
    let mut other = order.clone();
    other["signingDetailsFormData"]["signingTimeType"] = json!("between");
    service.send(keyed(&service, &other), 422).await;
    other["signingDetailsFormData"]["fileNumber"] = json!("Mkelsewherezq");
    let with_documents = form(&other)
        .part("documents", file("Mkfilezq deed.pdf", document()))
        .part("documents", file("../Mkfilezq/2.PDF", document()));
    service
        .send(
            service
                .post(CREATE_WITH_DOCUMENTS)
                .header("idempotency-key", "mkidemzq-2")
                .multipart(with_documents),
            201,
        )
        .await;
    send_what_is_wrong(&mut service).await;
    send_documents_that_are_refused(&mut service).await;
    send_heads_that_are_refused(&mut service).await;
    // The mails have everything in them, and are delivered.
    eventually(|| wiring.rows("deliveries") == 0).await;
    assert!(wiring.mails().iter().any(|mail| mail.to_lowercase().contains("to: mk")));
    service.assert_silent_about(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_clients_send_is_told_of_by_no_failure() {
    let wiring = Wiring::new();
    let mut service = Observed::start(&wiring);
    let mut deliveries = Vec::new();
    let mut number = 0;
    let mut fresh = |service: &Observed| {
        number += 1;
        let mut order = service.marked.order.clone();
        order["signingDetailsFormData"]["fileNumber"] = json!(format!("Mkelsewherezq-{number}"));
        order
    };
    for refusing in Wiring::REFUSALS {
        wiring.refuse_mails(refusing);
        let order = fresh(&service);
        service.send(service.post(CREATE).json(&order), 201).await;
        deliveries.push(tried_deliveries(&wiring).await);
    }
    wiring.break_documents();
    let without = fresh(&service);
    let with_documents = form(&without).part("documents", file("Mkfilezq deed.pdf", document()));
    service.send(service.post(CREATE_WITH_DOCUMENTS).multipart(with_documents), 503).await;
    service.readiness().await;
    wiring.spoil_database();
    for refused in [fresh(&service), fresh(&service)] {
        service.send(service.post(CREATE).json(&refused), 500).await;
    }
    wiring.break_database();
    for refused in [fresh(&service), fresh(&service)] {
        service.send(service.post(CREATE).json(&refused), 503).await;
    }
    service.assert_silent_about(&deliveries).await;
}

/// The list of follow-ups once each has failed, pending ones and buried ones. It empties the queue
/// for the next.
async fn tried_deliveries(wiring: &Wiring) -> String {
    let began = Instant::now();
    loop {
        let list = |flags: &[&str]| {
            String::from_utf8(output(wiring, &[&["follow-ups", "list"], flags].concat()).stdout)
                .unwrap()
        };
        let listed = list(&[]) + &list(&["--buried"]);
        let failed = listed.lines().filter(|line| line.contains("mail")).count();
        if i64::try_from(failed).unwrap() == wiring.rows("deliveries") && failed > 0 {
            return listed;
        }
        assert!(began.elapsed().as_secs() < 30, "{listed}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
