//! The settings of a provider.

use std::fmt;

use url::{Host, Url};

/// The path of the discovery document below the issuer (OpenID Connect Discovery 1.0, section 4).
const DOCUMENT: &str = "/.well-known/openid-configuration";

/// An issuer, letter by letter as the operator has set it: ID tokens must have the same text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    text: String,
    document: Url,
}

/// The text is no issuer.
#[derive(Debug, thiserror::Error)]
#[error(
    "must be the issuer of the provider, such as https://login.example.com, without a user, a \
     query or a fragment; http works only at localhost, for trials"
)]
pub struct InvalidIssuer;

impl Issuer {
    /// Reads an issuer.
    ///
    /// # Errors
    /// The text is no URL of `https`, or of `http` on a loopback address; or it has a user, a query or a fragment.
    pub fn parse(text: &str) -> Result<Self, InvalidIssuer> {
        let text = text.trim();
        let url = Url::parse(text).map_err(|_| InvalidIssuer)?;
        let is_plain = url.query().is_none() && !text.ends_with('?');
        if !is_plain || !is_safe(&url, true) {
            return Err(InvalidIssuer);
        }
        let document = format!("{}{DOCUMENT}", text.trim_end_matches('/'));
        let document = Url::parse(&document).map_err(|_| InvalidIssuer)?;
        Ok(Self { text: text.to_owned(), document })
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn document(&self) -> &Url {
        &self.document
    }

    /// Reads an address that the provider names. It is plain `http` only for an issuer that is so.
    pub(crate) fn address(&self, text: &str) -> Option<Url> {
        let may_be_plain = self.document.scheme() == "http";
        Url::parse(text).ok().filter(|url| is_safe(url, may_be_plain))
    }
}

/// Returns whether others cannot read and change requests to this address: it is `https`, or, where it may be, `http`
/// on this machine.
fn is_safe(url: &Url, may_be_plain: bool) -> bool {
    let is_local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let is_web = match url.scheme() {
        "https" => url.has_host(),
        "http" => may_be_plain && is_local,
        _ => false,
    };
    is_web && url.username().is_empty() && url.password().is_none() && url.fragment().is_none()
}

/// A provider, and the client that the operator has registered there.
#[derive(Clone)]
pub struct ProviderSettings {
    /// Its name: "Sign in with …".
    pub name: String,
    /// Its issuer.
    pub issuer: Issuer,
    /// The identifier of the client.
    pub client_id: String,
    /// The secret of the client; `None` for a public client.
    pub client_secret: Option<String>,
}

impl fmt::Debug for ProviderSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, issuer, .. } = self;
        write!(formatter, "ProviderSettings({name}={})", issuer.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuer_is_https_or_on_this_machine() {
        for text in [
            "https://login.microsoftonline.com/1b2c/v2.0",
            "https://accounts.google.com",
            "https://example.auth0.com/",
            "http://localhost:9000/realms/office",
            "http://127.0.0.1:9000",
            "http://[::1]:9000",
        ] {
            assert_eq!(Issuer::parse(&format!(" {text} ")).unwrap().as_str(), text);
        }
        for text in [
            "",
            "login.example.com",
            "http://login.example.com",
            "http://localhost.example.com",
            "http://127.0.0.1.example.com",
            "ftp://login.example.com",
            "https://user@login.example.com",
            "https://:secret@login.example.com",
            "https://login.example.com?tenant=1",
            "https://login.example.com?",
            "https://login.example.com#x",
            "https://login.example.com#",
        ] {
            assert!(Issuer::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn document_lies_below_the_issuer_with_or_without_a_slash() {
        for (issuer, document) in [
            ("https://a.example", "https://a.example/.well-known/openid-configuration"),
            ("https://a.example/", "https://a.example/.well-known/openid-configuration"),
            ("https://a.example/r/1", "https://a.example/r/1/.well-known/openid-configuration"),
        ] {
            assert_eq!(Issuer::parse(issuer).unwrap().document().as_str(), document);
        }
    }

    #[test]
    fn address_of_a_provider_is_plain_only_for_a_plain_issuer_on_this_machine() {
        let [trial, real] =
            ["http://localhost:9000", "https://a.example"].map(|text| Issuer::parse(text).unwrap());
        assert!(trial.address("http://127.0.0.1:9001/token").is_some());
        assert!(trial.address("http://a.example/token").is_none());
        assert!(real.address("https://b.example/token?tenant=1").is_some());
        for text in ["http://localhost:9000/token", "javascript:alert(1)", "/token", ""] {
            assert!(real.address(text).is_none(), "{text}");
        }
    }

    #[test]
    fn debug_text_has_no_secret() {
        let settings = ProviderSettings {
            name: "Entra".to_owned(),
            issuer: Issuer::parse("https://a.example").unwrap(),
            client_id: "client".to_owned(),
            client_secret: Some("passw0rd".to_owned()),
        };
        assert_eq!(format!("{settings:?}"), "ProviderSettings(Entra=https://a.example)");
    }
}
