//! The URL of a relay.

use std::{net::IpAddr, path::PathBuf};

use lettre::transport::smtp::authentication::Credentials;
use percent_encoding::percent_decode_str;
use url::Url;

use crate::OpenError;

const FORM: OpenError = OpenError::url(
    "must be of the form smtp://host or smtps://host, optionally followed by :port and ?parameters",
);
const CREDENTIALS: OpenError = OpenError::url(
    "must have a user and a password before the host, both percent-encoded, or neither",
);
const PARAMETERS: OpenError = OpenError::url(
    "takes ca=/absolute/path/to/root.pem, and with smtp:// also tls=required, tls=opportunistic or \
     (without ca) tls=none, each once",
);

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
    pub credentials: Option<Credentials>,
    /// When the connection is encrypted.
    pub encryption: Encryption,
    /// Whether credentials may be sent over an unencrypted connection.
    pub credentials_in_clear: bool,
    /// Whether the relay is on this machine, so no attacker can be between.
    pub local: bool,
    /// The only root certificate to trust, instead of the system's.
    pub root: Option<PathBuf>,
}

impl RelayUrl {
    pub(super) fn parse(url: &Url) -> Result<Self, OpenError> {
        let host = host(url).ok_or(FORM)?;
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() || url.port() == Some(0) {
            return Err(FORM);
        }
        let credentials = credentials(url)?;
        let implicit = url.scheme() == "smtps";
        let (tls, root) = parameters(url)?;
        let local = host.eq_ignore_ascii_case("localhost")
            || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
        let encryption = match (implicit, tls) {
            (true, None) => Encryption::Implicit,
            (false, Some(Encryption::Never)) if root.is_some() => return Err(PARAMETERS),
            (false, Some(encryption)) => encryption,
            (false, None) if credentials.is_some() && !local => Encryption::Required,
            (false, None) => Encryption::IfOffered,
            (true, Some(_)) => return Err(PARAMETERS),
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
            local,
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

fn credentials(url: &Url) -> Result<Option<Credentials>, OpenError> {
    let decode = |text| {
        let text = percent_decode_str(text).decode_utf8().ok()?;
        (!text.is_empty() && !text.contains(char::is_control)).then(|| text.into_owned())
    };
    match (url.username(), url.password()) {
        ("", None) => Ok(None),
        (user, password) => {
            let both = decode(user).zip(password.and_then(decode)).ok_or(CREDENTIALS)?;
            Ok(Some(both.into()))
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
            return Err(PARAMETERS);
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

    fn error(url: &str) -> String {
        parse(url).err().unwrap().to_string()
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
            assert_eq!(error(url), FORM.to_string(), "{url}");
        }
    }

    #[test]
    fn port_and_encryption_follow_scheme_credentials_and_host() {
        use Encryption::{IfOffered, Implicit, Never, Required};
        for (url, port, encryption, in_clear) in [
            ("smtp://relay", 25, IfOffered, false),
            ("smtp://relay:2525", 2525, IfOffered, false),
            ("smtp://user:password@relay/", 587, Required, false),
            ("smtp://user:password@192.0.2.1", 587, Required, false),
            ("smtp://user:password@relay?tls=opportunistic", 587, IfOffered, false),
            ("smtp://user:password@relay?tls=none", 587, Never, true),
            ("smtp://user:password@localhost", 587, IfOffered, true),
            ("smtp://user:password@LOCALHOST", 587, IfOffered, true),
            ("smtp://user:password@127.8.8.8", 587, IfOffered, true),
            ("smtp://user:password@[::1]", 587, IfOffered, true),
            ("smtp://user:password@localhost.example.com", 587, Required, false),
            ("smtp://user:password@localhost?tls=required", 587, Required, true),
            ("smtps://relay", 465, Implicit, false),
            ("smtps://user:password@relay", 465, Implicit, false),
        ] {
            let relay = parse(url).unwrap();
            let found = (relay.port, relay.encryption, relay.credentials_in_clear);
            assert_eq!(found, (port, encryption, in_clear), "{url}");
        }
    }

    #[test]
    fn credentials_are_percent_decoded() {
        let relay =
            parse("smtp://orders%40example.com:p%C3%A4ss%3A%2F%3F%23%40%25word+@relay").unwrap();
        assert_eq!(relay.credentials, Some(("orders@example.com", "päss:/?#@%word+").into()));
        assert_eq!(parse("smtp://relay").unwrap().credentials, None);
        for url in [
            "smtp://user@relay",
            "smtp://user:@relay",
            "smtp://:password@relay",
            "smtp://user:%FF@relay",
            "smtp://us%00er:password@relay",
        ] {
            assert_eq!(error(url), CREDENTIALS.to_string(), "{url}");
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
            assert_eq!(
                error(&format!("smtp://relay?{parameters}")),
                PARAMETERS.to_string(),
                "{parameters}"
            );
        }
        assert_eq!(error("smtps://relay?tls=required"), PARAMETERS.to_string());
    }
}
