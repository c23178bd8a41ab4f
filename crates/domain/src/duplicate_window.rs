//! How long a file number is taken by the order that used it (spec section 8).

use time::{Duration, OffsetDateTime};

/// The window after an order in which its file number may not be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DuplicateWindow(pub Duration);

impl Default for DuplicateWindow {
    fn default() -> Self {
        Self(Duration::MINUTE)
    }
}

impl DuplicateWindow {
    /// Whether an order at `now` is a duplicate of one placed at `placed`. At exactly the window it
    /// is not.
    pub fn covers(self, stored: OffsetDateTime, now: OffsetDateTime) -> bool {
        now - stored < self.0
    }

    /// Orders placed after this instant make one at `now` a duplicate; one placed at it does not.
    pub fn opens_at(self, now: OffsetDateTime) -> OffsetDateTime {
        now.checked_sub(self.0).unwrap_or(time::PrimitiveDateTime::MIN.assume_utc())
    }

    /// Whole seconds until the file number is free again, at least one.
    pub fn seconds_left(self, stored: OffsetDateTime, now: OffsetDateTime) -> u64 {
        let left = self.0 - (now - stored);
        let rounded_up = left.whole_seconds() + i64::from(left.subsec_nanoseconds() > 0);
        rounded_up.max(1).unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const PLACED: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

    #[test]
    fn the_window_ends_exactly_when_it_is_over() {
        let window = DuplicateWindow::default();
        assert!(window.covers(PLACED, PLACED));
        assert!(window.covers(PLACED, PLACED + Duration::microseconds(59_999_999)));
        assert!(!window.covers(PLACED, PLACED + Duration::MINUTE));
        assert!(window.covers(PLACED, PLACED - Duration::HOUR));
        assert_eq!(window.opens_at(PLACED + Duration::MINUTE), PLACED);
    }

    #[test]
    fn a_window_of_nothing_covers_nothing() {
        assert!(!DuplicateWindow(Duration::ZERO).covers(PLACED, PLACED));
    }

    #[test]
    fn what_is_left_is_rounded_up_so_that_a_retry_is_never_early() {
        let window = DuplicateWindow::default();
        assert_eq!(window.seconds_left(PLACED, PLACED), 60);
        assert_eq!(window.seconds_left(PLACED, PLACED + Duration::milliseconds(500)), 60);
        assert_eq!(window.seconds_left(PLACED, PLACED + Duration::seconds(59)), 1);
        assert_eq!(window.seconds_left(PLACED, PLACED + Duration::milliseconds(59_999)), 1);
        assert_eq!(window.seconds_left(PLACED, PLACED + Duration::HOUR), 1);
    }
}
