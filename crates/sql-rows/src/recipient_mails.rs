//! The mails of an hour to a recipient, counted.

use domain::delivery::counted_hour;
use sha2::{Digest as _, Sha256};
use time::{Duration, OffsetDateTime};

/// Counts of mails removed when others are added, which are fewer.
pub const REMOVED_COUNTS: i64 = 100;

/// Returns what mails to an address are counted by. Letter case does not matter.
pub fn hashed_recipient(address: &str) -> Vec<u8> {
    Sha256::digest(address.to_ascii_lowercase()).to_vec()
}

/// Returns the beginning of the hour in which mails are counted, and of the hour before, whose
/// counts an instance with a slower clock may still use.
pub fn counted_hours(now: OffsetDateTime) -> (OffsetDateTime, OffsetDateTime) {
    let hour = counted_hour(now);
    (hour, hour.saturating_sub(Duration::HOUR))
}
