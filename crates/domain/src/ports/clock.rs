use time::OffsetDateTime;

/// The time of day.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
pub trait Clock: Send + Sync {
    /// Now, in UTC and whole microseconds. May step backwards when the machine's clock is set.
    fn now(&self) -> OffsetDateTime;
}
