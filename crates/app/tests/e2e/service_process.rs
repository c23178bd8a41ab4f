//! The binary as a process of its own.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Output, Stdio},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use reqwest::{Response, StatusCode};
use serde_json::{Value, json};

use crate::{
    harness::{CREATE, CREATE_WITH_DOCUMENTS, client, form_with_deed, order},
    wiring::Wiring,
};

/// Returns a command of the binary on a wiring, with an empty environment. Flags in the arguments
/// replace those of the wiring.
pub fn notary_orders(wiring: &Wiring, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_notary-orders"));
    command.env_clear().envs(wiring.environment()).arg("--data-dir").arg(wiring.data());
    // Many tests create all their orders for the same recipients.
    command.env("NOTARY_ORDERS_MAILS_PER_RECIPIENT_HOUR", "0");
    let own = ["--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--drain-secs=0"]
        .map(str::to_owned)
        .into_iter()
        .chain(wiring.flags());
    let named: Vec<&str> =
        arguments.iter().filter_map(|argument| argument.split('=').next()).collect();
    command
        .args(own.filter(|flag| !named.contains(&flag.split('=').next().unwrap())))
        .args(arguments);
    command
}

pub fn output(wiring: &Wiring, arguments: &[&str]) -> Output {
    notary_orders(wiring, arguments).output().unwrap()
}

/// Issues a key with the binary.
pub fn issue_key(wiring: &Wiring) -> String {
    let issued = output(wiring, &["keys", "issue", "--name", "test"]);
    assert!(issued.status.success(), "{issued:?}");
    String::from_utf8(issued.stdout).unwrap().trim().to_owned()
}

/// A server process; killed if a test fails before it has stopped it.
pub struct ServiceProcess {
    child: Child,
    log: Option<JoinHandle<String>>,
    pub stdout: BufReader<ChildStdout>,
    pub address: String,
    pub ops_address: String,
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ServiceProcess {
    pub fn start(wiring: &Wiring, arguments: &[&str]) -> Self {
        Self::spawn(notary_orders(wiring, arguments))
    }

    /// Starts the server from a shell after another command, such as `ulimit -n 64`.
    pub fn start_after(wiring: &Wiring, first: &str, arguments: &[&str]) -> Self {
        let command = notary_orders(wiring, arguments);
        let mut shell = Command::new("sh");
        shell.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell
            .args(["-c", &format!("{first}; exec \"$@\""), "sh"])
            .arg(command.get_program())
            .args(command.get_args());
        Self::spawn(shell)
    }

    /// Starts the server. The caller decides when its log is read.
    pub fn start_unread(wiring: &Wiring, arguments: &[&str]) -> (Self, BufReader<ChildStderr>) {
        let (server, log, _) = Self::launch(notary_orders(wiring, arguments));
        (server, log)
    }

    fn spawn(command: Command) -> Self {
        let (mut server, mut log, mut before) = Self::launch(command);
        server.log = Some(std::thread::spawn(move || {
            let _ = log.read_to_string(&mut before);
            before
        }));
        server
    }

    /// Starts a server and waits until it listens. Returns its log, and what was read of it.
    fn launch(mut command: Command) -> (Self, BufReader<ChildStderr>, String) {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let (mut line, mut before) = (String::new(), String::new());
        let (address, ops_address) = loop {
            line.clear();
            assert_ne!(
                log.read_line(&mut line).unwrap(),
                0,
                "the server stopped before it listened: {before}"
            );
            before += &line;
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            if event["message"] == "listening" {
                break (
                    event["api"].as_str().unwrap().to_owned(),
                    event["ops"].as_str().unwrap().to_owned(),
                );
            }
            // The pretty format.
            if let Some((_, addresses)) = line.split_once(": listening api=") {
                let (api, ops) = addresses.trim().split_once(" ops=").unwrap();
                break (api.to_owned(), ops.to_owned());
            }
        };
        (Self { child, log: None, stdout, address, ops_address }, log, before)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the resident memory in bytes.
    pub fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// Returns the peak resident memory in bytes.
    pub fn peak_memory(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// Returns a size in bytes from `/proc/PID/status`, where it is in KiB.
    fn status(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Returns the number of open files and connections.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Kills the process with SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal.
    pub fn signal(&self, signal: &str) {
        let kill = format!("kill {signal} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Returns the exit status if the process has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Sends a signal, and returns the exit code and the rest of the standard output.
    pub fn stop(mut self, signal: &str) -> (Option<i32>, String) {
        self.signal(signal);
        let code = self.child.wait().unwrap().code();
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (code, rest)
    }

    /// Stops the server gracefully and returns its log.
    pub fn stop_and_read_log(mut self) -> String {
        let log = self.log.take().unwrap();
        assert_eq!(self.stop("-TERM").0, Some(0));
        log.join().unwrap()
    }

    /// Waits until a revoked or expired key is rejected: ten seconds at most.
    pub async fn rejects_within_ten_seconds(&self, key: &str) {
        let began = Instant::now();
        loop {
            // An invalid order, so that none is created.
            let request = client().post(self.url(CREATE)).bearer_auth(key).json(&json!({}));
            if request.send().await.unwrap().status() == 401 {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(10));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns the answer of an operators' endpoint.
    pub async fn ops(&self, path: &str) -> (StatusCode, String) {
        let url = format!("http://{}{path}", self.ops_address);
        let response = client().get(url).send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    }

    /// Returns the status and the body of `/readyz`.
    pub async fn readiness(&self) -> (StatusCode, Value) {
        let (status, body) = self.ops("/readyz").await;
        (status, serde_json::from_str(&body).unwrap())
    }

    pub async fn post(&self, key: &str, file_number: &str) -> Response {
        let request = client().post(self.url(CREATE)).bearer_auth(key);
        request.json(&order(file_number)).send().await.unwrap()
    }

    pub async fn post_with_deed(&self, key: &str, file_number: &str) -> Response {
        let request = client().post(self.url(CREATE_WITH_DOCUMENTS)).bearer_auth(key);
        request.multipart(form_with_deed(file_number)).send().await.unwrap()
    }
}
