//! The clients of the API guide, each as a process of its own: `docs/examples/create…`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::json;
use tempfile::TempDir;

use crate::{
    harness::{CREATE, CREATE_WITH_DOCUMENTS, TestApp},
    scripted_server::{Reply, Request, ScriptedServer},
};

const CLIENTS: [&str; 4] =
    ["create-orders.sh", "create_orders.py", "create-orders.mjs", "create_orders.rs"];

/// Everything else of the guide's table of problems is final.
const REPEATED: [&str; 4] = ["idempotency_in_flight", "rate_limited", "internal", "unavailable"];

const WITH_ERRORS: [&str; 3] = ["validation_failed", "unsupported_document", "no_documents"];

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Something below the target directory that the test's own binary lies in.
pub fn built(path: &str, how: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let found =
        test.ancestors().map(|folder| folder.join(path)).find(|candidate| candidate.exists());
    found.unwrap_or_else(|| panic!("{path} is missing below the target directory: {how}"))
}

/// A client process with these settings and no others.
fn command(client: &str, settings: &[(&str, &str)]) -> Command {
    let source = docs().join("examples").join(client);
    let mut command = match source.extension().unwrap().to_str().unwrap() {
        "sh" => Command::new("bash"),
        "py" => Command::new(built("tools/venv/bin/python", "scripts/test.sh makes it")),
        "mjs" => Command::new("node"),
        _ => Command::new(built("examples/create_orders", "cargo build --example create_orders")),
    };
    if client != "create_orders.rs" {
        command.arg(source);
    }
    command
        .env_remove("BASE_URL")
        .env_remove("API_KEY")
        .env("NO_PROXY", "127.0.0.1")
        .envs(settings.iter().copied());
    command
}

#[derive(Debug)]
struct Run {
    succeeded: bool,
    orders: Vec<String>,
    message: String,
}

impl Run {
    fn of(mut command: Command) -> Self {
        let output = command.output().unwrap_or_else(|error| {
            panic!("{command:?}: {error}; scripts/test.sh installs what is missing")
        });
        let (printed, message) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        let orders = printed
            .lines()
            .map(|line| {
                line.strip_prefix("order_id ").unwrap_or_else(|| panic!("{printed}")).to_owned()
            })
            .collect();
        Self { succeeded: output.status.success(), orders, message }
    }
}

/// Runs every client at once, each with file numbers of its own, and with the keys that it stored
/// before.
async fn run_all(app: &TestApp, stored: &TempDir) -> Vec<Run> {
    let processes = CLIENTS.map(|client| {
        let settings = [
            ("BASE_URL", &*app.url("")),
            ("API_KEY", &app.key),
            ("FILE_NUMBER", client),
            ("STATE_DIR", stored.path().to_str().unwrap()),
        ];
        let command = command(client, &settings);
        tokio::task::spawn_blocking(move || Run::of(command))
    });
    let mut runs = Vec::new();
    for (process, client) in processes.into_iter().zip(CLIENTS) {
        let run = process.await.unwrap();
        assert!(run.succeeded && run.orders.len() == 2, "{client}: {run:?}");
        runs.push(run);
    }
    runs
}

/// A client against a server with this script; how it ended, and everything that it asked.
fn run_scripted(client: &str, script: Vec<Reply>) -> (Run, Vec<Request>) {
    run_scripted_with(&tempfile::tempdir().unwrap(), client, script)
}

fn run_scripted_with(stored: &TempDir, client: &str, script: Vec<Reply>) -> (Run, Vec<Request>) {
    let server = ScriptedServer::start(script);
    let run = Run::of(command(
        client,
        &[
            ("BASE_URL", &server.url()),
            ("API_KEY", "nok_secret"),
            ("STATE_DIR", stored.path().to_str().unwrap()),
        ],
    ));
    (run, server.stop())
}

fn for_each_client(test: impl Fn(&str) + Sync) {
    std::thread::scope(|scope| {
        for client in CLIENTS {
            let test = &test;
            scope.spawn(move || test(client));
        }
    });
}

#[test]
fn the_guide_shows_the_clients_as_they_are() {
    let guide = docs().join("api.md");
    let mut text = fs::read_to_string(&guide).unwrap();
    let shown = text.clone();
    for client in CLIENTS {
        let start = text
            .find(&format!("<!-- {client} -->\n```"))
            .unwrap_or_else(|| panic!("docs/api.md does not show {client}"));
        let code = start + text[start..].find("```").unwrap();
        let code = code + text[code..].find('\n').unwrap() + 1;
        let end = code + text[code..].find("```\n").unwrap();
        text.replace_range(
            code..end,
            &fs::read_to_string(docs().join("examples").join(client)).unwrap(),
        );
    }
    if std::env::var_os("RENEW_GUIDE").is_some() {
        fs::write(&guide, &text).unwrap();
    } else {
        assert!(
            text == shown,
            "docs/api.md shows other clients than docs/examples has; renew it with `just renew-guide`"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_creates_an_order_and_one_with_documents() {
    let app = TestApp::start().await;
    run_all(&app, &tempfile::tempdir().unwrap()).await;
    assert_eq!((app.rows("orders"), app.rows("documents"), app.documents().len()), (8, 8, 8));
    app.mails(8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_run_again_with_the_keys_it_stored_gets_the_same_orders() {
    let (app, stored) = (TestApp::start().await, tempfile::tempdir().unwrap());
    let first = run_all(&app, &stored).await;
    let again = run_all(&app, &stored).await;
    for (first, again) in first.iter().zip(&again) {
        assert_eq!(first.orders, again.orders);
    }
    assert_eq!((app.rows("orders"), app.rows("documents")), (8, 8));
}

#[test]
fn a_client_comes_through_failures_with_one_key_for_each_order_and_never_before_its_time() {
    for_each_client(|client| {
        let wait = || vec![("Retry-After", "1".to_owned())];
        let script = vec![
            Reply::problem(503, "unavailable", wait(), None),
            Reply::problem(429, "rate_limited", wait(), None),
            Reply::Hangup,
            Reply::TornCreated,
        ];
        let (run, requests) = run_scripted(client, script);
        assert!(run.succeeded && run.orders == ["5", "6"], "{client}: {run:?}");
        let paths: Vec<_> = requests.iter().map(Request::path).collect();
        assert_eq!(
            paths,
            [CREATE, CREATE, CREATE, CREATE, CREATE, CREATE_WITH_DOCUMENTS],
            "{client}"
        );
        let keys: Vec<_> =
            requests.iter().map(|request| request.header("Idempotency-Key").unwrap()).collect();
        assert!(
            keys[0].len() >= 34 && keys[0].starts_with('"') && keys[0].ends_with('"'),
            "{client}: {keys:?}"
        );
        assert!(
            keys[..5].iter().all(|key| *key == keys[0]) && keys[5] != keys[0],
            "{client}: {keys:?}"
        );
        assert!(
            requests
                .iter()
                .all(|request| request.header("Authorization") == Some("Bearer nok_secret")),
            "{client}"
        );
        for pair in requests[..3].windows(2) {
            assert!(
                pair[1].at - pair[0].at >= Duration::from_secs(1),
                "{client} came before Retry-After"
            );
        }
    });
}

#[test]
fn a_client_that_is_restarted_repeats_with_the_key_it_stored() {
    for_each_client(|client| {
        let stored = tempfile::tempdir().unwrap();
        let key = |requests: &[Request]| requests[0].header("Idempotency-Key").unwrap().to_owned();
        let (run, first) = run_scripted_with(
            &stored,
            client,
            vec![Reply::problem(401, "unauthorized", Vec::new(), None)],
        );
        assert!(!run.succeeded, "{client}: {run:?}");
        let (run, again) = run_scripted_with(&stored, client, Vec::new());
        assert!(run.succeeded, "{client}: {run:?}");
        assert_eq!(key(&first), key(&again), "{client}");
        let (_, other) = run_scripted(client, Vec::new());
        assert_ne!(key(&first), key(&other), "{client}");
    });
}

#[test]
fn a_client_does_what_the_guide_says_about_every_code() {
    let guide = fs::read_to_string(docs().join("api.md")).unwrap();
    let codes: Vec<(u16, &str)> = guide.lines().filter_map(problem_row).collect();
    assert!(
        REPEATED
            .into_iter()
            .chain(WITH_ERRORS)
            .all(|code| codes.iter().any(|(_, listed)| *listed == code)),
        "{codes:?}"
    );
    for_each_client(|client| {
        for &(status, code) in &codes {
            let errors = WITH_ERRORS.contains(&code).then(|| json!([{ "pointer": "/signingDetailsFormData/state", "code": "blank", "detail": "is blank" }]));
            let (run, requests) =
                run_scripted(client, vec![Reply::problem(status, code, Vec::new(), errors)]);
            if REPEATED.contains(&code) {
                assert!(
                    run.succeeded && requests.len() == 3,
                    "{client} does not repeat after {code}: {run:?}"
                );
                continue;
            }
            assert!(
                !run.succeeded && run.orders.is_empty() && requests.len() == 1,
                "{client} goes on after {code}: {run:?}"
            );
            let pointer = if WITH_ERRORS.contains(&code) {
                "/signingDetailsFormData/state blank: is blank"
            } else {
                ""
            };
            for part in [
                &format!("{status} {code}: what is wrong"),
                "request 5a1c0e9d7b3f4a2286c0d1e5",
                pointer,
            ] {
                assert!(
                    run.message.contains(part),
                    "{client} does not show {part:?}: {}",
                    run.message
                );
            }
        }
    });
}

/// Status and code of a row of the guide's table of problems.
fn problem_row(line: &str) -> Option<(u16, &str)> {
    let mut cells = line.strip_prefix("| ")?.split(" | ");
    let status = cells.next()?.parse().ok()?;
    Some((status, cells.next()?.strip_prefix('`')?.strip_suffix('`')?))
}

#[test]
fn what_a_client_does_not_know_it_treats_by_its_status() {
    for_each_client(|client| {
        let (run, requests) =
            run_scripted(client, vec![Reply::problem(418, "teapot", Vec::new(), None)]);
        assert!(
            !run.succeeded && requests.len() == 1 && run.message.contains("418 teapot"),
            "{client}: {run:?}"
        );

        let page =
            |status, headers| Reply::Answer { status, headers, body: "<p>from a proxy".to_owned() };
        let elsewhere = vec![("Location", "/elsewhere".to_owned())];
        let (run, requests) = run_scripted(client, vec![page(301, elsewhere)]);
        assert!(
            !run.succeeded && requests.len() == 1 && run.message.contains("301"),
            "{client}: {run:?}"
        );

        let (run, requests) = run_scripted(client, vec![page(502, Vec::new())]);
        assert!(run.succeeded && requests.len() == 3, "{client}: {run:?}");
    });
}

#[test]
fn a_client_gives_up_after_five_attempts() {
    for_each_client(|client| {
        let script = (0..5).map(|_| Reply::problem(500, "internal", Vec::new(), None)).collect();
        let (run, requests) = run_scripted(client, script);
        assert!(
            !run.succeeded && run.orders.is_empty() && requests.len() == 5,
            "{client}: {run:?}"
        );
        assert!(
            run.message.contains("gave up after 5 attempts")
                && run.message.contains("500 internal"),
            "{client}: {run:?}"
        );
    });
}

#[test]
fn a_client_says_which_setting_it_lacks() {
    for_each_client(|client| {
        let run = Run::of(command(client, &[("API_KEY", "nok_secret")]));
        assert!(!run.succeeded && run.message.contains("set BASE_URL"), "{client}: {run:?}");
    });
}
