//! Instants in requests and answers.

use domain::appointment::parse_instant;
use time::{Duration, OffsetDateTime, UtcOffset, macros::format_description};

/// Reads an RFC 3339 datetime. Between two microseconds it means the later one, because everything
/// that is stored happened at a whole microsecond. Returns `None` if it is none, or before the year
/// 0.
pub(crate) fn parse(text: &str) -> Option<OffsetDateTime> {
    let instant = parse_instant(text)?.checked_to_offset(UtcOffset::UTC)?;
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

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn instants_of_generated_clients_are_read() {
        for (text, instant) in [
            ("2026-12-01T20:30:00+0000", datetime!(2026-12-01 20:30 UTC)),
            ("2026-12-01T20:30:00.1234560+0000", datetime!(2026-12-01 20:30:00.123456 UTC)),
            ("2026-12-01T14:30:00.123456000-0600", datetime!(2026-12-01 20:30:00.123456 UTC)),
            ("2026-12-01T20:30:00.12345678Z", datetime!(2026-12-01 20:30:00.123457 UTC)),
            ("2026-12-01T20:30:00.123456789+00:00", datetime!(2026-12-01 20:30:00.123457 UTC)),
        ] {
            assert_eq!(parse(text), Some(instant), "{text}");
        }
        for text in
            ["2026-12-01T20:30:00+000", "2026-12-01T20:30:00+00000", "2026-12-01T20:30:000000"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
