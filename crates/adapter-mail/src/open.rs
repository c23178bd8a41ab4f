use std::{io, path::PathBuf, sync::Arc};

use domain::ports::{Cause, Notifier};
use url::Url;

use crate::{MailDrop, Sender, smtp::Smtp};

/// The reason why mails cannot be sent to a URL. The text never repeats the URL, which may contain
/// credentials.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL is wrong. The text says what must be written.
    #[error("{0}")]
    Url(&'static str),
    /// The folder cannot be created or used.
    #[error("the folder {} cannot be used", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
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
    let url = Url::parse(url).map_err(|_| {
        OpenError::Url("is not a URL; write file:///absolute/path, smtp://host or smtps://host")
    })?;
    match url.scheme() {
        "file" => {
            let path = url.to_file_path().ok();
            let path = path.filter(|_| url.query().is_none() && url.fragment().is_none());
            let not_a_path = OpenError::Url("must be of the form file:///absolute/path");
            Ok(Arc::new(MailDrop::in_folder(&path.ok_or(not_a_path)?, sender)?))
        }
        "smtp" | "smtps" => Ok(Arc::new(Smtp::open(&url, sender)?)),
        _ => Err(OpenError::Url(
            "has an unknown scheme; write file:///absolute/path, smtp://host or smtps://host",
        )),
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
        let not_a_path = "must be of the form file:///absolute/path";
        for (url, text) in [
            ("/var/spool/mail", "is not a URL"),
            ("http://example.com", "has an unknown scheme"),
            ("file://host/path", not_a_path),
            ("file:///path?a=b", not_a_path),
            ("file:///path#fragment", not_a_path),
        ] {
            assert!(open_error(url).to_string().starts_with(text), "{url}");
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
