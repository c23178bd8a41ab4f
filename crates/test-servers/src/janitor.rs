//! Processes that end with the test, also when it is killed.

use std::{
    ffi::OsStr,
    io,
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

pub use crate::ports::free_port;

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
