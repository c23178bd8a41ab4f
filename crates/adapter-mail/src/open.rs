use std::sync::Arc;

use domain::ports::Notifier;
use url::Url;

use crate::{OpenError, Sender, smtp::Smtp};

/// Opens the relay that a URL names; the crate's documentation lists the schemes. Does not connect.
pub fn open(url: &str, sender: Sender) -> Result<Arc<dyn Notifier>, OpenError> {
    let url = Url::parse(url).map_err(|_| {
        OpenError::url("is not a URL; write file:///absolute/path, smtp://host or smtps://host")
    })?;
    match url.scheme() {
        "file" => Err(OpenError::url("must be of the form file:///absolute/path")),
        "smtp" | "smtps" => Ok(Arc::new(Smtp::open(&url, sender)?)),
        _ => Err(OpenError::url(
            "has an unknown scheme; write file:///absolute/path, smtp://host or smtps://host",
        )),
    }
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
