//! The URL of a relay.

use std::{net::IpAddr, path::PathBuf};

use percent_encoding::percent_decode_str;
use url::Url;

use crate::OpenError;

/// When a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encryption {
    /// Never.
    Never,
    /// By STARTTLS (RFC 3207) if the relay offers it.
    IfOffered,
    /// By STARTTLS; otherwise no mail is sent.
    Required,
    /// From the first byte (RFC 8314).
    Implicit,
}

/// How to reach a relay.
pub(super) struct RelayUrl {
    /// Host name or address.
    pub host: String,
    pub port: u16,
    /// User and password.
    pub credentials: Option<(String, String)>,
    /// When the connection is encrypted.
    pub encryption: Encryption,
    /// Whether credentials may be sent over an unencrypted connection.
    pub credentials_in_clear: bool,
    /// The only root certificate to trust, instead of the system's.
    pub root: Option<PathBuf>,
}

impl RelayUrl {
    pub(super) fn parse(url: &Url) -> Result<Self, OpenError> {
        let host = host(url).ok_or(OpenError::NotARelay)?;
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() || url.port() == Some(0) {
            return Err(OpenError::NotARelay);
        }
        let credentials = credentials(url)?;
        let implicit = url.scheme() == "smtps";
        let (tls, root) = parameters(url)?;
        let local = host.eq_ignore_ascii_case("localhost")
            || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
        let encryption = match (implicit, tls) {
            (true, None) => Encryption::Implicit,
            (false, Some(Encryption::Never)) if root.is_some() => return Err(OpenError::Parameter),
            (false, Some(encryption)) => encryption,
            (false, None) if credentials.is_some() && !local => Encryption::Required,
            (false, None) => Encryption::IfOffered,
            (true, Some(_)) => return Err(OpenError::Parameter),
        };
        // RFC 8314 section 7.3, RFC 6409 section 3.1, RFC 5321 section 2.3.8.
        let default_port = match &credentials {
            _ if implicit => 465,
            Some(_) => 587,
            None => 25,
        };
        let credentials_in_clear = local || encryption == Encryption::Never;
        Ok(Self {
            host,
            port: url.port().unwrap_or(default_port),
            credentials,
            encryption,
            credentials_in_clear,
            root,
        })
    }
}

/// Returns the host name or address; an IPv6 address without its brackets.
fn host(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    if let Some(address) = host.strip_prefix('[') {
        return Some(address.strip_suffix(']')?.to_owned());
    }
    let valid = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    (valid && !host.is_empty()).then(|| host.to_owned())
}

fn credentials(url: &Url) -> Result<Option<(String, String)>, OpenError> {
    let decode = |text| {
        let text = percent_decode_str(text).decode_utf8().ok()?;
        (!text.is_empty() && !text.contains(char::is_control)).then(|| text.into_owned())
    };
    match (url.username(), url.password()) {
        ("", None) => Ok(None),
        (user, password) => {
            Ok(Some(decode(user).zip(password.and_then(decode)).ok_or(OpenError::Credentials)?))
        }
    }
}

/// Returns the values of `tls` and `ca`.
fn parameters(url: &Url) -> Result<(Option<Encryption>, Option<PathBuf>), OpenError> {
    let (mut tls, mut root) = (None, None);
    for (name, value) in url.query_pairs() {
        let invalid = match (&*name, &*value) {
            ("tls", "required") => tls.replace(Encryption::Required).is_some(),
            ("tls", "opportunistic") => tls.replace(Encryption::IfOffered).is_some(),
            ("tls", "none") => tls.replace(Encryption::Never).is_some(),
            ("ca", path) if path.starts_with('/') => root.replace(PathBuf::from(path)).is_some(),
            _ => true,
        };
        if invalid {
            return Err(OpenError::Parameter);
        }
    }
    Ok((tls, root))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<RelayUrl, OpenError> {
        RelayUrl::parse(&Url::parse(url).unwrap())
    }

    #[test]
    fn default_port_follows_scheme_and_credentials() {
        for (url, port) in [
            ("smtp://relay.example.com", 25),
            ("smtp://user:password@relay.example.com", 587),
            ("smtp://user:password@relay.example.com/", 587),
            ("smtps://relay.example.com", 465),
            ("smtps://user:password@relay.example.com", 465),
            ("smtp://user:password@relay.example.com:2525", 2525),
        ] {
            assert_eq!(parse(url).unwrap().port, port, "{url}");
        }
    }

    #[test]
    fn host_is_a_name_or_an_address() {
        for (url, host) in [
            ("smtp://relay.example.com", "relay.example.com"),
            ("smtp://127.0.0.1:25", "127.0.0.1"),
            ("smtp://[::1]:25", "::1"),
            ("smtp://mail_1", "mail_1"),
        ] {
            assert_eq!(parse(url).unwrap().host, host, "{url}");
        }
        for url in
            "smtp:relay smtp:// smtp:/// smtp://re%20lay smtp://exämple.com smtp://relay/path \
             smtp://relay#fragment smtp://relay:0"
                .split(' ')
        {
            assert!(matches!(parse(url), Err(OpenError::NotARelay)), "{url}");
        }
    }

    #[test]
    fn credentials_require_encryption_except_locally() {
        for (url, encryption, in_clear) in [
            ("smtp://relay", Encryption::IfOffered, false),
            ("smtp://user:password@relay", Encryption::Required, false),
            ("smtp://user:password@192.0.2.1", Encryption::Required, false),
            ("smtp://user:password@relay?tls=opportunistic", Encryption::IfOffered, false),
            ("smtp://user:password@relay?tls=none", Encryption::Never, true),
            ("smtp://user:password@localhost", Encryption::IfOffered, true),
            ("smtp://user:password@LOCALHOST", Encryption::IfOffered, true),
            ("smtp://user:password@127.8.8.8", Encryption::IfOffered, true),
            ("smtp://user:password@[::1]", Encryption::IfOffered, true),
            ("smtp://user:password@localhost.example.com", Encryption::Required, false),
            ("smtp://user:password@localhost?tls=required", Encryption::Required, true),
            ("smtps://user:password@relay", Encryption::Implicit, false),
        ] {
            let relay = parse(url).unwrap();
            assert_eq!(
                (relay.encryption, relay.credentials_in_clear),
                (encryption, in_clear),
                "{url}"
            );
        }
    }

    #[test]
    fn credentials_are_percent_decoded() {
        let relay =
            parse("smtp://orders%40example.com:p%C3%A4ss%3A%2F%3F%23%40%25word+@relay").unwrap();
        assert_eq!(
            relay.credentials,
            Some(("orders@example.com".to_owned(), "päss:/?#@%word+".to_owned()))
        );
        assert_eq!(parse("smtp://relay").unwrap().credentials, None);
        for url in [
            "smtp://user@relay",
            "smtp://user:@relay",
            "smtp://:password@relay",
            "smtp://user:%FF@relay",
            "smtp://us%00er:password@relay",
        ] {
            assert!(matches!(parse(url), Err(OpenError::Credentials)), "{url}");
        }
    }

    #[test]
    fn unknown_or_repeated_parameters_are_rejected() {
        let relay = parse("smtp://relay?ca=/etc/ssl/our%20root.pem&tls=required").unwrap();
        assert_eq!(
            (relay.root, relay.encryption),
            (Some("/etc/ssl/our root.pem".into()), Encryption::Required)
        );
        for parameters in
            "tls tls= tls=on TLS=none timeout=5 tls=none&tls=none ca=/a&ca=/a ca= ca=root.pem \
             tls=none&ca=/root.pem &a"
                .split(' ')
        {
            assert!(
                matches!(parse(&format!("smtp://relay?{parameters}")), Err(OpenError::Parameter)),
                "{parameters}"
            );
        }
        assert!(matches!(parse("smtps://relay?tls=required"), Err(OpenError::Parameter)));
    }
}
