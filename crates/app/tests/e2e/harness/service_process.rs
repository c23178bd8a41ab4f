//! The binary as a process of its own.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    ops::Deref,
    path::PathBuf,
    process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Output, Stdio},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::JoinHandle,
};

use serde_json::{Value, json};

use crate::{
    harness::{AT_ONCE, Api, PATIENCE, client_without_pool, eventually_async},
    wiring::Wiring,
};

/// Returns a command of the binary on a wiring, with an empty environment. Flags in the arguments
/// replace those of the wiring.
pub fn notary_orders(wiring: &Wiring, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_notary-orders"));
    command.env_clear().envs(wiring.environment()).arg("--data-dir").arg(wiring.data());
    let own = ["--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--drain-secs=0", AT_ONCE]
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

/// Returns a command that runs another on a terminal.
pub fn on_a_terminal(command: &Command) -> Command {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words: Vec<_> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let command = format!("exec {}", words.join(" "));
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &command, "/dev/null"]);
    script.stdin(Stdio::piped()).stdout(Stdio::piped());
    script
}

/// Returns the output of a command that succeeds.
pub fn text(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the error of a command that fails.
pub fn error_of(output: Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Runs a command that succeeds, and returns its output.
pub fn run(wiring: &Wiring, arguments: &[&str]) -> String {
    text(output(wiring, arguments))
}

/// Runs a command that fails, and returns its error.
pub fn fail(wiring: &Wiring, arguments: &[&str]) -> String {
    error_of(output(wiring, arguments))
}

/// A session of a program that executes SQL from its input, until dropped.
pub struct SqlSession(Child);

impl SqlSession {
    pub fn open(mut program: Command) -> Self {
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Self(program.spawn().unwrap())
    }

    /// Opens a session that holds a lock.
    pub fn holding(program: Command, lock: &str) -> Self {
        let mut session = Self::open(program);
        assert!(session.run(lock), "{lock}");
        session
    }

    /// Runs a statement. Returns whether it succeeded.
    pub fn run(&mut self, statement: &str) -> bool {
        self.output(statement).is_some()
    }

    /// Runs a statement. Returns its output, or nothing if it failed.
    pub fn output(&mut self, statement: &str) -> Option<String> {
        writeln!(self.0.stdin.as_mut().unwrap(), "{statement}; SELECT 'done';").ok()?;
        let mut output = String::new();
        // Nothing comes after the last line, so no buffer takes it away.
        let mut lines = BufReader::new(self.0.stdout.as_mut().unwrap());
        while !output.ends_with("done\n") {
            if lines.read_line(&mut output).ok()? == 0 {
                return None;
            }
        }
        output.truncate(output.len() - "done\n".len());
        Some(output)
    }
}

impl Drop for SqlSession {
    fn drop(&mut self) {
        // The end of the input ends the session and releases its locks.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Kills a process unless the result is dropped in time.
fn kill_after_patience(process: u32) -> Sender<()> {
    let (starting, is_over) = mpsc::channel();
    std::thread::spawn(move || {
        if is_over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let _ = Command::new("kill").args(["-KILL", &process.to_string()]).status();
        }
    });
    starting
}

/// Issues a key with the binary.
pub fn issue_key(wiring: &Wiring) -> String {
    run(wiring, &["keys", "issue", "--name=test"]).trim().to_owned()
}

/// A server process; killed if a test fails before it has stopped it. Each of its requests has a
/// connection of its own.
pub struct ServiceProcess {
    child: Child,
    log: Option<JoinHandle<String>>,
    pub stdout: BufReader<ChildStdout>,
    api: Api,
}

impl Deref for ServiceProcess {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ServiceProcess {
    /// Issues a key, and starts the server for it.
    pub fn keyed(wiring: &Wiring, arguments: &[&str]) -> Self {
        let key = issue_key(wiring);
        Self::start(wiring, arguments).with_key(key)
    }

    pub fn with_key(mut self, key: String) -> Self {
        self.api.key = key;
        self
    }

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

    /// Starts the server by a command.
    pub fn spawn(command: Command) -> Self {
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
        let starting = kill_after_patience(child.id());
        let (address, ops_address) = loop {
            line.clear();
            assert_ne!(
                log.read_line(&mut line).unwrap(),
                0,
                "the server stopped, or was killed after {PATIENCE:?}, before it listened: {before}"
            );
            before += &line;
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            if event["message"] == "listening" {
                let address = |name| event[name].as_str().unwrap().to_owned();
                break (address("api"), address("ops"));
            }
            // The pretty format.
            if let Some((_, addresses)) = line.split_once(": listening api=") {
                let (api, ops) = addresses.trim().split_once(" ops=").unwrap();
                break (api.to_owned(), ops.to_owned());
            }
        };
        drop(starting);
        let [address, ops_address] = [address, ops_address].map(|text| text.parse().unwrap());
        let api = Api::new(client_without_pool(), "", address, ops_address);
        (Self { child, log: None, stdout, api }, log, before)
    }

    /// Returns what Linux tells about the process under a name.
    pub fn proc(&self, name: &str) -> PathBuf {
        format!("/proc/{}/{name}", self.child.id()).into()
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
        let status = std::fs::read_to_string(self.proc("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Returns the number of open files and connections.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(self.proc("fd")).unwrap().count()
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

    /// Fails with the log if the process has ended.
    pub fn assert_running(&mut self) {
        if let Some(status) = self.ended() {
            panic!("the service ended, {status}: {}", self.log.take().unwrap().join().unwrap());
        }
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

    /// Waits until a revoked or expired key is rejected.
    pub async fn rejects(&self, key: &str) {
        // An invalid order, so that none is created.
        eventually_async(async || self.as_key(key).create(&json!({})).await.status() == 401).await;
    }
}
