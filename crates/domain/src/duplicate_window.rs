//! Duplicate window: how long an order bars its file number (spec section 8).

use time::{Duration, OffsetDateTime};

/// The time after an order during which no other order may have its file number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DuplicateWindow(pub Duration);

impl Default for DuplicateWindow {
    fn default() -> Self {
        Self(Duration::MINUTE)
    }
}

impl DuplicateWindow {
    /// Returns the start of the window that ends at `now`. An order created after it bars its file
    /// number; an order created at it does not.
    pub fn opens_at(self, now: OffsetDateTime) -> OffsetDateTime {
        now.checked_sub(self.0).unwrap_or(time::PrimitiveDateTime::MIN.assume_utc())
    }

    /// Returns the whole seconds until the file number is free, at least one.
    pub fn seconds_left(self, created_at: OffsetDateTime, now: OffsetDateTime) -> u64 {
        let left = self.0 - (now - created_at);
        let rounded_up = left.whole_seconds() + i64::from(left.subsec_nanoseconds() > 0);
        rounded_up.max(1).unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const CREATED: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

    #[test]
    fn window_opens_exactly_its_length_ago() {
        let window = DuplicateWindow::default();
        assert_eq!(window.opens_at(CREATED + Duration::MINUTE), CREATED);
        assert_eq!(DuplicateWindow(Duration::ZERO).opens_at(CREATED), CREATED);
    }

    #[test]
    fn remaining_seconds_are_rounded_up() {
        let window = DuplicateWindow::default();
        assert_eq!(window.seconds_left(CREATED, CREATED), 60);
        assert_eq!(window.seconds_left(CREATED, CREATED + Duration::milliseconds(500)), 60);
        assert_eq!(window.seconds_left(CREATED, CREATED + Duration::seconds(59)), 1);
        assert_eq!(window.seconds_left(CREATED, CREATED + Duration::milliseconds(59_999)), 1);
        assert_eq!(window.seconds_left(CREATED, CREATED + Duration::HOUR), 1);
    }
}
