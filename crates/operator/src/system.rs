//! The clock and the randomness of the machine, and its user. Only this module reads them.

use std::sync::Arc;

use domain::ports::{Clock, Entropy};
use time::OffsetDateTime;

use telemetry::traces::Traces;

/// Maximum length of the name of a user, in characters.
const MAX_CHARS: usize = 100;

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> OffsetDateTime {
        #[expect(clippy::disallowed_methods, reason = "this is the Clock port's adapter")]
        let now = OffsetDateTime::now_utc();
        // Stores keep microseconds, and an instant must be equal after it is read back.
        now.truncate_to_microsecond()
    }
}

/// The randomness of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        #[expect(clippy::disallowed_methods, reason = "this is the Entropy port's adapter")]
        let filled = getrandom::fill(bytes);
        #[expect(
            clippy::expect_used,
            reason = "without randomness the service cannot issue secrets"
        )]
        filled.expect("the operating system provides randomness");
    }
}

/// The ports of the machine. Tests replace them.
#[derive(Clone)]
pub struct Machine {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Provides randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Exports traces, if a collector is set.
    pub traces: Option<Arc<Traces>>,
}

impl Default for Machine {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), entropy: Arc::new(OsEntropy), traces: None }
    }
}

/// Returns the name of the user of the operating system. An operator can forge it.
pub fn system_user() -> String {
    let name = ["SUDO_USER", "USER", "LOGNAME"]
        .into_iter()
        .filter_map(|variable| std::env::var(variable).ok())
        .find(|name| !name.trim().is_empty());
    let name = name.unwrap_or_else(|| "unknown".to_owned());
    name.chars().filter(|character| !character.is_control()).take(MAX_CHARS).collect()
}
