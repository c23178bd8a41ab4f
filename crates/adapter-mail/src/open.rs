use std::{io, path::PathBuf, sync::Arc};

use domain::ports::{Cause, Notifier};
use url::Url;

use crate::{MailDrop, Sender, smtp::Smtp};

/// Why a URL names no place that mails can go to. The text never repeats the URL, which may hold
/// credentials.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is not a URL.
    #[error("is not a URL; write file:///absolute/path, smtp://host or smtps://host")]
    NotAUrl,
    /// Nothing is known of its scheme.
    #[error("has an unknown scheme; write file:///absolute/path, smtp://host or smtps://host")]
    UnknownScheme,
    /// It is a `file:` URL that is more or less than an absolute path.
    #[error("must be of the form file:///absolute/path")]
    NotAPath,
    /// The folder cannot be made or used.
    #[error("the folder {} cannot be used", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// It names no host, or a path on it.
    #[error(
        "must be of the form smtp://host or smtps://host, with :port and ?parameters after the host if need be"
    )]
    NotARelay,
    /// It has a user without a password, or the other way round, or what is no text.
    #[error(
        "must have both a user and a password before the host, each percent-encoded, or neither"
    )]
    Credentials,
    /// It has a parameter that is unknown, has an unknown value, stands there twice or contradicts
    /// the others.
    #[error(
        "takes ca=/absolute/path/to/root.pem, and with smtp:// also tls=required, tls=opportunistic or (without ca) tls=none, each once"
    )]
    Parameter,
    /// The root certificate cannot be read, or is none.
    #[error("the root certificate {} cannot be used", path.display())]
    RootCertificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Cause,
    },
    /// TLS cannot be set up.
    #[error("TLS cannot be set up")]
    Tls(#[source] Cause),
}

/// Opens the way that a URL names for mails to take; the crate's documentation lists the schemes. A
/// folder is created if it is missing; a relay need not be there yet.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> OpenError {
        open(url, "orders@localhost".parse().unwrap()).err().unwrap()
    }

    #[test]
    fn what_names_no_way_for_mails_is_refused() {
        assert!(matches!(refusal("/var/spool/mail"), OpenError::NotAUrl));
        assert!(matches!(refusal("http://example.com"), OpenError::UnknownScheme));
        for not_a_path in ["file://host/path", "file:///path?a=b", "file:///path#fragment"] {
            assert!(matches!(refusal(not_a_path), OpenError::NotAPath), "{not_a_path}");
        }
    }

    #[test]
    fn no_refusal_repeats_credentials() {
        for url in [
            "user:secret@relay",
            "secret",
            "ftp://user:secret@relay",
            "smtp://user:secret@[bad",
            "smtp://user:secret@",
            "smtp://user:secret@relay/path",
            "smtp://user:secret@relay:0",
            "smtp://user:secret@relay:secret",
            "smtp://user:secret@relay:99999",
            "smtp://user:12/secret@relay",
            "smtp://user:12?secret@relay",
            "smtp://user:12?secret=secret@relay",
            "smtp://user:12#secret@relay",
            "smtp://secret@relay",
            "smtp://:secret@relay",
            "smtp://user:secret%FF@relay",
            "smtp://user:secret%00@relay",
            "smtp://user:secret@relay?tls=maybe",
            "smtp://user:secret@relay?tls=required&tls=none",
            "smtp://user:secret@relay?ca=relative",
            "smtp://user:secret@relay?ca=/nowhere/root.pem",
            "smtps://user:secret@relay?tls=none",
        ] {
            let error = refusal(url);
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
    }
}
