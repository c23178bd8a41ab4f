//! Decides which failures of background work have a line in the log: workers repeat a step each second,
//! and all of them fail while a dependency is away.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use domain::ports::{Clock, StoreError, error_chain};
use time::{Duration, OffsetDateTime};

/// The dependency that all workers share.
pub(crate) const DATABASE: &str = "the database";

/// Least time between two lines about one dependency.
const PAUSE: Duration = Duration::minutes(1);

/// The outages of dependencies, by their names.
pub(crate) struct Outages {
    clock: Arc<dyn Clock>,
    lines: Mutex<BTreeMap<&'static str, Line>>,
}

/// The last line about an outage.
struct Line {
    at: OffsetDateTime,
    /// Whether no line says that the outage is over.
    is_open: bool,
}

impl Outages {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, lines: Mutex::default() }
    }

    /// Logs that a step failed because of a dependency, unless there was a line within the last minute.
    /// An error that is no outage of the dependency has lines of its own.
    pub(crate) fn failed(
        &self,
        dependency: &'static str,
        failure: &'static str,
        error: &StoreError,
    ) {
        let subject = match error {
            StoreError::Unavailable(_) => dependency,
            StoreError::Internal(_) => failure,
        };
        if self.begins_line(subject) {
            tracing::error!(error = error_chain(error), "{failure}");
        }
    }

    /// Logs that a dependency works again, if the last line says that it does not.
    pub(crate) fn worked(&self, dependency: &'static str) {
        if self.ends_outage(dependency) {
            tracing::info!("{dependency} answers again");
        }
    }

    fn begins_line(&self, subject: &'static str) -> bool {
        let at = self.clock.now();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that was set back silences nothing.
        let is_due = lines.get(subject).is_none_or(|line| (at - line.at).abs() >= PAUSE);
        if is_due {
            lines.insert(subject, Line { at, is_open: true });
        }
        is_due
    }

    fn ends_outage(&self, subject: &'static str) -> bool {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.get_mut(subject).is_some_and(|line| std::mem::take(&mut line.is_open))
    }
}

#[cfg(test)]
mod tests {
    use contract_tests::fakes::ManualClock;

    use super::*;

    #[test]
    fn outage_has_a_line_a_minute_and_one_at_its_end() {
        let clock = Arc::new(ManualClock::default());
        let outages = Outages::new(clock.clone());
        assert!(!outages.ends_outage(DATABASE), "there was none");
        // Three workers, each second.
        let mut lines = Vec::new();
        for second in 0..150 {
            lines.extend((0..3).filter(|_| outages.begins_line(DATABASE)).map(|_| second));
            clock.advance(Duration::SECOND);
        }
        assert_eq!(lines, [0, 60, 120]);
        assert!(outages.begins_line("the mail drop"), "another dependency");
        assert!(outages.ends_outage(DATABASE));
        assert!(!outages.ends_outage(DATABASE), "said once");
        // A dependency that comes and goes has no more lines.
        assert!(!outages.begins_line(DATABASE));
        assert!(!outages.ends_outage(DATABASE));
        clock.advance(Duration::MINUTE);
        assert!(outages.begins_line(DATABASE));
        assert!(outages.ends_outage(DATABASE));
    }
}
