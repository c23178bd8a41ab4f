use std::collections::BTreeMap;

use async_trait::async_trait;
use time::OffsetDateTime;

use crate::{
    api_key::Party,
    person::{
        ChangeRights, Credential, CredentialId, Doer, Identity, Invitation, NewInvitation,
        NewPasskey, NewPerson, Passkey, PasskeyId, Person, PersonChange, PersonId, PersonRefusal,
        TokenHash,
    },
    ports::StoreError,
};

/// The reason why people were not changed. Nothing was stored.
#[derive(Debug, thiserror::Error)]
pub enum PersonError {
    /// A rule forbids it.
    #[error(transparent)]
    Refused(#[from] PersonRefusal),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How a person signs in from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewMethod {
    /// By a passkey.
    Passkey(NewPasskey),
    /// By a company's login.
    Login(Identity),
}

/// Stores people, their invitations and their ways to sign in.
///
/// An implementation guarantees:
/// - Every change is durable when the call returns, and one atomic step.
/// - People are never deleted: the history names them. Their identifiers are not reused.
/// - An invitation is accepted once. Of concurrent calls of any processes, one accepts it.
/// - A credential and an identity belong to one person.
/// - [`PersonChange::decide`], [`decide_removal`](crate::person::decide_removal) and
///   [`check_name`](crate::person::check_name) run under one lock of the side, so that one admin stays who can sign in,
///   and one person or key has a name, however many calls there are at once. Keys count while they are valid at the
///   instant of the call.
/// - Tokens are stored as hashes only.
///
/// # Errors
/// [`StoreError`], or [`PersonError`] where a rule may forbid the change.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait PersonRepo: Send + Sync {
    /// Stores a new person with an invitation.
    ///
    /// # Errors
    /// [`PersonRefusal::TooManyInvitations`] and [`PersonRefusal::NameInUse`], unless an operator issues it.
    async fn invite(
        &self,
        person: &NewPerson,
        invitation: &NewInvitation,
    ) -> Result<PersonId, PersonError>;

    /// Like [`Self::invite`], if nobody was ever invited. Otherwise returns `None`.
    async fn invite_first(
        &self,
        person: &NewPerson,
        invitation: &NewInvitation,
    ) -> Result<Option<PersonId>, StoreError>;

    /// Stores another invitation of a person, and withdraws those that are open. An active person gets one more way to
    /// sign in by it.
    ///
    /// # Errors
    /// [`PersonRefusal::Unknown`], [`PersonRefusal::Disabled`], and [`PersonRefusal::TooManyInvitations`] as for
    /// [`Self::invite`].
    async fn invite_again(
        &self,
        id: PersonId,
        rights: ChangeRights,
        invitation: &NewInvitation,
    ) -> Result<Person, PersonError>;

    /// Withdraws the open invitations of a person. Returns the person.
    ///
    /// # Errors
    /// [`PersonRefusal::Unknown`].
    async fn withdraw_invitations(
        &self,
        id: PersonId,
        rights: ChangeRights,
        at: OffsetDateTime,
    ) -> Result<Person, PersonError>;

    /// Returns the invitation of a token, whatever its state, and its person. Changes nothing.
    async fn invitation(
        &self,
        token: TokenHash,
    ) -> Result<Option<(Invitation, Person)>, StoreError>;

    /// Accepts an invitation: it is used, its person has the way to sign in, and is active. Returns the person.
    ///
    /// # Errors
    /// [`PersonRefusal::Invitation`] by [`Invitation::check`], and as withdrawn if its issuer is no active admin;
    /// [`PersonRefusal::MethodInUse`], [`PersonRefusal::TooManyPasskeys`].
    async fn accept(
        &self,
        token: TokenHash,
        method: &NewMethod,
        at: OffsetDateTime,
    ) -> Result<Person, PersonError>;

    /// Adds a passkey to an active person.
    ///
    /// # Errors
    /// [`PersonRefusal::Unknown`], [`PersonRefusal::Disabled`], [`PersonRefusal::MethodInUse`],
    /// [`PersonRefusal::TooManyPasskeys`].
    async fn add_passkey(
        &self,
        id: PersonId,
        passkey: &NewPasskey,
    ) -> Result<PasskeyId, PersonError>;

    /// Returns a person; `None` if there is none.
    async fn find(&self, id: PersonId) -> Result<Option<Person>, StoreError>;

    /// Returns the people of a side, or of all sides, by identifier. Leaves out erased ones.
    async fn list(&self, party: Option<Party>) -> Result<Vec<Person>, StoreError>;

    /// Returns the invitations of these people that are neither used, withdrawn nor expired at an instant.
    async fn open_invitations(
        &self,
        people: &[PersonId],
        at: OffsetDateTime,
    ) -> Result<Vec<Invitation>, StoreError>;

    /// Returns the passkey of a credential, and its person.
    async fn passkey(
        &self,
        credential: &CredentialId,
    ) -> Result<Option<(Passkey, Person)>, StoreError>;

    /// Returns the passkeys of these people, oldest first.
    async fn passkeys_of(&self, people: &[PersonId]) -> Result<Vec<Passkey>, StoreError>;

    /// Returns the identities of a person.
    async fn identities_of(&self, id: PersonId) -> Result<Vec<Identity>, StoreError>;

    /// Stores what a sign-in has changed of a credential: `used` in place of `before`. Returns `false`, and changes
    /// nothing, if another sign-in has changed it meanwhile, or the passkey is gone: the assertion does not count.
    async fn use_passkey(
        &self,
        before: &Credential,
        used: &[u8],
        at: OffsetDateTime,
    ) -> Result<bool, StoreError>;

    /// Removes a passkey of a person by [`decide_removal`](crate::person::decide_removal). A login counts as a way to
    /// sign in if it is of one of these issuers: nobody signs in by one that the operator has taken out of the settings.
    ///
    /// # Errors
    /// [`PersonRefusal::Unknown`], [`PersonRefusal::LastMethod`], [`PersonRefusal::LastAdmin`].
    async fn remove_passkey(
        &self,
        id: PersonId,
        passkey: PasskeyId,
        rights: ChangeRights,
        issuers: &[String],
    ) -> Result<(), PersonError>;

    /// Returns the person of an identity.
    async fn by_identity(&self, identity: &Identity) -> Result<Option<Person>, StoreError>;

    /// Returns the names of people and keys, erased and revoked ones too.
    async fn names_of(&self, doers: &[Doer]) -> Result<BTreeMap<Doer, String>, StoreError>;

    /// Changes a person by [`PersonChange::decide`], and returns them as they are now. Disabling ends their sessions
    /// and withdraws their open invitations in the same step. The open invitations that they have issued are withdrawn
    /// too, unless they are an active admin afterwards.
    ///
    /// # Errors
    /// [`PersonRefusal::Unknown`], [`PersonRefusal::LastAdmin`], [`PersonRefusal::NameInUse`].
    async fn change(
        &self,
        id: PersonId,
        rights: ChangeRights,
        change: &PersonChange,
        issuers: &[String],
        at: OffsetDateTime,
    ) -> Result<Person, PersonError>;

    /// Erases a person for good: the name becomes [`FORMER_USER`](crate::person::FORMER_USER) wherever it stands, the
    /// address, the invitations, the ways to sign in and the sessions are removed. The open invitations that
    /// they have issued are withdrawn. Returns `false` if there is none.
    async fn erase(&self, id: PersonId, at: OffsetDateTime) -> Result<bool, StoreError>;
}
