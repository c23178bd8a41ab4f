//! Addresses and numbers of the people and companies around an order. Orders, keys and the records of signing
//! services name them.

use serde::{Deserialize, Serialize};

use crate::request::rules::is_email;

// Personal data.
conceal!(EmailAddress);

/// Identifier of a signing service; positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SigningServiceId(pub i64);

/// An e-mail address: printable ASCII, one `@`, no white space, no address literal, at most 254
/// characters (RFC 5321 section 4.5.3.1.3).
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EmailAddress(String);

/// The error of a text that is no [`EmailAddress`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not an e-mail address")]
pub struct InvalidEmail;

impl EmailAddress {
    /// Returns an address that was checked before: in a request, or when it was stored. A stored one
    /// followed the rules of its day: a stricter rule must not make stored orders unreadable.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    /// Returns the address as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether a mail to either reaches the same reader: letter case does not matter.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl TryFrom<String> for EmailAddress {
    type Error = InvalidEmail;

    fn try_from(text: String) -> Result<Self, InvalidEmail> {
        if is_email(&text) { Ok(Self(text)) } else { Err(InvalidEmail) }
    }
}
