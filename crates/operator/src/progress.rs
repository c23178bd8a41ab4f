//! Progress of work that may take long: on a terminal, or in the log.

use std::{
    io::{self, IsTerminal as _},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, timeout};

/// Pause between two reports on a terminal.
const ON_TERMINAL: Duration = Duration::from_secs(1);

/// Pause between two lines of the log.
const IN_LOG: Duration = Duration::from_secs(10);

/// The current step of some work, and its progress.
#[derive(Clone)]
pub(crate) struct Progress(Arc<Mutex<String>>);

impl Progress {
    pub(crate) fn new(step: &str) -> Self {
        Self(Arc::new(Mutex::new(step.to_owned())))
    }

    /// Notes what the work does now.
    pub(crate) fn set(&self, step: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = step;
    }

    /// Waits for work, and reports its progress meanwhile.
    pub(crate) async fn of<T>(&self, work: impl Future<Output = T>) -> T {
        if !io::stderr().is_terminal() {
            let log = |step: String, seconds| tracing::info!(seconds, "{step}");
            return self.report(IN_LOG, log, work).await;
        }
        let mut is_shown = false;
        // Each report replaces the one before; the last one disappears.
        let show = |step, seconds| {
            is_shown = true;
            eprint!("\r\x1b[K{step} ({seconds} s)");
        };
        let done = self.report(ON_TERMINAL, show, work).await;
        if is_shown {
            eprint!("\r\x1b[K");
        }
        done
    }

    async fn report<T>(
        &self,
        pause: Duration,
        mut report: impl FnMut(String, u64),
        work: impl Future<Output = T>,
    ) -> T {
        let (began, mut work) = (Instant::now(), pin!(work));
        loop {
            if let Ok(done) = timeout(pause, &mut work).await {
                return done;
            }
            let step = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
            report(step, began.elapsed().as_secs());
        }
    }
}

/// Returns a number and what it counts: `1 order`, `2 orders`.
pub(crate) fn counted(count: &impl ToString, one: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {one}{plural}")
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn long_work_is_reported_until_it_ends() {
        let (progress, mut reports) = (Progress::new("begins"), Vec::new());
        let work = async {
            sleep(Duration::from_secs(25)).await;
            progress.set("erased 100 orders".to_owned());
            sleep(Duration::from_secs(10)).await;
            "done"
        };
        let done = progress.report(IN_LOG, |step, seconds| reports.push((step, seconds)), work);
        assert_eq!(done.await, "done");
        let expected = [("begins", 10), ("begins", 20), ("erased 100 orders", 30)];
        assert_eq!(reports, expected.map(|(step, seconds)| (step.to_owned(), seconds)));
    }
}
