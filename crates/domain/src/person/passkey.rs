//! Passkeys: what the service keeps of a WebAuthn credential, and where one may be used.

use time::OffsetDateTime;

use super::{PersonId, PersonName};

/// Maximum number of passkeys of a person.
pub const MAX_PASSKEYS: usize = 20;

/// The identifier by which an authenticator knows a person: 64 random bytes (WebAuthn, 5.4.3).
#[derive(Clone, PartialEq, Eq)]
pub struct UserHandle(pub [u8; 64]);

/// The identifier of a credential, as its authenticator made it: up to 1023 bytes (WebAuthn, 4).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CredentialId(pub Vec<u8>);

/// A credential in the formats of the WebAuthn library. The domain only keeps and compares it.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// Its identifier.
    pub id: CredentialId,
    /// What never changes: the public key and its algorithm.
    pub fixed: Vec<u8>,
    /// What a sign-in changes: the counter and the flags of its last assertion.
    pub changing: Vec<u8>,
}

conceal!(UserHandle, CredentialId, Credential);

/// Identifier of a passkey, assigned by the repository; positive. Answers name passkeys by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PasskeyId(pub i64);

/// A passkey to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPasskey {
    /// The name that its person knows it by.
    pub name: PersonName,
    /// The credential. No two passkeys have one identifier.
    pub credential: Credential,
    /// When it was made.
    pub created_at: OffsetDateTime,
}

/// A passkey of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passkey {
    /// Its identifier.
    pub id: PasskeyId,
    /// Its person.
    pub person: PersonId,
    /// What is stored of it.
    pub passkey: NewPasskey,
    /// When its person last signed in by it.
    pub last_used_at: Option<OffsetDateTime>,
}

/// A web origin where browsers allow passkeys: `https`, or `http` on `localhost`. No path, no default port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    text: String,
}

impl Origin {
    /// Reads the origin of a URL or an `Origin` header. Returns `None` if passkeys do not work there: another scheme,
    /// or an IP address, which is no domain (WebAuthn, 5.1.3).
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next()?.to_ascii_lowercase();
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, Some(port.parse::<u16>().ok()?)),
            None => (&*authority, None),
        };
        let is_name = |host: &str| {
            let is_part = |part: &str| {
                !part.is_empty()
                    && !part.starts_with('-')
                    && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            };
            let is_number = host.rsplit('.').next().is_none_or(|last| last.parse::<u64>().is_ok());
            host.split('.').all(is_part) && !is_number
        };
        let (scheme, default) = match &*scheme.to_ascii_lowercase() {
            "https" if is_name(host) => ("https", 443),
            "http" if host == "localhost" || host.ends_with(".localhost") && is_name(host) => {
                ("http", 80)
            }
            _ => return None,
        };
        let port = port.filter(|port| *port != default);
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        Some(Self { text: format!("{scheme}://{host}{port}") })
    }

    /// Returns the origin as browsers write it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns its host: the identifier of the relying party.
    pub fn host(&self) -> &str {
        let host = self.text.split_once("://").map_or(&*self.text, |(_, rest)| rest);
        host.split_once(':').map_or(host, |(host, _)| host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_is_https_or_localhost() {
        for (text, origin, host) in [
            (
                "https://Orders.example.com/x/console",
                "https://orders.example.com",
                "orders.example.com",
            ),
            ("https://orders.example.com:443", "https://orders.example.com", "orders.example.com"),
            ("https://a.example:8443/", "https://a.example:8443", "a.example"),
            ("http://localhost:8080", "http://localhost:8080", "localhost"),
            ("https://localhost", "https://localhost", "localhost"),
        ] {
            let read = Origin::parse(text).unwrap();
            assert_eq!((read.as_str(), read.host()), (origin, host), "{text}");
        }
        for text in [
            "http://orders.example.com",
            "http://127.0.0.1:8080",
            "https://192.0.2.1",
            "https://[::1]",
            "https://user@a.example",
            "http://localhost.example.com",
            "http://evil-localhost",
            "https://",
            "https://a..b",
            "null",
            "ftp://localhost",
            "https://a.example:99999",
        ] {
            assert_eq!(Origin::parse(text), None, "{text}");
        }
    }
}
