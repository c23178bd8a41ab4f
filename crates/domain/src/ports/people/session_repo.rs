use std::collections::HashSet;

use async_trait::async_trait;
use time::OffsetDateTime;

use crate::{
    person::{Caller, Ceremony, NewSession, PersonId, Session, SessionId, TokenHash},
    ports::StoreError,
};

/// The sessions that a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichSessions {
    /// This one.
    One(SessionId),
    /// All of a person.
    OfPerson(PersonId),
    /// All.
    All,
}

/// Stores sessions, and the ceremonies that begin them.
///
/// An implementation guarantees:
/// - Every change is durable when the call returns, and one atomic step.
/// - Tokens are stored as hashes only: a copy of the database opens no session.
/// - No session of a person who is not active, or of a key that is not valid, is added or found.
/// - A person and a key have at most [`Doer::max_sessions`](crate::person::Doer::max_sessions) sessions at once, however
///   many begin at once. One that is added beyond ends the one that was not used for the longest time.
/// - A ceremony is taken once. Of concurrent calls of any processes, one takes it.
///
/// # Errors
/// Every method fails with [`StoreError`] only.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait SessionRepo: Send + Sync {
    /// Stores a session, and ends the one that it replaces. Returns `None`, and stores nothing, if its person is not
    /// active or its key not valid at the sign-in.
    async fn add(
        &self,
        session: &NewSession,
        replaces: Option<SessionId>,
    ) -> Result<Option<Session>, StoreError>;

    /// Returns the session of a token with its person or its key, as they are now; `None` if there is no such
    /// session, or it was ended. The caller checks the rest with [`Caller::is_valid`]. A person of a client has the
    /// [`binding`](crate::api_key::binding) of its keys at `now`.
    async fn find(
        &self,
        token: TokenHash,
        now: OffsetDateTime,
    ) -> Result<Option<Caller>, StoreError>;

    /// Returns the tokens of the sessions that are not ended and end later than `at`.
    async fn tokens(&self, at: OffsetDateTime) -> Result<HashSet<TokenHash>, StoreError>;

    /// Returns the sessions that are not ended and end later than `at`, the newest first.
    async fn list(
        &self,
        which: WhichSessions,
        at: OffsetDateTime,
    ) -> Result<Vec<Session>, StoreError>;

    /// Ends sessions that are not ended yet, but for one. Returns how many.
    async fn end(
        &self,
        which: WhichSessions,
        except: Option<SessionId>,
        at: OffsetDateTime,
    ) -> Result<usize, StoreError>;

    /// Records when sessions were last used, and so when their people were last seen. A later use that is already
    /// recorded stays.
    async fn note_uses(&self, uses: &[(SessionId, OffsetDateTime)]) -> Result<(), StoreError>;

    /// Removes sessions that were ended, or ended by themselves, before an instant, and ceremonies that expired before
    /// it.
    async fn remove_before(&self, instant: OffsetDateTime) -> Result<(), StoreError>;

    /// Stores a ceremony. Of more than [`MAX_CEREMONIES`](crate::person::MAX_CEREMONIES), those that expire first go.
    async fn begin(&self, ceremony: &Ceremony) -> Result<(), StoreError>;

    /// Takes the ceremony of a token, so that no other call does. `None` if there is none, or it has expired at `now`.
    async fn take(
        &self,
        token: TokenHash,
        now: OffsetDateTime,
    ) -> Result<Option<Ceremony>, StoreError>;
}
