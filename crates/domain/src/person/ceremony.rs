//! Ceremonies: a sign-in between its begin and its end.

use time::{Duration, OffsetDateTime};

use super::{PersonId, SessionId, TokenHash};

/// How long a ceremony can be finished: a person finds the phone with the passkey, or types a second factor.
pub const CEREMONY_LIFETIME: Duration = Duration::minutes(10);

/// Maximum number of ceremonies that wait. Beyond it the oldest go: whoever begins them without end fills no
/// database.
pub const MAX_CEREMONIES: usize = 10_000;

/// What a ceremony is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To sign in.
    SignIn,
    /// To accept the invitation with this token, and to sign in.
    Accept(TokenHash),
    /// To give a person who is signed in one more passkey.
    AddPasskey(PersonId),
    /// To sign in again as the same person, in place of this session.
    Confirm(PersonId, SessionId),
}

/// The data of a ceremony, which the end needs. It holds no secret of a person.
#[derive(Clone, PartialEq, Eq)]
pub enum CeremonyData {
    /// A passkey: the origin, and the state of the WebAuthn library with the challenge.
    Passkey {
        /// The origin where it began.
        origin: String,
        /// The state.
        state: Vec<u8>,
    },
    /// A company's login: a [`PendingLogin`](super::PendingLogin), and where the page goes on.
    Login {
        /// The random values.
        pending: Box<super::PendingLogin>,
        /// A path of this service.
        return_to: String,
    },
}

conceal!(CeremonyData);

/// A ceremony. It belongs to the browser that holds the token, in a cookie; it is short-lived and used once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ceremony {
    /// Hash of the token.
    pub token: TokenHash,
    /// What it is for.
    pub purpose: Purpose,
    /// What its end needs.
    pub data: CeremonyData,
    /// Instant from which it cannot be finished.
    pub expires_at: OffsetDateTime,
}

/// Returns a path of this service from what a page asked for: one that begins with a single `/`. Anything else is the
/// console, so that no login leads elsewhere.
pub fn local_path(text: &str) -> &str {
    let is_plain = |character: char| character.is_ascii_graphic() && character != '\\';
    let is_local = text.starts_with('/') && !text.starts_with("//") && text.chars().all(is_plain);
    if is_local && text.len() <= 2_000 { text } else { "/console" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_leads_to_a_path_of_this_service() {
        for text in ["/console", "/x/console?order=7#notes", "/"] {
            assert_eq!(local_path(text), text);
        }
        for text in [
            "",
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "\\evil",
            "javascript:alert(1)",
            "/a\nb",
            "/ //evil",
            "console",
        ] {
            assert_eq!(local_path(text), "/console", "{text}");
        }
    }
}
