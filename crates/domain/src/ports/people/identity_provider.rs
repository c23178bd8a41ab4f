use async_trait::async_trait;
use time::OffsetDateTime;

use crate::{
    person::{Identity, LoginAnswer, PendingLogin},
    ports::Cause,
};

/// The reason why a login at a provider failed. The cause is for the log, and has no secret.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The provider does not answer. Passkeys and keys go on.
    #[error("the identity provider does not answer")]
    Unavailable(#[source] Cause),
    /// The answer does not count: the code, the ID token or what it says.
    #[error("the login was not accepted")]
    Rejected(#[source] Cause),
}

/// What a provider says of itself, for `doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderReport {
    /// Its issuer.
    pub issuer: String,
    /// How many of its signing keys the service can use.
    pub usable_keys: usize,
    /// The time of its server, by the `Date` of its answer.
    pub server_time: Option<OffsetDateTime>,
}

/// A company's login by OpenID Connect: the code flow with PKCE.
///
/// An implementation guarantees:
/// - The discovery document is that of the issuer which the operator has set, and so is every ID token's `iss`.
/// - An ID token counts if it is signed by a key of the issuer with an asymmetric algorithm (no `none`, no HMAC), its
///   audience is the client, its `nonce` that of the login, and its instants hold within a minute of the clock.
/// - The challenge of PKCE is S256.
/// - An answer that names another issuer does not count, and neither does one without an issuer, if the provider says
///   that it names it (RFC 9207). Its code is shown to no provider.
/// - A login that is done again demands of the provider that the person signs in now, whatever session it has. An ID
///   token that tells of an earlier sign-in, or of none, does not count.
/// - Keys are fetched again for an unknown `kid`, at most once a minute.
/// - A call ends within ten seconds, and reads bounded answers.
/// - Claims other than `iss` and `sub` decide nothing.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait IdentityProvider: Send + Sync {
    /// Returns the name that the operator gave it. People see it: "Sign in with …".
    fn name(&self) -> String;

    /// Returns the issuer, as identities have it.
    fn issuer(&self) -> String;

    /// Returns the URL of the provider to which the browser goes.
    ///
    /// # Errors
    /// [`LoginError::Unavailable`]: its discovery document cannot be read.
    async fn begin(&self, pending: &PendingLogin) -> Result<String, LoginError>;

    /// Exchanges the code of an answer, and returns whom the provider has signed in. The caller has compared `state`.
    async fn finish(
        &self,
        pending: &PendingLogin,
        answer: &LoginAnswer,
        now: OffsetDateTime,
    ) -> Result<Identity, LoginError>;

    /// Reads the discovery document and the keys anew.
    async fn check(&self) -> Result<ProviderReport, LoginError>;
}
