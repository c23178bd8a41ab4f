use time::OffsetDateTime;

/// Tells the time.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
pub trait Clock: Send + Sync {
    /// Returns the current instant in UTC and whole microseconds. It may step backwards when the
    /// clock of the machine is set.
    fn now(&self) -> OffsetDateTime;
}
