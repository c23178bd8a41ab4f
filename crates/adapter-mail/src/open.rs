use std::{io, path::PathBuf, sync::Arc};

use domain::ports::{Cause, Notifier};
use url::Url;

use crate::{MailDrop, Sender, smtp::Smtp};

/// Why mails cannot be sent to a URL. The text never repeats the URL, which may contain
/// credentials.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The text is not a URL.
    #[error("is not a URL; write file:///absolute/path, smtp://host or smtps://host")]
    NotAUrl,
    /// The scheme is unknown.
    #[error("has an unknown scheme; write file:///absolute/path, smtp://host or smtps://host")]
    UnknownScheme,
    /// A `file:` URL is not just an absolute path.
    #[error("must be of the form file:///absolute/path")]
    NotAPath,
    /// The folder cannot be created or used.
    #[error("the folder {} cannot be used", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The URL has no valid host, or has a path.
    #[error(
        "must be of the form smtp://host or smtps://host, optionally followed by :port and \
         ?parameters"
    )]
    NotARelay,
    /// The URL has a user without a password, a password without a user, or an undecodable one.
    #[error("must have a user and a password before the host, both percent-encoded, or neither")]
    Credentials,
    /// The URL has an unknown, repeated, invalid or conflicting parameter.
    #[error(
        "takes ca=/absolute/path/to/root.pem, and with smtp:// also tls=required, \
         tls=opportunistic or (without ca) tls=none, each once"
    )]
    Parameter,
    /// The root certificate cannot be read, or is not a certificate.
    #[error("the root certificate {} cannot be used", path.display())]
    RootCertificate {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Cause,
    },
    /// TLS cannot be configured.
    #[error("TLS cannot be configured")]
    Tls(#[source] Cause),
}

/// Opens the destination of mails that a URL names; the crate's documentation lists the schemes.
/// Creates a missing folder. Does not connect to a relay.
pub fn open(url: &str, sender: Sender) -> Result<Arc<dyn Notifier>, OpenError> {
    let url = Url::parse(url).map_err(|_| OpenError::NotAUrl)?;
    match url.scheme() {
        "file" if url.query().is_none() && url.fragment().is_none() => {
            let path = url.to_file_path().map_err(|()| OpenError::NotAPath)?;
            Ok(Arc::new(MailDrop::in_folder(&path, sender)?))
        }
        "file" => Err(OpenError::NotAPath),
        "smtp" | "smtps" => Ok(Arc::new(Smtp::open(&url, sender)?)),
        _ => Err(OpenError::UnknownScheme),
    }
}

/// Returns the folder of a URL that names a mail drop.
pub fn folder(url: &str) -> Option<PathBuf> {
    let url = Url::parse(url).ok().filter(|url| url.scheme() == "file")?;
    url.to_file_path().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_error(url: &str) -> OpenError {
        open(url, "orders@localhost".parse().unwrap()).err().unwrap()
    }

    #[test]
    fn unknown_destination_is_rejected() {
        assert!(matches!(open_error("/var/spool/mail"), OpenError::NotAUrl));
        assert!(matches!(open_error("http://example.com"), OpenError::UnknownScheme));
        for not_a_path in ["file://host/path", "file:///path?a=b", "file:///path#fragment"] {
            assert!(matches!(open_error(not_a_path), OpenError::NotAPath), "{not_a_path}");
        }
    }

    #[test]
    fn errors_never_repeat_credentials() {
        for url in "user:secret@relay secret ftp://user:secret@relay smtp://user:secret@[bad \
             smtp://user:secret@ smtp://user:secret@relay/path smtp://user:secret@relay:0 \
             smtp://user:secret@relay:secret smtp://user:secret@relay:99999 \
             smtp://user:12/secret@relay smtp://user:12?secret@relay \
             smtp://user:12?secret=secret@relay smtp://user:12#secret@relay smtp://secret@relay \
             smtp://:secret@relay smtp://user:secret%FF@relay smtp://user:secret%00@relay \
             smtp://user:secret@relay?tls=maybe smtp://user:secret@relay?tls=required&tls=none \
             smtp://user:secret@relay?ca=relative smtp://user:secret@relay?ca=/nowhere/root.pem \
             smtps://user:secret@relay?tls=none"
            .split(' ')
        {
            let error = open_error(url);
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
    }
}
