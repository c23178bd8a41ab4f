//! The binary as a process of its own.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStdout, Command, Output, Stdio},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    harness::{CREATE, client},
    wiring::Wiring,
};

/// A command of the binary on a wiring, with nothing else in its environment. A flag among the
/// arguments takes the place of the wiring's.
pub fn notary_orders(wiring: &Wiring, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_notary-orders"));
    command.env_clear().envs(wiring.environment()).arg("--data-dir").arg(wiring.data());
    let own = ["--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0"]
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

/// The key that a command issues.
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
    /// Where the API listens.
    pub address: String,
    /// Where operators are answered.
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

    /// The same, by a shell that does something first, such as `ulimit -n 64`.
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

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let (mut line, mut before) = (String::new(), String::new());
        let (address, ops_address) = loop {
            line.clear();
            assert_ne!(
                log.read_line(&mut line).unwrap(),
                0,
                "the server ended before it listened: {before}"
            );
            before += &line;
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            if event["message"] == "listening" {
                break (
                    event["api"].as_str().unwrap().to_owned(),
                    event["ops"].as_str().unwrap().to_owned(),
                );
            }
            // The form for people.
            if let Some((_, said)) = line.split_once(": listening api=") {
                let (api, ops) = said.trim().split_once(" ops=").unwrap();
                break (api.to_owned(), ops.to_owned());
            }
        };
        // Read on, so that the server never waits for its log to be read.
        let log = std::thread::spawn(move || {
            let _ = log.read_to_string(&mut before);
            before
        });
        Self { child, log: Some(log), stdout, address, ops_address }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Resident memory in bytes.
    pub fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most that it ever was, in bytes.
    pub fn peak_memory(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// A size from `/proc/PID/status`, which has it in KiB.
    fn status(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
    }

    /// How many files and connections it has open.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal and waits for the end; the exit code, and what was still printed.
    pub fn stop(mut self, signal: &str) -> (Option<i32>, String) {
        // The shell has `kill` built in.
        assert!(
            Command::new("sh")
                .args(["-c", &format!("kill {signal} {}", self.child.id())])
                .status()
                .unwrap()
                .success()
        );
        let code = self.child.wait().unwrap().code();
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (code, rest)
    }

    /// Stops gracefully; everything that it logged.
    pub fn stop_and_read_log(mut self) -> String {
        let log = self.log.take().unwrap();
        assert_eq!(self.stop("-TERM").0, Some(0));
        log.join().unwrap()
    }

    /// Waits until a key that was good is refused, as it must be ten seconds after its revocation.
    pub async fn refuses_within_ten_seconds(&self, key: &str) {
        let began = Instant::now();
        // Not an order, so that none is created meanwhile.
        while client()
            .post(self.url(CREATE))
            .bearer_auth(key)
            .json(&serde_json::json!({}))
            .send()
            .await
            .unwrap()
            .status()
            != 401
        {
            assert!(began.elapsed() < Duration::from_secs(10));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn post(&self, key: &str, file_number: &str) -> reqwest::Response {
        let client = crate::harness::client();
        client
            .post(self.url(crate::harness::CREATE))
            .bearer_auth(key)
            .json(&crate::harness::order(file_number))
            .send()
            .await
            .unwrap()
    }

    pub async fn post_with_deed(&self, key: &str, file_number: &str) -> reqwest::Response {
        let request = crate::harness::client()
            .post(self.url(crate::harness::CREATE_WITH_DOCUMENTS))
            .bearer_auth(key);
        request.multipart(crate::harness::form_with_deed(file_number)).send().await.unwrap()
    }
}
