//! Instants in requests and answers.

use time::{
    Duration, OffsetDateTime, UtcOffset, format_description::well_known::Rfc3339,
    macros::format_description,
};

/// Reads an RFC 3339 datetime. Between two microseconds it means the later one, because everything
/// that is stored happened at a whole microsecond. Returns `None` if it is none, or before the year
/// 0.
pub(crate) fn parse(text: &str) -> Option<OffsetDateTime> {
    let instant = OffsetDateTime::parse(text, &Rfc3339).ok()?.checked_to_offset(UtcOffset::UTC)?;
    let beyond = i64::from(instant.nanosecond() % 1_000);
    let rest = Duration::nanoseconds((1_000 - beyond) % 1_000);
    instant.checked_add(rest).filter(|instant| instant.year() >= 0)
}

/// Formats an instant as RFC 3339 in UTC with microseconds, always of the same length.
pub(crate) fn timestamp(instant: OffsetDateTime) -> String {
    let format =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");
    instant.format(format).unwrap_or_else(|_| instant.to_string())
}
