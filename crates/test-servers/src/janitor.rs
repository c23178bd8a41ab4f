//! Processes that end with the test, also when it is killed.

use std::{
    ffi::OsStr,
    io,
    net::{Ipv4Addr, TcpListener},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Runs the arguments as a command, and kills it when standard input ends, even if it is suspended.
pub(crate) const RUN: &str = r#""$@" </dev/null & cat >/dev/null; kill -KILL $!"#;

/// A shell that ends a server when its own standard input ends. The kernel closes that with the test
/// process. Dropping the value closes it, and waits for the end.
pub(crate) struct Janitor(pub(crate) Child);

impl Janitor {
    /// Starts a script with arguments.
    pub(crate) fn start<A: AsRef<OsStr>>(
        script: &str,
        arguments: impl IntoIterator<Item = A>,
        stdout: Stdio,
    ) -> Self {
        // Debian has servers in `/usr/sbin`, which the path of an ordinary user lacks.
        let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap());
        let shell = Command::new("sh")
            // A terminal or a supervisor interrupts the whole process group of the test.
            .process_group(0)
            .args(["-c", script, "sh"])
            .args(arguments)
            .env("PATH", path)
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(Stdio::null())
            .spawn();
        Self(shell.unwrap())
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Returns a port of 127.0.0.1 that is free, each only once. It is below those that the kernel gives
/// to other servers and clients of the tests, so none of them takes it before its server listens.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 10_000).unwrap();
    loop {
        let port = 12_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// Waits until a server accepts a connection.
pub(crate) fn wait_for<T>(server: &str, connect: impl Fn() -> io::Result<T>) {
    let began = Instant::now();
    while let Err(error) = connect() {
        assert!(
            began.elapsed() < Duration::from_mins(2),
            "{server} does not start; scripts/test.sh installs it: {error}"
        );
        thread::sleep(Duration::from_millis(10));
    }
}
