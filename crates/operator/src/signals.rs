//! The signals that stop the service, and commands that run until then.

use std::{fs, io, time::Duration};

use futures_util::future::select_all;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::Instant,
};

/// Signals this soon after the first one are the same request. A terminal signals a whole process
/// group, and a program of that group may pass the signal on.
const SAME_REQUEST: Duration = Duration::from_millis(200);

/// SIGTERM, SIGINT, and SIGHUP unless it was ignored when the process was started.
pub struct StopSignals(Vec<Signal>);

impl StopSignals {
    /// Registers the signals; from now on they do not end the process.
    pub fn register() -> io::Result<Self> {
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let respected =
            kinds.into_iter().filter(|kind| *kind != SignalKind::hangup() || !is_ignored(*kind));
        respected.map(signal).collect::<io::Result<_>>().map(Self)
    }

    /// Waits for a signal.
    pub async fn first(&mut self) {
        let _ = select_all(self.0.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
    }

    /// Waits for a signal that is not the same request as the first one, which came just now.
    pub async fn another(&mut self) {
        let began = Instant::now();
        self.first().await;
        while began.elapsed() < SAME_REQUEST {
            self.first().await;
        }
    }
}

/// Returns whether the process was started with this signal ignored, as `nohup` does.
fn is_ignored(signal: SignalKind) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & (1 << (signal.as_raw_value() - 1)) != 0)
}
