//! The service as a process: starting, observing and stopping it.

use std::{
    ffi::OsStr,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{folder::Folder, http, process::Server};

/// Time limit for a start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The program under test with its data directory.
pub struct Installation {
    binary: PathBuf,
    database_url: Option<String>,
    data: Folder,
    /// A program that runs the service, with its arguments; empty for none.
    pub wrapper: Vec<String>,
}

impl Installation {
    /// Creates an installation. Without a URL the service uses its embedded database.
    pub fn new(binary: &Path, database_url: Option<String>) -> Self {
        Self { binary: binary.to_owned(), database_url, data: Folder::new(), wrapper: Vec::new() }
    }

    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// Runs the migrations.
    pub fn migrate(&self) {
        assert!(self.command().arg("migrate").status().unwrap().success());
    }

    /// Issues an API key.
    pub fn issue_key(&self, kind: &[&str]) -> String {
        let issued = self
            .command()
            .args(["keys", "issue", "--name", "measurement"])
            .args(kind)
            .output()
            .unwrap();
        assert!(issued.status.success(), "{}", String::from_utf8_lossy(&issued.stderr));
        String::from_utf8(issued.stdout).unwrap().trim().to_owned()
    }

    /// Starts the service with its log in a file and without a rate limit.
    pub fn start(&self) -> Service {
        self.start_with(&["--rate-per-second=0"])
    }

    /// Starts the service with its log in a file and these flags.
    pub fn start_with(&self, flags: &[&str]) -> Service {
        let log = self.data().join("service.log");
        let started = Instant::now();
        let program = [&self.wrapper[..], &[self.binary.to_str().unwrap().to_owned()]].concat();
        let child = self
            .command_of(&program)
            .args(flags)
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut service =
            Service { child, api: String::new(), ops: String::new(), ready_after: Duration::ZERO };
        let event = loop {
            let text = fs::read_to_string(&log).unwrap();
            let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            if let Some(line) = lines.into_iter().find(|line| line.contains("\"listening\"")) {
                break serde_json::from_str::<serde_json::Value>(line).unwrap();
            }
            assert!(
                started.elapsed() < START_TIMEOUT && service.child.try_wait().unwrap().is_none(),
                "the service did not start: {text}"
            );
            thread::sleep(Duration::from_millis(1));
        };
        let address = |name: &str| event[name].as_str().unwrap().to_owned();
        (service.api, service.ops) = (address("api"), address("ops"));
        while !http::get(&service.ops, "/readyz").unwrap().starts_with("HTTP/1.1 200") {}
        service.ready_after = started.elapsed();
        service
    }

    fn command(&self) -> Command {
        self.command_of(&[&self.binary])
    }

    /// Returns a command of a program with leading arguments.
    fn command_of(&self, program: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]);
        // Removes settings for other instances on this machine.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"NOTARY_ORDERS_") || name == "DATABASE_URL" {
                command.env_remove(name);
            }
        }
        // All orders are for the same recipients. Not a flag: an older version would reject it.
        command.env("NOTARY_ORDERS_MAILS_PER_RECIPIENT_HOUR", "0");
        command.arg("--data-dir").arg(self.data());
        // Not a flag, for the same reason.
        command.env("NOTARY_ORDERS_READS_RATE_PER_SECOND", "0");
        // All uploads of a measurement have one key, which gets half of it.
        command.env("NOTARY_ORDERS_SPOOL_MB", "32768");
        command.args([
            "--listen=127.0.0.1:0",
            "--ops-listen=127.0.0.1:0",
            "--log-format=json",
            "--log-level=info",
        ]);
        command.args(self.database_url.as_ref().map(|url| format!("--database-url={url}")));
        command
    }
}

/// A running service. Dropping it kills the process.
pub struct Service {
    child: Child,
    /// Address of the API.
    pub api: String,
    ops: String,
    /// Time from the start of the process until it was ready.
    pub ready_after: Duration,
}

impl Service {
    /// Returns its processes.
    pub fn server(&self) -> Server {
        Server(self.child.id())
    }

    /// Stops the service as an operator does, and waits until it has ended.
    pub fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }

    /// Returns the value of a metric.
    pub fn metric(&self, name: &str) -> f64 {
        metric(&self.metrics(), name).unwrap_or_else(|| panic!("no metric {name}"))
    }

    fn metrics(&self) -> String {
        http::get(&self.ops, "/metrics").unwrap()
    }

    /// Returns the number of mails that wait: those of new orders, at least one each, and those in
    /// the queue.
    pub fn pending_mails(&self) -> f64 {
        let text = self.metrics();
        // An older version has no events.
        let events = metric(&text, "notary_orders_events_pending").unwrap_or_default();
        events + metric(&text, "notary_orders_follow_ups_pending").unwrap()
    }

    /// Waits until no mail waits.
    pub fn wait_until_delivered(&self) {
        while self.pending_mails() > 0.0 {
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn metric(text: &str, name: &str) -> Option<f64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    Some(value.parse().unwrap())
}
