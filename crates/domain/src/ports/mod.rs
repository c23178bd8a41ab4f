//! What the domain needs of the world. Each trait is an obligation that an adapter takes on; its
//! suite in the `contract-tests` crate is the same obligation as tests.
//!
//! All instants are UTC and whole microseconds, which every store keeps exactly.

mod api_key_repo;
mod blob_store;
mod clock;
mod delivery_queue;
mod entropy;
mod idempotency_ledger;
mod notifier;
mod order_repo;
mod upload_ledger;

pub use api_key_repo::*;
pub use blob_store::*;
pub use clock::*;
pub use delivery_queue::*;
pub use entropy::*;
pub use idempotency_ledger::*;
pub use notifier::*;
pub use order_repo::*;
pub use upload_ledger::*;

/// The cause of a failure, for the log; a caller acts on the variant that holds it.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// An error and what caused it, in one line for the log: `Display` alone never repeats the cause.
/// Where a server had a say in it, what would end the line, turn text round or reach the terminal
/// is left out.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let hidden = |character: char| {
        character.is_control()
            || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let told = std::iter::successors(Some(error), |&error| error.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ");
    told.replace(hidden, " ")
}

/// Why a store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store does not answer, or is too busy; the same call may succeed later. Whether it took
    /// effect is unknown.
    #[error("the store does not answer")]
    Unavailable(#[source] Cause),
    /// The store answered what nobody expected.
    #[error("the store failed")]
    Internal(#[source] Cause),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_in_one_line_whatever_a_server_said() {
        let said = "no\r\nroom\u{1b}[31m\u{9b}31m\u{2028}left\u{202e}thgir\t\u{7f}é";
        assert_eq!(
            error_chain(&StoreError::Internal(said.into())),
            "the store failed: no  room [31m 31m left thgir  é"
        );
    }
}
