use crate::{
    person::{Credential, CredentialId, Origin, Person},
    ports::Cause,
};

/// A ceremony of WebAuthn that begins: what its page passes to the browser, and what the end needs.
#[derive(Clone, PartialEq, Eq)]
pub struct BegunPasskey {
    /// The argument of `navigator.credentials.create` or `.get`, as JSON (WebAuthn, 5.1.8 and 5.1.9).
    pub options: String,
    /// The challenge and what belongs to it, for the end.
    pub state: Vec<u8>,
}

conceal!(BegunPasskey);

/// The answer of a browser does not count. The cause is for the log, and has no secret.
#[derive(Debug, thiserror::Error)]
#[error("the passkey was not accepted")]
pub struct PasskeyFault(#[source] pub Cause);

/// Makes and checks the messages of WebAuthn (level 2 or later), by a library. Stores nothing.
///
/// An implementation guarantees:
/// - User verification is required, at both ceremonies; credentials are discoverable (resident).
/// - An answer counts for its challenge, its origin with its port, and its relying party only.
/// - No attestation is asked for or trusted.
/// - A counter that does not grow, where it is not always zero, is a fault.
/// - The identifier of the user that a sign-in names is that of the person.
///
/// # Errors
/// Every method fails with [`PasskeyFault`]: the message is malformed, or does not count.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
pub trait Passkeys: Send + Sync {
    /// Begins to make a passkey for a person. An authenticator that has one of `existing` makes none.
    fn begin_registration(
        &self,
        origin: &Origin,
        person: &Person,
        existing: &[CredentialId],
    ) -> Result<BegunPasskey, PasskeyFault>;

    /// Returns the credential that an authenticator has made: `response` is the JSON of the `PublicKeyCredential`.
    fn finish_registration(
        &self,
        origin: &Origin,
        person: &Person,
        state: &[u8],
        response: &str,
    ) -> Result<Credential, PasskeyFault>;

    /// Begins a sign-in by any passkey that the browser offers.
    fn begin_sign_in(&self, origin: &Origin) -> Result<BegunPasskey, PasskeyFault>;

    /// Returns the credential that a response names, before it is checked.
    fn named_credential(&self, response: &str) -> Result<CredentialId, PasskeyFault>;

    /// Checks a sign-in with a stored credential of a person. Returns [`Credential::changing`] after it.
    fn finish_sign_in(
        &self,
        origin: &Origin,
        person: &Person,
        credential: &Credential,
        state: &[u8],
        response: &str,
    ) -> Result<Vec<u8>, PasskeyFault>;
}
