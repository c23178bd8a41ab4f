use std::sync::Mutex;

use async_trait::async_trait;
use domain::ports::{Clock, DatabaseTime, DatabaseTimes, StoreError};
use time::{Duration, OffsetDateTime, macros::datetime};

/// A clock that moves only when a test moves it. It may also be that of a database.
#[derive(Debug)]
pub struct ManualClock(Mutex<(OffsetDateTime, Duration)>);

impl Default for ManualClock {
    /// Starts at noon of 21 November 2026.
    fn default() -> Self {
        Self(Mutex::new((datetime!(2026-11-21 12:00 UTC), Duration::ZERO)))
    }
}

impl ManualClock {
    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        assert!(!by.is_negative(), "time does not go back; a clock is set back");
        let mut time = self.0.lock().expect("no test panics while it holds the clock");
        *time = (time.0 + by, time.1 + by);
    }

    /// Sets the clock forward, or back if the duration is negative. No time passes.
    pub fn set(&self, by: Duration) {
        self.0.lock().expect("no test panics while it holds the clock").0 += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> OffsetDateTime {
        self.0.lock().expect("no test panics while it holds the clock").0
    }

    fn monotonic(&self) -> Duration {
        self.0.lock().expect("no test panics while it holds the clock").1
    }
}

#[async_trait]
impl DatabaseTime for ManualClock {
    async fn times(&self) -> Result<DatabaseTimes, StoreError> {
        Ok(DatabaseTimes { now: Some(self.now()), newest: None })
    }
}
