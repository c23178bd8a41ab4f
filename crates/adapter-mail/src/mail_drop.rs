use std::{
    fs::{DirBuilder, File},
    io::{self, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use domain::{
    follow_up::Notification,
    ports::{Notifier, NotifyError},
};
use url::Url;

use crate::{
    Sender,
    message::{message_key, render},
};

/// Puts mails into a folder as `.eml` files. One that is handed over again takes the place of the first.
#[derive(Debug)]
pub struct MailDrop {
    folder: PathBuf,
    sender: Sender,
}

/// Why a URL names no place that mails can go to. The text never repeats the URL, which may hold credentials.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is not a URL.
    #[error("is not a URL; a folder is written file:///absolute/path")]
    NotAUrl,
    /// It names a way to deliver that a later version may know.
    #[error("{0}:// is not built into this version; a folder is written file:///absolute/path")]
    NotBuiltIn(&'static str),
    /// Nothing is known of its scheme.
    #[error("has an unknown scheme; a folder is written file:///absolute/path")]
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
}

impl MailDrop {
    /// Opens the folder that a URL names, and creates it if it is missing.
    pub fn open(url: &str, sender: Sender) -> Result<Self, OpenError> {
        let url = Url::parse(url).map_err(|_| OpenError::NotAUrl)?;
        match url.scheme() {
            "file" if url.query().is_none() && url.fragment().is_none() => {
                let path = url.to_file_path().map_err(|()| OpenError::NotAPath)?;
                Self::in_folder(&path, sender)
            }
            "file" => Err(OpenError::NotAPath),
            "smtp" => Err(OpenError::NotBuiltIn("smtp")),
            "smtps" => Err(OpenError::NotBuiltIn("smtps")),
            _ => Err(OpenError::UnknownScheme),
        }
    }

    /// Opens a folder, and creates it if it is missing.
    pub fn in_folder(path: &Path, sender: Sender) -> Result<Self, OpenError> {
        let folder = make_folder(path).map_err(|source| OpenError::Folder { path: path.to_owned(), source })?;
        Ok(Self { folder, sender })
    }
}

/// The absolute path of a folder, which is created durably and for nobody else if it is missing.
fn make_folder(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
    for parent in missing.into_iter().filter_map(Path::parent) {
        sync(parent)?;
    }
    Ok(path)
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Writes a file that is seen whole or not at all, even after a power failure.
fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    // A temporary file is readable for its owner alone, and removed when something fails.
    let mut file = tempfile::Builder::new().prefix(".").suffix(".tmp").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(folder.join(name))?;
    sync(folder)
}

#[async_trait]
impl Notifier for MailDrop {
    async fn notify(&self, notification: &Notification) -> Result<(), NotifyError> {
        let name = format!("{}.eml", message_key(notification)?);
        let mail = render(&self.sender, notification)?.formatted();
        let folder = self.folder.clone();
        match tokio::task::spawn_blocking(move || write(&folder, &name, &mail)).await {
            Ok(written) => written.map_err(|error| NotifyError::Transient(error.into())),
            Err(error) => Err(NotifyError::Transient(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> OpenError {
        MailDrop::open(url, "orders@localhost".parse().unwrap()).unwrap_err()
    }

    #[test]
    fn ways_to_deliver_of_later_versions_are_named() {
        for scheme in ["smtp", "smtps"] {
            let error = refusal(&format!("{scheme}://user:secret@relay.example.com:587"));
            assert!(error.to_string().starts_with(&format!("{scheme}:// is not built into this version")), "{error}");
        }
    }

    #[test]
    fn other_urls_are_refused() {
        assert!(matches!(refusal("/var/spool/mail"), OpenError::NotAUrl));
        assert!(matches!(refusal("http://example.com"), OpenError::UnknownScheme));
        for not_a_path in ["file://host/path", "file:///path?a=b", "file:///path#fragment"] {
            assert!(matches!(refusal(not_a_path), OpenError::NotAPath), "{not_a_path}");
        }
    }

    #[test]
    fn no_refusal_repeats_credentials() {
        for url in ["smtp://user:secret@relay", "user:secret@relay", "secret", "ftp://user:secret@relay", "smtp://user:secret@[bad"] {
            let error = refusal(url);
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
    }
}
