//! The login of a company, by OpenID Connect.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::Token;
use crate::entropy::Entropy;

/// Who somebody is for an OpenID provider: issuer and subject, nothing else (OpenID Connect Core, 5.7). An e-mail
/// address may be given to another person, so it is none.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// The issuer, exactly as its ID token has it.
    pub issuer: String,
    /// The subject, up to 255 ASCII characters.
    pub subject: String,
}

conceal!(Identity, PendingLogin, LoginAnswer);

/// The random values of one login. The provider returns `state` and `nonce`, and gets the hash of `verifier`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingLogin {
    /// The name of the provider, as the operator has set it.
    pub provider: String,
    /// The redirect URI of the request, which the exchange of the code repeats.
    pub redirect_uri: String,
    /// Binds the answer to the browser that began (RFC 6749, 10.12).
    pub state: String,
    /// Binds the ID token to this login.
    pub nonce: String,
    /// The code verifier of PKCE (RFC 7636): 43 to 128 characters.
    pub verifier: String,
    /// When the person was asked to sign in again; `None` if a session that the provider still has is enough.
    pub again_since: Option<OffsetDateTime>,
}

/// The answer of a provider, which the browser brings (OpenID Connect Core, 3.1.2.5).
#[derive(Clone, PartialEq, Eq)]
pub struct LoginAnswer {
    /// The `state` of the login.
    pub state: String,
    /// The code, which an ID token is exchanged for.
    pub code: String,
    /// The issuer that answers (RFC 9207); `None` if it does not say.
    pub issuer: Option<String>,
}

impl PendingLogin {
    /// Returns the values of a new login.
    pub fn random(
        provider: &str,
        redirect_uri: &str,
        again_since: Option<OffsetDateTime>,
        entropy: &dyn Entropy,
    ) -> Self {
        let [state, nonce, first, second] =
            [(); 4].map(|()| Token::random(entropy).expose().to_owned());
        Self {
            provider: provider.to_owned(),
            redirect_uri: redirect_uri.to_owned(),
            state,
            nonce,
            verifier: first + &second,
            again_since,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::CountingEntropy;

    #[test]
    fn verifier_has_the_length_of_pkce_and_all_values_differ() {
        let entropy = CountingEntropy::default();
        let login = PendingLogin::random("entra", "https://a.example/cb", None, &entropy);
        assert!((43..=128).contains(&login.verifier.len()));
        assert_ne!(login.state, login.nonce);
        assert!(!login.verifier.contains(&login.state));
    }
}
