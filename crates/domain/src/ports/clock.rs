use async_trait::async_trait;
use time::{Duration, OffsetDateTime};

use crate::ports::StoreError;

/// Tells the time.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
pub trait Clock: Send + Sync {
    /// Returns the current instant in UTC and whole microseconds. It may step backwards when the
    /// clock of the machine is set.
    fn now(&self) -> OffsetDateTime;

    /// Returns the time since some instant of the past. Setting the clock does not change it.
    fn monotonic(&self) -> Duration;

    /// Returns the current instant for a decision that cannot be undone: what is older is erased or expires for
    /// good. Returns `None` while the clock may be wrong. A clock without another to compare trusts itself.
    fn now_to_erase(&self) -> Option<OffsetDateTime> {
        Some(self.now())
    }

    /// Returns the current instant for leases. Returns `None` while the clock differs from those of other workers.
    fn now_to_lease(&self) -> Option<OffsetDateTime> {
        Some(self.now())
    }
}

/// What a database knows of the time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DatabaseTimes {
    /// The clock of its server; `None` for a file.
    pub now: Option<OffsetDateTime>,
    /// The newest instant at which something was stored: an access, an order, or a key or its use.
    pub newest: Option<OffsetDateTime>,
}

/// Tells what the database knows of the time.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait DatabaseTime: Send + Sync {
    /// Returns what it knows now.
    ///
    /// An implementation guarantees:
    /// - The clock is that of the server while the call runs, not that of the caller.
    /// - The newest instant is none before the last order, access, key or use of a key that the caller stored.
    /// - The cost does not grow with the number of orders or accesses.
    async fn times(&self) -> Result<DatabaseTimes, StoreError>;
}
