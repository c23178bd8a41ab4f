//! Violations: faults of a request's fields.

use std::borrow::Cow;

/// A fault of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer (RFC 6901) to the field in the client's names, the same for both operations.
    pub pointer: Cow<'static, str>,
    /// Kind of the fault.
    pub code: ViolationCode,
    /// What the client should change. Never repeats the value.
    pub detail: Cow<'static, str>,
}

/// Kinds of faults. Their names are stable, so clients may act on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViolationCode {
    /// A required field is missing or `null`.
    Required,
    /// A required field is empty or only white space.
    Blank,
    /// The value is of another JSON type.
    WrongType,
    /// The text is longer than the field allows.
    TooLong,
    /// The text has characters that the field does not allow.
    InvalidCharacters,
    /// The text does not have the field's format.
    InvalidFormat,
    /// The value is not in the field's list.
    NotAllowed,
    /// The number is too small, too large or too precise.
    OutOfRange,
    /// The IANA time zone database has no such zone.
    UnknownTimeZone,
    /// A clock change of the zone skips this local time.
    NonexistentLocalTime,
    /// The end of a time range is not after its start.
    EndNotAfterStart,
    /// The request has no such member.
    UnknownMember,
    /// The operator has no record of the signing service.
    UnknownSigningService,
}

impl ViolationCode {
    /// Returns the name in a problem response.
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
            Self::UnknownMember => "unknown_member",
            Self::UnknownSigningService => "unknown_signing_service",
        }
    }
}
