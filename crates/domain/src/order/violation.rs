//! What is wrong with a request.

use std::borrow::Cow;

/// One field at fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer (RFC 6901) to the field as the client names it, the same for both operations.
    pub pointer: Cow<'static, str>,
    /// What kind of fault.
    pub code: ViolationCode,
    /// What the client should do about it. Never repeats the value.
    pub detail: Cow<'static, str>,
}

/// Kinds of faults; stable names that a client may act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViolationCode {
    /// A required field is missing or `null`.
    Required,
    /// A required field is empty or only white space.
    Blank,
    /// The value is of another JSON type.
    WrongType,
    /// The text is longer than the field's cap.
    TooLong,
    /// The text holds control characters that the field does not take.
    InvalidCharacters,
    /// The text is not of the field's format.
    InvalidFormat,
    /// The value is not one of those that the field knows.
    NotAllowed,
    /// The number is too small, too large or too fine.
    OutOfRange,
    /// The IANA time zone database has no such zone.
    UnknownTimeZone,
    /// The clocks of the zone skip this local time.
    NonexistentLocalTime,
    /// The end of a time range is not after its start.
    EndNotAfterStart,
}

impl ViolationCode {
    /// The name in a problem response.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Blank => "blank",
            Self::WrongType => "wrong_type",
            Self::TooLong => "too_long",
            Self::InvalidCharacters => "invalid_characters",
            Self::InvalidFormat => "invalid_format",
            Self::NotAllowed => "not_allowed",
            Self::OutOfRange => "out_of_range",
            Self::UnknownTimeZone => "unknown_time_zone",
            Self::NonexistentLocalTime => "nonexistent_local_time",
            Self::EndNotAfterStart => "end_not_after_start",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_faults_have_names_for_programs() {
        let names =
            [ViolationCode::Required, ViolationCode::OutOfRange, ViolationCode::EndNotAfterStart]
                .map(ViolationCode::as_str);
        assert_eq!(names, ["required", "out_of_range", "end_not_after_start"]);
    }
}
