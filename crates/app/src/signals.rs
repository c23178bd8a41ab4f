//! The signals that stop the service.

use std::{fs, io, time::Duration};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::Instant,
};

/// Signals this soon after the first one are the same request. A terminal signals a whole process
/// group, and a program of that group may pass the signal on.
const SAME_REQUEST: Duration = Duration::from_millis(200);

/// SIGTERM, SIGINT and SIGHUP.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Option<Signal>,
}

impl StopSignals {
    /// Registers the signals; from now on they do not end the process.
    pub(crate) fn register() -> io::Result<Self> {
        let hang_up = SignalKind::hangup();
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: if is_ignored(hang_up) { None } else { Some(signal(hang_up)?) },
        })
    }

    /// Waits for a signal.
    pub(crate) async fn first(&mut self) {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = hang_up => {}
        }
    }

    /// Waits for a signal that is not the same request as the first one, which came just now.
    pub(crate) async fn another(&mut self) {
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
