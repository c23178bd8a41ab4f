//! Runs the example programs of the API guide, `docs/examples`, as processes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use domain::{api_key::Scope, order::SigningServiceId, use_cases::keys::manage_keys::KeyTerms};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_servers::tools::{built, examples, python};

use crate::{
    harness::scripted_server::{Reply, Request, ScriptedServer},
    harness::{CREATE, CREATE_WITH_DOCUMENTS, TestApp, created},
};

const CLIENTS: [&str; 4] =
    ["create-orders.sh", "create_orders.py", "create-orders.mjs", "create_orders.rs"];

/// The side of the signing service.
const DISPATCHERS: [&str; 4] =
    ["dispatch-orders.sh", "dispatch_orders.py", "dispatch-orders.mjs", "dispatch_orders.rs"];

/// The client at each change. `in_step.rs` runs them, and the mirrors.
pub(super) const RESENDERS: [&str; 4] =
    ["resend-order.sh", "resend_order.py", "resend-order.mjs", "resend_order.rs"];
pub(super) const MIRRORS: [&str; 4] =
    ["mirror-orders.sh", "mirror_orders.py", "mirror-orders.mjs", "mirror_orders.rs"];

/// The signing service after the appointment.
const RETURNERS: [&str; 4] =
    ["return-signed.sh", "return_signed.py", "return-signed.mjs", "return_signed.rs"];

/// `receivers.rs` in `crates/adapter-webhook/tests` runs them.
const RECEIVERS: [&str; 4] =
    ["receive_webhooks.py", "receive-webhooks.mjs", "receive-webhooks.php", "receive_webhooks.rs"];

/// The problem codes after which a client retries. All other codes are final.
const RETRIED: [&str; 6] = [
    "idempotency_in_flight",
    "rate_limited",
    "internal",
    "unavailable",
    "provider_unavailable",
    "unreadable_order",
];

/// The problem codes that come with `errors`.
const WITH_ERRORS: [&str; 6] = [
    "validation_failed",
    "unknown_signing_service",
    "unsupported_document",
    "encrypted_document",
    "infected_document",
    "no_documents",
];

/// The field that the scripted errors name.
const STATE: &str = "/signingDetailsFormData/state";

pub(super) fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Prepares a client process that sees only these settings.
fn command(client: &str, settings: &[(&str, &str)]) -> Command {
    let source = docs().join("examples").join(client);
    let mut command = match source.extension().unwrap().to_str().unwrap() {
        "sh" => Command::new("bash"),
        "py" => Command::new(python()),
        "mjs" => Command::new("node"),
        _ => {
            let name = client.trim_end_matches(".rs");
            let how = format!("cargo build --example {name}");
            Command::new(built(&format!("examples/{name}"), &how))
        }
    };
    if source.extension().unwrap() != "rs" {
        command.arg(source);
    }
    command
        .env_remove("BASE_URL")
        .env_remove("API_KEY")
        .env("NO_PROXY", "127.0.0.1")
        .envs(settings.iter().copied());
    command
}

/// The run of a client.
#[derive(Debug)]
struct Run {
    succeeded: bool,
    orders: Vec<String>,
    documents: Vec<String>,
    message: String,
}

impl Run {
    fn of(mut command: Command) -> Self {
        let output = command.output().unwrap_or_else(|error| {
            panic!("{command:?}: {error}; scripts/test.sh installs what is missing")
        });
        let printed = String::from_utf8(output.stdout).unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        let values = |prefix: &str| {
            let found = printed.lines().filter_map(|line| line.strip_prefix(prefix));
            found.map(str::to_owned).collect::<Vec<_>>()
        };
        let (orders, documents) = (values("order_id "), values("document "));
        assert_eq!(orders.len() + documents.len(), printed.lines().count(), "{printed}");
        Self { succeeded: output.status.success(), orders, documents, message }
    }
}

/// Prepares a client process for a service.
pub(super) fn configured(client: &str, base_url: &str, key: &str, state: &TempDir) -> Command {
    let state = state.path().to_str().unwrap();
    command(client, &[("BASE_URL", base_url), ("API_KEY", key), ("STATE_DIR", state)])
}

/// Runs all clients at once, each with its own file numbers and its stored idempotency keys.
async fn run_all(app: &TestApp, state: &TempDir) -> Vec<Run> {
    let start = |client| {
        let mut command = configured(client, &app.url(""), &app.key, state);
        command.env("FILE_NUMBER", client);
        (tokio::task::spawn_blocking(move || Run::of(command)), client)
    };
    let processes: Vec<_> = examples(&CLIENTS).into_iter().map(start).collect();
    let mut runs = Vec::new();
    for (process, client) in processes {
        let run = process.await.unwrap();
        assert!(run.succeeded && run.orders.len() == 2, "{client}: {run:?}");
        let documents = ["deed-of-trust.pdf", "signing-instructions.docx"];
        assert_eq!(run.documents, documents, "{client}");
        runs.push(run);
    }
    runs
}

/// Runs a client against a server with this script. Returns the result and all requests.
fn run_scripted(client: &str, script: Vec<Reply>) -> (Run, Vec<Request>) {
    run_scripted_with(&tempfile::tempdir().unwrap(), client, script)
}

fn run_scripted_with(state: &TempDir, client: &str, script: Vec<Reply>) -> (Run, Vec<Request>) {
    let server = ScriptedServer::start(script);
    let run = Run::of(configured(client, &server.url(), "nok_secret", state));
    (run, server.stop())
}

/// Runs a test for all clients in parallel.
fn for_each_client(test: impl Fn(&str) + Sync) {
    for_each(CLIENTS, test);
}

fn for_each(clients: [&str; 4], test: impl Fn(&str) + Sync) {
    std::thread::scope(|scope| {
        for client in examples(&clients) {
            let test = &test;
            scope.spawn(move || test(client));
        }
    });
}

#[test]
fn guides_link_the_examples() {
    let of_guides = [
        ("api.md", CLIENTS),
        ("api.md", DISPATCHERS),
        ("api.md", RESENDERS),
        ("api.md", MIRRORS),
        ("api.md", RETURNERS),
        ("webhooks.md", RECEIVERS),
    ];
    for (guide, examples) in of_guides {
        let guide = fs::read_to_string(docs().join(guide)).unwrap();
        for name in examples {
            assert!(guide.contains(&format!("[{name}](examples/{name})")), "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_create_each_order_once_over_two_runs() {
    let (app, state) = (TestApp::start().await, tempfile::tempdir().unwrap());
    let first = run_all(&app, &state).await;
    // Each client creates two orders with a document each.
    let count = 2 * first.len();
    app.mails(count).await;
    let second = run_all(&app, &state).await;
    for (first, second) in first.iter().zip(&second) {
        assert_eq!(first.orders, second.orders);
    }
    let stored = (app.rows("orders"), app.rows("documents"), app.documents().len());
    assert_eq!(stored, (count, count, count));
}

pub(super) fn of_service() -> KeyTerms {
    KeyTerms {
        for_service: Some(SigningServiceId(42)),
        scopes: Scope::DEFAULT_OF_SERVICES.into_iter().collect(),
        ..KeyTerms::default()
    }
}

/// Runs a program of the signing service, and returns the lines that it prints.
async fn dispatch(app: &TestApp, key: &str, state: &TempDir, dispatcher: &str) -> Vec<String> {
    lines(configured(dispatcher, &app.url(""), key, state)).await
}

/// Runs a program that succeeds, and returns the lines that it prints.
pub(super) async fn lines(mut command: Command) -> Vec<String> {
    let (output, command) =
        tokio::task::spawn_blocking(move || (command.output().unwrap(), command)).await.unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn services_return_signed_documents_once_over_two_runs() {
    let app = TestApp::start().await;
    let key = app.issue_key_on(of_service()).await;
    for returner in examples(&RETURNERS) {
        let state = tempfile::tempdir().unwrap();
        let id = created(app.order(returner).await).await["order_id"].clone();
        for _ in 0..2 {
            let mut command = configured(returner, &app.url(""), &key, &state);
            command.env("ORDER_ID", id.to_string());
            assert_eq!(lines(command).await, [format!("returned {id} 1")], "{returner}");
        }
        let order = app.read(&format!("/api/order/{id}")).await;
        assert_eq!(
            (&order["order_status"], &order["signed_documents_uploaded"]),
            (&json!("SIGNED"), &json!(1)),
            "{returner}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dispatchers_assign_and_confirm_each_new_order_once() {
    let app = TestApp::start().await;
    let key = app.issue_key_on(of_service()).await;
    for dispatcher in examples(&DISPATCHERS) {
        let state = tempfile::tempdir().unwrap();
        let mut ids = Vec::new();
        for number in 1..=2 {
            let file_number = format!("{dispatcher}-{number}");
            let record = created(app.order(&file_number).await).await;
            ids.push(record["order_id"].clone());
        }
        let steps = |id: &Value| [format!("ASSIGNED {id}"), format!("CONFIRMED {id}")];
        let expected: Vec<_> = ids.iter().flat_map(steps).collect();
        assert_eq!(dispatch(&app, &key, &state, dispatcher).await, expected, "{dispatcher}");
        let late = created(app.order(&format!("{dispatcher}-3")).await).await["order_id"].clone();
        assert_eq!(dispatch(&app, &key, &state, dispatcher).await, steps(&late), "{dispatcher}");
        assert_eq!(dispatch(&app, &key, &state, dispatcher).await, [""; 0], "{dispatcher}");

        // What the client learns by reading.
        let order = app.read(&format!("/api/order/{late}")).await;
        assert_eq!(
            (&order["order_status"], &order["notary_id"]),
            (&json!("CONFIRMED"), &json!(7001))
        );
        let of = |entry: &Value| (entry["order_status"].clone(), entry["actor"].clone());
        let history: Vec<_> = order["history"].as_array().unwrap().iter().map(of).collect();
        let expected = [("NEW", "client"), ("ASSIGNED", "service"), ("CONFIRMED", "service")];
        assert_eq!(history, expected.map(|(status, actor)| (json!(status), json!(actor))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dispatchers_read_every_page() {
    const PAGE: usize = 100;
    let app = TestApp::start().await;
    let key = app.issue_key_on(of_service()).await;
    let mut ids = Vec::new();
    for number in 0..=PAGE + 1 {
        ids.push(created(app.order(&format!("OLD-{number}")).await).await["order_id"].clone());
    }
    let service = app.as_key(&key);
    let change = async |id: &Value, change: Value| {
        let request = service.request(Method::PATCH, &format!("/api/order/{id}"));
        assert_eq!(request.json(&change).send().await.unwrap().status(), 200);
    };
    // Open, and of another notary.
    for id in &ids[1..] {
        change(id, json!({ "order_status": "ASSIGNED", "notary_id": 7002 })).await;
    }
    for dispatcher in examples(&DISPATCHERS) {
        let state = tempfile::tempdir().unwrap();
        let steps = ["ASSIGNED", "CONFIRMED"].map(|status| format!("{status} {}", ids[0]));
        assert_eq!(dispatch(&app, &key, &state, dispatcher).await, steps, "{dispatcher}");
        // The next run finds an order that is open again.
        change(&ids[0], json!({ "order_status": "NEW", "notary_id": null })).await;
        assert_eq!(dispatch(&app, &key, &state, dispatcher).await, steps, "{dispatcher}");
        change(&ids[0], json!({ "order_status": "NEW", "notary_id": null })).await;
    }
}

fn lost() -> Reply {
    Reply::problem(412, "precondition_failed", Vec::new(), None)
}

#[test]
fn resenders_give_up_after_three_lost_races() {
    for_each(RESENDERS, |resender| {
        let headers = vec![("Content-Type", "application/json".to_owned())];
        let body = json!({ "order_id": 1 }).to_string();
        let amended = Reply::Answer { status: 200, headers, body };
        let server = ScriptedServer::start(vec![amended, lost(), lost(), lost()]);
        let state = tempfile::tempdir().unwrap();
        let output = configured(resender, &server.url(), "nok_secret", &state).output().unwrap();
        let (requests, message) = (server.stop(), String::from_utf8(output.stderr).unwrap());
        assert!(!output.status.success() && requests.len() == 4, "{resender}: {message}");
        assert!(message.contains("gave up on order 1 after 3 answers 412"), "{message}");
        let keys = requests.iter().map(|request| request.header("Idempotency-Key").unwrap());
        assert_eq!(keys.collect::<std::collections::BTreeSet<_>>().len(), 4, "{resender}");
    });
}

#[test]
fn dispatchers_give_up_after_three_lost_races() {
    for_each(DISPATCHERS, |dispatcher| {
        let state = tempfile::tempdir().unwrap();
        let (run, requests) = run_scripted_with(&state, dispatcher, vec![lost(), lost(), lost()]);
        assert_eq!((run.succeeded, requests.len()), (false, 3), "{dispatcher}: {run:?}");
        for part in ["gave up on order 1 after 3 answers 412", "proxy"] {
            assert!(run.message.contains(part), "{dispatcher}: {run:?}");
        }
        assert!(!run.message.contains("Traceback"), "{dispatcher}: {run:?}");
        for pair in requests.windows(2) {
            let waited = pair[1].at - pair[0].at;
            assert!(waited >= Duration::from_millis(500), "{dispatcher} did not pause");
        }
        assert!(!state.path().join("dispatched-to").exists(), "{dispatcher} skips the order");
    });
}

#[test]
fn clients_retry_with_one_key_after_retry_after() {
    for_each_client(|client| {
        let retry_after = || vec![("Retry-After", "1".to_owned())];
        let script = vec![
            Reply::problem(503, "unavailable", retry_after(), None),
            Reply::problem(429, "rate_limited", retry_after(), None),
            Reply::Hangup,
            Reply::TornCreated,
        ];
        let (run, requests) = run_scripted(client, script);
        assert!(run.succeeded && run.orders == ["5", "6"], "{client}: {run:?}");
        let paths: Vec<_> = requests.iter().map(Request::path).collect();
        assert_eq!(paths, [&[CREATE; 5][..], &[CREATE_WITH_DOCUMENTS]].concat(), "{client}");
        let header = |name| requests.iter().map(|it| it.header(name).unwrap()).collect::<Vec<_>>();
        let keys = header("Idempotency-Key");
        let is_quoted = keys[0].starts_with('"') && keys[0].ends_with('"');
        assert!(is_quoted && keys[0].len() >= 34, "{client}: {keys:?}");
        assert!(keys[..5] == [keys[0]; 5] && keys[5] != keys[0], "{client}: {keys:?}");
        assert_eq!(header("Authorization"), ["Bearer nok_secret"; 6], "{client}");
        for pair in requests[..3].windows(2) {
            let waited = pair[1].at - pair[0].at;
            assert!(waited >= Duration::from_secs(1), "{client} retried before Retry-After");
        }
    });
}

#[test]
fn restarted_client_reuses_its_stored_key() {
    for_each_client(|client| {
        let state = tempfile::tempdir().unwrap();
        let key = |requests: &[Request]| requests[0].header("Idempotency-Key").unwrap().to_owned();
        let rejection = Reply::problem(401, "unauthorized", Vec::new(), None);
        let (run, first) = run_scripted_with(&state, client, vec![rejection]);
        assert!(!run.succeeded, "{client}: {run:?}");
        let (run, second) = run_scripted_with(&state, client, Vec::new());
        assert!(run.succeeded, "{client}: {run:?}");
        assert_eq!(key(&first), key(&second), "{client}");
        let (_, other) = run_scripted(client, Vec::new());
        assert_ne!(key(&first), key(&other), "{client}");
    });
}

#[test]
fn clients_follow_the_guide_for_every_code() {
    let guide = fs::read_to_string(docs().join("api.md")).unwrap();
    let codes: Vec<(u16, &str)> = guide.lines().flat_map(problem_row).collect();
    let is_listed = |code| codes.iter().any(|(_, listed)| *listed == code);
    assert!(RETRIED.into_iter().chain(WITH_ERRORS).all(is_listed), "{codes:?}");
    for_each_client(|client| {
        for &(status, code) in &codes {
            let has_errors = WITH_ERRORS.contains(&code);
            let error = json!({ "pointer": STATE, "code": "blank", "detail": "is blank" });
            let errors = has_errors.then(|| json!([error]));
            let problem = Reply::problem(status, code, Vec::new(), errors);
            let (run, requests) = run_scripted(client, vec![problem]);
            let is_retried = RETRIED.contains(&code);
            let expected = if is_retried { (true, 3) } else { (false, 1) };
            assert_eq!((run.succeeded, requests.len()), expected, "{client} {code}: {run:?}");
            if is_retried {
                continue;
            }
            assert_eq!(run.orders, [""; 0]);
            let mut parts = vec![
                format!("{status} {code}: what is wrong"),
                "request 5a1c0e9d7b3f4a2286c0d1e5".to_owned(),
            ];
            parts.extend(has_errors.then(|| format!("{STATE} blank: is blank")));
            for part in parts {
                assert!(run.message.contains(&part), "{client} hides {part:?}: {}", run.message);
            }
        }
    });
}

/// Reads status and codes from a row of the guide's table of problems.
fn problem_row(line: &str) -> Vec<(u16, &str)> {
    let mut cells = line.strip_prefix("| ").unwrap_or_default().split(" | ");
    let Some(status) = cells.next().and_then(|status| status.parse().ok()) else {
        return Vec::new();
    };
    let codes = cells.next().unwrap_or_default().split(", ");
    codes.filter_map(|code| Some((status, code.strip_prefix('`')?.strip_suffix('`')?))).collect()
}

#[test]
fn unknown_codes_are_handled_by_status() {
    for_each_client(|client| {
        let page =
            |status, headers| Reply::Answer { status, headers, body: "<p>from a proxy".to_owned() };
        let elsewhere = vec![("Location", "/elsewhere".to_owned())];
        for (reply, named) in [
            (Reply::problem(418, "teapot", Vec::new(), None), "418 teapot"),
            (page(301, elsewhere), "301"),
        ] {
            let (run, requests) = run_scripted(client, vec![reply]);
            assert_eq!((run.succeeded, requests.len()), (false, 1), "{client}: {run:?}");
            assert!(run.message.contains(named), "{client}: {run:?}");
        }

        let (run, requests) = run_scripted(client, vec![page(502, Vec::new())]);
        assert!(run.succeeded && requests.len() == 3, "{client}: {run:?}");
    });
}

#[test]
fn clients_give_up_after_five_attempts() {
    for_each_client(|client| {
        let script = (0..5).map(|_| Reply::problem(500, "internal", Vec::new(), None)).collect();
        let (run, requests) = run_scripted(client, script);
        assert_eq!((run.succeeded, requests.len()), (false, 5), "{client}: {run:?}");
        assert_eq!(run.orders, [""; 0]);
        for part in ["gave up after 5 attempts", "500 internal"] {
            assert!(run.message.contains(part), "{client}: {run:?}");
        }
    });
}

#[test]
fn missing_setting_is_named() {
    for_each_client(|client| {
        let run = Run::of(command(client, &[("API_KEY", "nok_secret")]));
        assert!(!run.succeeded && run.message.contains("set BASE_URL"), "{client}: {run:?}");
    });
}
