//! The discovery document (OpenID Connect Discovery 1.0, section 3).

use domain::ports::LoginError;
use serde::Deserialize;
use url::Url;

use crate::settings::Issuer;

/// Most characters of a foreign text in an error.
const MAX_SHOWN: usize = 200;

/// Why a discovery document does not count.
#[derive(Debug, thiserror::Error)]
enum BadDocument {
    #[error("the discovery document is not JSON with the members that a provider must have")]
    Malformed,
    #[error("the discovery document is that of the issuer {named:?}, not of {set:?}")]
    OtherIssuer { named: String, set: String },
    #[error("{0} of the discovery document is not an https URL")]
    Address(&'static str),
    #[error("the provider supports PKCE, but not with S256")]
    NoS256,
}

#[derive(Deserialize)]
struct Members {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    authorization_response_iss_parameter_supported: Option<bool>,
}

/// The part that a login needs.
#[derive(Debug)]
pub(crate) struct Document {
    /// Where the browser goes.
    pub(crate) authorization: Url,
    /// Where the code is exchanged.
    pub(crate) token: Url,
    /// Where the keys are.
    pub(crate) keys: Url,
    /// The provider reads the secret of a client in the form only. The default is HTTP Basic.
    pub(crate) is_secret_in_form: bool,
    /// Every answer to a browser names the issuer (RFC 9207, section 3).
    pub(crate) names_issuer: bool,
}

impl Document {
    /// Reads the document of an issuer.
    pub(crate) fn parse(body: &[u8], issuer: &Issuer) -> Result<Self, LoginError> {
        Self::read(body, issuer).map_err(|error| LoginError::Rejected(error.into()))
    }

    fn read(body: &[u8], issuer: &Issuer) -> Result<Self, BadDocument> {
        let members: Members = serde_json::from_slice(body).map_err(|_| BadDocument::Malformed)?;
        if members.issuer != issuer.as_str() {
            let named = members.issuer.chars().take(MAX_SHOWN).collect();
            return Err(BadDocument::OtherIssuer { named, set: issuer.as_str().to_owned() });
        }
        // Some providers, such as Microsoft Entra, support S256 and do not list it.
        if members.code_challenge_methods_supported.is_some_and(|all| !names(&all, "S256")) {
            return Err(BadDocument::NoS256);
        }
        let is_secret_in_form = members.token_endpoint_auth_methods_supported.is_some_and(|all| {
            names(&all, "client_secret_post") && !names(&all, "client_secret_basic")
        });
        let address = |text: &str, name| issuer.address(text).ok_or(BadDocument::Address(name));
        Ok(Self {
            authorization: address(&members.authorization_endpoint, "authorization_endpoint")?,
            token: address(&members.token_endpoint, "token_endpoint")?,
            keys: address(&members.jwks_uri, "jwks_uri")?,
            is_secret_in_form,
            names_issuer: members.authorization_response_iss_parameter_supported == Some(true),
        })
    }
}

fn names(all: &[String], one: &str) -> bool {
    all.iter().any(|name| name == one)
}
