//! The binary: first start, commands beside a running server, signals, wrong settings.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, ChildStdout, Command, Output, Stdio},
};

use serde_json::Value;

use crate::harness::{created, order};

fn notary_orders(data: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_notary-orders"));
    command.env_clear().arg("--data-dir").arg(data).args(["--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0"]).args(arguments);
    command
}

fn output(data: &Path, arguments: &[&str]) -> Output {
    notary_orders(data, arguments).output().unwrap()
}

/// A server process; killed if a test fails before it has stopped it.
struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(data: &Path) -> Self {
        let mut child = notary_orders(data, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "the server ended before it listened");
            let event: Value = serde_json::from_str(&line).expect("the log is JSON when it is no terminal");
            if event["message"] == "listening" {
                break event["api"].as_str().unwrap().to_owned();
            }
        };
        // Read on, so that the server never waits for its log to be read.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { child, stdout, address }
    }

    /// Sends a signal and waits for the end; the exit code, and what was still printed.
    fn stop(mut self, signal: &str) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        // The shell has `kill` built in.
        assert!(Command::new("sh").args(["-c", &format!("kill {signal} {pid}")]).status().unwrap().success());
        let mut printed = String::new();
        self.stdout.read_to_string(&mut printed).unwrap();
        (self.child.wait().unwrap().code(), printed)
    }

    async fn post(&self, key: &str, file_number: &str) -> reqwest::Response {
        reqwest::Client::new().post(format!("http://{}/api/order/create", self.address)).bearer_auth(key).json(&order(file_number)).send().await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_start_shows_a_key_and_a_curl_line_that_works_and_later_ones_do_not() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path());
    let mut lines = Vec::new();
    while !lines.last().is_some_and(|line: &String| line.starts_with("curl ")) {
        let mut line = String::new();
        assert_ne!(server.stdout.read_line(&mut line).unwrap(), 0, "{lines:?}");
        lines.push(line);
    }
    let key = lines.iter().find_map(|line| line.strip_prefix("export API_KEY=")).unwrap().trim().to_owned();
    created(server.post(&key, "F-1").await).await;
    let curl = lines.last().unwrap().clone();
    let pasted = tokio::task::spawn_blocking(move || Command::new("sh").arg("-c").arg(curl.replace("curl -i", "curl -s -i")).output()).await.unwrap().unwrap();
    let answer = String::from_utf8(pasted.stdout).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer} {}", String::from_utf8_lossy(&pasted.stderr));
    assert_eq!(server.stop("-TERM").0, Some(0));

    let server = Server::start(data.path());
    created(server.post(&key, "F-2").await).await;
    assert_eq!(server.stop("-INT"), (Some(0), String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_issued_listed_and_revoked_while_the_server_runs() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let issued = output(data.path(), &["keys", "issue", "--name", "Title Co", "--signing-service", "42", "--expires-in-days", "30"]);
    assert!(issued.status.success());
    let key = String::from_utf8(issued.stdout).unwrap();
    assert_eq!(key.lines().count(), 1);
    let key = key.trim().to_owned();
    created(server.post(&key, "F-1").await).await;

    let listed = String::from_utf8(output(data.path(), &["keys", "list"]).stdout).unwrap();
    let line = listed.lines().find(|line| line.ends_with("Title Co")).unwrap();
    assert!(line.contains(" live ") && line.contains(" 42 ") && !listed.contains(&key[20..]), "{listed}");
    let id = line.split_whitespace().next().unwrap();
    assert!(output(data.path(), &["keys", "revoke", id]).status.success());
    assert_eq!(server.post(&key, "F-2").await.status(), 401);
    let listed = String::from_utf8(output(data.path(), &["keys", "list"]).stdout).unwrap();
    assert!(listed.lines().any(|line| line.contains(" revoked ") && line.ends_with("Title Co")));
    assert_eq!(output(data.path(), &["keys", "revoke", "999"]).status.code(), Some(1));
    assert_eq!(server.stop("-TERM").0, Some(0));
}

#[test]
fn commands_work_without_a_server() {
    let data = tempfile::tempdir().unwrap();
    assert!(output(data.path(), &["migrate"]).status.success());
    let listed = output(data.path(), &["follow-ups", "list"]);
    assert_eq!(String::from_utf8(listed.stdout).unwrap().lines().count(), 1);
    assert!(output(data.path(), &["follow-ups", "list", "--buried"]).status.success());
    assert_eq!(output(data.path(), &["follow-ups", "retry", "1"]).status.code(), Some(1));
    let document: Value = serde_json::from_slice(&output(data.path(), &["openapi"]).stdout).unwrap();
    assert!(document["paths"].is_object());
}

#[test]
fn a_wrong_setting_stops_the_start_with_a_line_that_names_it() {
    let data = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("--listen={}", taken.local_addr().unwrap());
    for (flag, named) in [
        ("--listen=nowhere", "--listen"),
        (taken.as_str(), "--listen"),
        ("--ops-listen=127.0.0.1", "--ops-listen"),
        ("--base-path=no slash", "--base-path"),
        ("--data-dir=/proc/nowhere", "--data-dir"),
        ("--database-url=mysql://user:secret@host/db", "--database-url"),
        ("--database-url=postgres://user:secret@host/db", "--database-url"),
        ("--documents-url=ftp://user:secret@host", "--documents-url"),
        ("--mail-url=pigeon://user:secret@host", "--mail-url"),
        ("--mail-from=nobody at all", "--mail-from"),
        ("--duplicate-window-secs=-1", "--duplicate-window-secs"),
        ("--rate-burst=many", "--rate-burst"),
        ("--rate-per-second=1.5", "--rate-per-second"),
        ("--trusted-proxies=proxy", "--trusted-proxies"),
        ("--log-format=xml", "--log-format"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_notary-orders"));
        command.env_clear().args(["--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0"].iter().filter(|own| !flag.starts_with(own.split('=').next().unwrap())));
        if !flag.starts_with("--data-dir") {
            command.arg("--data-dir").arg(data.path());
        }
        let output = command.arg(flag).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{flag}");
        assert!(error.lines().any(|line| line.starts_with("error: ") && line.contains(named)), "{flag}: {error}");
        assert!(!error.contains("secret"), "{flag}: {error}");
    }
}

#[test]
fn help_lists_every_setting_with_its_variable_and_default_and_no_value_of_the_environment() {
    let help = Command::new(env!("CARGO_BIN_EXE_notary-orders")).arg("--help").env("DATABASE_URL", "postgres://user:secret@host/db").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for (flag, variable, default) in [
        ("--listen", "NOTARY_ORDERS_LISTEN", "127.0.0.1:8080"),
        ("--ops-listen", "NOTARY_ORDERS_OPS_LISTEN", "127.0.0.1:8081"),
        ("--base-path", "NOTARY_ORDERS_BASE_PATH", ""),
        ("--data-dir", "NOTARY_ORDERS_DATA_DIR", "[default: data]"),
        ("--database-url", "DATABASE_URL", "notary-orders.sqlite"),
        ("--documents-url", "NOTARY_ORDERS_DOCUMENTS_URL", "documents in the data directory"),
        ("--mail-url", "NOTARY_ORDERS_MAIL_URL", "mail in the data directory"),
        ("--mail-from", "NOTARY_ORDERS_MAIL_FROM", "orders@localhost"),
        ("--duplicate-window-secs", "NOTARY_ORDERS_DUPLICATE_WINDOW_SECS", "60"),
        ("--rate-per-second", "NOTARY_ORDERS_RATE_PER_SECOND", "50"),
        ("--rate-burst", "NOTARY_ORDERS_RATE_BURST", "100"),
        ("--log-format", "NOTARY_ORDERS_LOG_FORMAT", "pretty on a terminal"),
    ] {
        assert!(help.contains(flag) && help.contains(variable) && help.contains(default), "{flag}");
    }
    assert!(!help.contains("secret"));
}
