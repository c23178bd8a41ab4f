//! The clock and the randomness of the machine: the only places that read them.

use std::sync::Arc;

use domain::ports::{Clock, Entropy};
use time::OffsetDateTime;

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> OffsetDateTime {
        #[expect(clippy::disallowed_methods, reason = "this is the Clock port's adapter")]
        let now = OffsetDateTime::now_utc();
        // Stores keep microseconds; an instant must be the same before and after.
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
        // Without randomness there are no secrets, and nothing sensible to answer.
        #[expect(
            clippy::expect_used,
            reason = "an operating system without randomness cannot run this service"
        )]
        filled.expect("the operating system has randomness");
    }
}

/// What the service takes from the machine it runs on; tests bring their own.
#[derive(Clone)]
pub struct Machine {
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
}

impl Default for Machine {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), entropy: Arc::new(OsEntropy) }
    }
}
