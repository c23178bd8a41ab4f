use std::sync::Mutex;

use domain::ports::Clock;
use time::{Duration, OffsetDateTime, macros::datetime};

/// A clock that moves only when a test moves it.
#[derive(Debug)]
pub struct ManualClock(Mutex<OffsetDateTime>);

impl Default for ManualClock {
    /// Starts at noon of 21 November 2026.
    fn default() -> Self {
        Self(Mutex::new(datetime!(2026-11-21 12:00 UTC)))
    }
}

impl ManualClock {
    /// Moves the clock; backwards if the duration is negative.
    pub fn advance(&self, by: Duration) {
        let mut now = self.0.lock().expect("no test panics while it holds the clock");
        *now += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> OffsetDateTime {
        *self.0.lock().expect("no test panics while it holds the clock")
    }
}
