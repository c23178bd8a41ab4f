//! The ports: what the domain needs of the outside world.
//!
//! Each trait lists what an implementation must guarantee. The suite of the same name in the
//! `contract-tests` crate checks each guarantee, and every adapter runs it.
//!
//! All instants are UTC and whole microseconds. Every store keeps them exactly.

mod access_log;
mod api_key_repo;
mod clock;
mod deliveries;
mod installation_repo;
mod orders;
mod people;
mod rejected_log;
mod secret_box;
mod service_repo;

pub use access_log::*;
pub use api_key_repo::*;
pub use clock::*;
pub use deliveries::*;
pub use installation_repo::*;
pub use orders::*;
pub use people::*;
pub use rejected_log::*;
pub use secret_box::*;
pub use service_repo::*;

pub use crate::entropy::*;

/// The cause of a failure, for the log. Callers act on the error variant that holds it.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Formats an error and its causes as one line for the log. `Display` alone never repeats a cause.
///
/// Removes control characters and characters that end a line or reverse the text direction,
/// because part of the text may come from a server.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let hidden = |character: char| {
        character.is_control()
            || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(character, '\u{2066}'..='\u{2069}')
    };
    let chain = std::iter::successors(Some(error), |&error| error.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ");
    chain.replace(hidden, " ")
}

/// The reason why a call of a store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store does not answer or is too busy. The same call may succeed later. Whether this
    /// call took effect is unknown.
    #[error("the store is unavailable")]
    Unavailable(#[source] Cause),
    /// The store gave an unexpected answer.
    #[error("the store failed")]
    Internal(#[source] Cause),
}

impl StoreError {
    /// Returns whether the row of an order cannot be read. The same call fails again.
    pub fn is_unreadable_order(&self) -> bool {
        matches!(self, Self::Internal(cause) if cause.is::<UnreadableRecord>())
    }

    /// Returns whether what the call was to store may be at fault. A batch is stored in parts then.
    pub fn may_be_of_data(&self) -> bool {
        match self {
            Self::Unavailable(cause) => cause.is::<UnclearRejection>(),
            Self::Internal(_) => true,
        }
    }
}

/// The store answered that a call had no effect, but not whether its own state or what the call was to store is
/// at fault. The cause of [`StoreError::Unavailable`]. The text is that of the answer.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct UnclearRejection(pub Cause);

/// The row of an order cannot be read: another program has changed it, or a newer version of the service has
/// written it. The cause of [`StoreError::Internal`]. The text names the row and the fault, without a value.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnreadableRecord(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_chain_is_one_safe_line() {
        let text = "no\r\nspace\u{1b}[31m\u{9b}31m\u{2028}left\u{202e}thgir\t\u{7f}é";
        assert_eq!(
            error_chain(&StoreError::Internal(text.into())),
            "the store failed: no  space [31m 31m left thgir  é"
        );
    }
}
