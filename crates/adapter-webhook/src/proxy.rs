use std::{fmt, str::FromStr};

use url::Url;

/// A proxy for all webhooks: `http://` or `https://`, with or without `user:password@`.
#[derive(Clone)]
pub struct Proxy(pub(crate) Url);

/// The text is no URL of a proxy. It is not repeated, because it may contain a password.
#[derive(Debug, thiserror::Error)]
#[error("must be of the form http://host:port or https://host:port")]
pub struct InvalidProxy;

impl FromStr for Proxy {
    type Err = InvalidProxy;

    fn from_str(text: &str) -> Result<Self, InvalidProxy> {
        let url = Url::parse(text).map_err(|_| InvalidProxy)?;
        let is_origin = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        if is_origin && ["http", "https"].contains(&url.scheme()) {
            Ok(Self(url))
        } else {
            Err(InvalidProxy)
        }
    }
}

/// Hides the URL, which may contain a password.
impl fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Proxy(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_proxies_are_accepted() {
        for url in ["http://proxy:4750", "https://user:secret@proxy.example/"] {
            assert!(url.parse::<Proxy>().is_ok(), "{url}");
        }
        for url in ["proxy:4750", "socks5://secret@proxy", "http://secret@proxy/x", "http://", ""] {
            let error = url.parse::<Proxy>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("secret"), "{url}");
        }
    }

    #[test]
    fn debug_hides_the_password() {
        let proxy: Proxy = "http://user:secret@proxy:4750".parse().unwrap();
        assert_eq!(format!("{proxy:?}"), "Proxy(…)");
    }
}
