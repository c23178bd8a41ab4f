//! The receiver for trying out, `webhooks listen`, beside a running service.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStderr, ChildStdout, Command, Stdio},
};

use reqwest::StatusCode;
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::net::TcpSocket;

use crate::{
    harness::service_process::{ServiceProcess, issue_key, notary_orders, output, run},
    harness::{WEBHOOKS, created, order},
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    event_is_printed_once_and_whole_until_ctrl_c_deletes_the_endpoint,
}

/// A running `webhooks listen`; killed if a test fails before it has ended.
pub struct Listening {
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    notes: BufReader<ChildStderr>,
    pub url: String,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Listening {
    /// Starts the command, and waits until the test event has arrived and is printed.
    fn start(wiring: &Wiring, options: &[&str]) -> Self {
        let command = ["webhooks", "listen", WEBHOOKS[1]];
        Self::ready(notary_orders(wiring, &[&command[..], options].concat()))
    }

    pub fn ready(command: Command) -> Self {
        let mut listening = Self::spawn(command);
        listening.noted("the test event of the service has arrived");
        assert_eq!(listening.event()["type"], "webhook.test");
        listening
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().map(BufReader::new);
        let notes = BufReader::new(child.stderr.take().unwrap());
        let mut listening = Self { child, stdout, notes, url: String::new() };
        let line = listening.noted(" to http://");
        line.rsplit_once(' ').unwrap().1.clone_into(&mut listening.url);
        listening
    }

    /// Waits for a line of standard error with this text, and returns it.
    fn noted(&mut self, text: &str) -> String {
        let mut lines = String::new();
        loop {
            let before = lines.len();
            let read = self.notes.read_line(&mut lines).unwrap();
            assert_ne!(read, 0, "no {text:?} in: {lines}");
            if lines[before..].contains(text) {
                return lines[before..].trim_end().to_owned();
            }
        }
    }

    /// Waits for the next event on standard output.
    pub fn event(&mut self) -> Value {
        let stdout = self.stdout.as_mut().unwrap();
        let mut events = serde_json::Deserializer::from_reader(stdout).into_iter();
        events.next().unwrap().unwrap()
    }

    /// Sends a signal. Returns the exit code, and the rest of standard output.
    pub fn stop(mut self, signal: &str) -> (Option<i32>, String) {
        let kill = format!("kill {signal} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let mut rest = String::new();
        self.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest.trim().to_owned())
    }
}

/// Returns the endpoints as `webhooks list` shows them.
fn endpoints(wiring: &Wiring) -> Vec<Value> {
    let listed = run(wiring, &["webhooks", "list", "--json"]);
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn event_is_printed_once_and_whole_until_ctrl_c_deletes_the_endpoint(kind: Kind) {
    let wiring = kind.wiring();
    let service = ServiceProcess::keyed(&wiring, &WEBHOOKS);
    let mut listening = Listening::start(&wiring, &["--port=0"]);
    let [endpoint] = &endpoints(&wiring)[..] else { panic!("there is one endpoint") };
    assert_eq!((&endpoint["client"], &endpoint["url"]), (&json!(1), &json!(listening.url)));

    let record = created(service.order("F-1").await).await;
    let event = listening.event();

    let data = json!({
        "order_id": record["order_id"],
        "file_number": "F-1",
        "order_status": "NEW",
        "signing_service_id": 42,
        "client_company_id": null,
        "documents_uploaded": 0,
        "is_test": false,
        "created_at": record["created_at"],
    });
    let whole = json!({ "type": "order.created", "timestamp": record["created_at"], "data": data });
    assert_eq!(event, whole);
    let id = endpoint["id"].to_string();
    run(&wiring, &["webhooks", "replay", &id, "--since=2000-01-01T00:00:00Z"]);
    for _ in 0..2 {
        listening.noted(" arrived again");
    }
    assert_eq!(listening.stop("-INT"), (Some(0), String::new()));
    assert_eq!(endpoints(&wiring), [Value::Null; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_webhook_is_rejected_with_its_reason() {
    let wiring = Wiring::embedded();
    let service = ServiceProcess::keyed(&wiring, &WEBHOOKS);
    let mut listening = Listening::start(&wiring, &["--port=0"]);
    let body = json!({ "type": "order.created", "data": { "order_id": 666 } }).to_string();
    #[expect(clippy::disallowed_methods, reason = "the command reads the clock of the system")]
    let now = OffsetDateTime::now_utc().unix_timestamp();
    for (signature, timestamp, reason) in [
        (Some("v1,bVz4Y/kUj7MFVf+hMbe86XFq5GsEIZHzl59hSTjjeac="), now, "was not made with"),
        (Some("v1,bVz4Y/kUj7MFVf+hMbe86XFq5GsEIZHzl59hSTjjeac="), now - 400, "five minutes"),
        (None, now, "webhook-signature is missing"),
    ] {
        let request = service.client.post(&listening.url).body(body.clone());
        let request = request.header("webhook-id", "msg_1").header("webhook-timestamp", timestamp);
        let request =
            signature.iter().fold(request, |it, one| it.header("webhook-signature", *one));
        assert_eq!(request.send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
        let noted = listening.noted("rejected a webhook: ");
        assert!(noted.contains(reason), "{noted}");
    }
    assert_eq!(listening.stop("-TERM"), (Some(0), String::new()));
    assert_eq!(endpoints(&wiring), [Value::Null; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn setting_that_the_service_lacks_is_named() {
    let wiring = Wiring::embedded();
    let _service = ServiceProcess::keyed(&wiring, &WEBHOOKS[1..]);
    for flags in [&WEBHOOKS[1..], &WEBHOOKS] {
        let output = output(&wiring, &[&["webhooks", "listen", "--port=0"], flags].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("start the service with --webhook-allow 127.0.0.1"), "{error}");
        assert_eq!(endpoints(&wiring), [Value::Null; 0]);
    }
    let other_key = "--secrets-key=BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA=";
    let output = output(&wiring, &["webhooks", "listen", "--port=0", other_key]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("needs the same --secrets-key"), "{error}");
    assert_eq!((output.status.code(), endpoints(&wiring)), (Some(2), Vec::new()));
}

#[test]
fn service_that_does_not_run_is_suspected() {
    let wiring = Wiring::embedded();
    issue_key(&wiring);
    let listen = ["webhooks", "listen", "--port=0", WEBHOOKS[1]];
    let mut listening = Listening::spawn(notary_orders(&wiring, &listen));
    listening.noted("Does it run");
    let service = ServiceProcess::start(&wiring, &WEBHOOKS);
    assert_eq!(listening.event()["type"], "webhook.test");
    listening.noted("the test event of the service has arrived");
    assert_eq!(listening.stop("-HUP").0, Some(0));
    assert_eq!(endpoints(&wiring), [Value::Null; 0]);
    drop(service);
}

#[test]
fn endpoint_of_a_killed_receiver_is_deleted_by_the_next() {
    let wiring = Wiring::embedded();
    let _service = ServiceProcess::keyed(&wiring, &WEBHOOKS);
    // Keeps the port from other tests: the receivers may listen there, because this socket does not.
    let port = TcpSocket::new_v4().unwrap();
    port.set_reuseaddr(true).unwrap();
    port.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let flag = format!("--port={}", port.local_addr().unwrap().port());
    let killed = Listening::start(&wiring, &[&flag]);
    let own = "http://127.0.0.1:9000/";
    run(&wiring, &["webhooks", "create", "--client=1", "--url", own, WEBHOOKS[0], WEBHOOKS[1]]);
    let left = endpoints(&wiring)[0]["id"].clone();
    assert_eq!(killed.stop("-KILL").0, None);
    assert_eq!(endpoints(&wiring).len(), 2);

    let next = Listening::start(&wiring, &[&flag]);
    let urls: Vec<_> = endpoints(&wiring).into_iter().map(|it| it["url"].clone()).collect();
    assert_eq!(urls, [json!(own), json!(next.url)]);
    assert_ne!(endpoints(&wiring)[1]["id"], left);
    assert_eq!(next.stop("-INT").0, Some(0));
    assert_eq!(endpoints(&wiring).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_output_ends_the_command_and_deletes_the_endpoint() {
    let wiring = Wiring::embedded();
    let service = ServiceProcess::keyed(&wiring, &WEBHOOKS);
    let mut listening = Listening::start(&wiring, &["--port=0"]);
    drop(listening.stdout.take());
    created(service.order("F-1").await).await;
    listening.noted("is deleted");
    assert_eq!(listening.child.wait().unwrap().code(), Some(0));
    assert_eq!(endpoints(&wiring), [Value::Null; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_and_events_are_chosen() {
    let wiring = Wiring::embedded();
    let issue = |options: &[&str]| {
        run(&wiring, &[&["keys", "issue", "--name=k"], options].concat()).trim().to_owned()
    };
    let fails = |options: &[&str]| {
        let listen = ["webhooks", "listen", "--port=0", WEBHOOKS[1]];
        let output = output(&wiring, &[&listen[..], options].concat());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(fails(&[]).contains("keys issue"));
    let test = issue(&["--test"]);
    issue(&[]);
    issue(&["--for-service=42"]);
    let error = fails(&[]);
    assert!(error.contains("--client 1 or --client 2 or --service 42"), "{error}");
    assert!(fails(&["--client=9"]).contains("there is no client 9"));
    assert!(fails(&["--client=1", "--event=order.lost"]).contains("/events/0"));

    let service = ServiceProcess::start(&wiring, &WEBHOOKS).with_key(test);
    let options = ["--port=0", "--service=42", "--test", "--event=order.cancelled"];
    let mut listening = Listening::start(&wiring, &options);
    let id = created(service.create(&order("F-1")).await).await["order_id"].clone();
    run(&wiring, &["orders", "cancel", &id.to_string()]);
    let event = listening.event();
    assert_eq!(
        (&event["type"], &event["data"]["is_test"]),
        (&json!("order.cancelled"), &json!(true))
    );
    assert_eq!(listening.stop("-INT"), (Some(0), String::new()));
}
