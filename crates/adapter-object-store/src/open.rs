use std::{
    io,
    path::{Path, PathBuf},
};

use url::Url;

use crate::ObjectBlobStore;

/// Why a URL names no store that can be used. The text never repeats the URL, which may hold credentials.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is not a URL.
    #[error("is not a URL; a folder is written file:///absolute/path")]
    NotAUrl,
    /// It names a kind of store that a later version may know.
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

impl ObjectBlobStore {
    /// Opens the store that a URL names. A folder is created if it is missing.
    pub fn open(url: &str) -> Result<Self, OpenError> {
        let url = Url::parse(url).map_err(|_| OpenError::NotAUrl)?;
        match url.scheme() {
            "file" if url.query().is_none() && url.fragment().is_none() => Self::in_folder(&url.to_file_path().map_err(|()| OpenError::NotAPath)?),
            "file" => Err(OpenError::NotAPath),
            "s3" => Err(OpenError::NotBuiltIn("s3")),
            "gs" => Err(OpenError::NotBuiltIn("gs")),
            "az" => Err(OpenError::NotBuiltIn("az")),
            _ => Err(OpenError::UnknownScheme),
        }
    }

    /// Opens a folder on local disk, which is created if it is missing.
    pub fn in_folder(path: &Path) -> Result<Self, OpenError> {
        Self::on_disk(path).map_err(|source| OpenError::Folder { path: path.to_owned(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> OpenError {
        ObjectBlobStore::open(url).err().unwrap()
    }

    #[test]
    fn stores_of_later_versions_are_named() {
        for scheme in ["s3", "gs", "az"] {
            let error = refusal(&format!("{scheme}://key:secret@bucket/prefix"));
            assert!(error.to_string().starts_with(&format!("{scheme}:// is not built into this version")), "{error}");
        }
    }

    #[test]
    fn other_urls_are_refused() {
        assert!(matches!(refusal(""), OpenError::NotAUrl));
        assert!(matches!(refusal("/var/lib/documents"), OpenError::NotAUrl));
        assert!(matches!(refusal("ftp://host/path"), OpenError::UnknownScheme));
        for not_a_path in ["file://host/path", "file:///path?fsync=no", "file:///path#fragment"] {
            assert!(matches!(refusal(not_a_path), OpenError::NotAPath), "{not_a_path}");
        }
    }

    #[test]
    fn no_refusal_repeats_credentials() {
        for url in ["s3://key:secret@bucket", "key:secret@bucket", "secret", "ftp://key:secret@host", "file://key:secret@host/path", "s3://key:secret@[bad"] {
            let error = refusal(url);
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
    }
}
