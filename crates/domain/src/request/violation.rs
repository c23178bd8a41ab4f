//! Violations: faults of a request's fields.

use std::borrow::Cow;

/// A fault of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer (RFC 6901) to the field in the client's names, the same for both operations.
    pub pointer: Cow<'static, str>,
    /// Kind of the fault.
    pub code: ViolationCode,
    /// The correction that the client should make. Never repeats the value.
    pub detail: Cow<'static, str>,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident = $name:literal,)*) => {
        /// Kinds of faults. Their names are stable, so clients may act on them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ViolationCode {
            $($(#[$doc])* $code,)*
        }

        impl ViolationCode {
            /// Returns the name in a problem response.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => $name,)*
                }
            }

            /// Returns the code of a name.
            pub(super) fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$code),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// A required field is missing or `null`.
    Required = "required",
    /// A required field is empty or only white space.
    Blank = "blank",
    /// The value is of another JSON type.
    WrongType = "wrong_type",
    /// The text is longer than the field allows.
    TooLong = "too_long",
    /// The text has characters that the field does not allow.
    InvalidCharacters = "invalid_characters",
    /// The text does not have the field's format.
    InvalidFormat = "invalid_format",
    /// The value is not in the field's list.
    NotAllowed = "not_allowed",
    /// The number is too small, too large or too precise.
    OutOfRange = "out_of_range",
    /// The IANA time zone database has no such zone.
    UnknownTimeZone = "unknown_time_zone",
    /// A clock change of the zone skips this local time.
    NonexistentLocalTime = "nonexistent_local_time",
    /// The end of a time range is not after its start.
    EndNotAfterStart = "end_not_after_start",
    /// The request has no such member.
    UnknownMember = "unknown_member",
    /// The member belongs elsewhere, where nothing was sent.
    MisplacedMember = "misplaced_member",
    /// The value cannot be changed.
    Immutable = "immutable",
    /// The operator has no record of the signing service.
    UnknownSigningService = "unknown_signing_service",
}
