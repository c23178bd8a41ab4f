use std::{
    io,
    path::{Path, PathBuf},
};

use rustls::crypto::ring;
use url::Url;

use crate::{ObjectBlobStore, remote};

/// Why a URL names no store that can be used. The text never repeats the URL or a variable, which
/// may hold credentials.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is not a URL.
    #[error("is not a URL; a folder is written file:///absolute/path")]
    NotAUrl,
    /// Nothing is known of its scheme.
    #[error("has an unknown scheme; known are file, s3, gs and az")]
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
    /// It holds a user or a password.
    #[error("must not hold credentials; they are taken from the environment")]
    Credentials,
    /// It names a remote store and no bucket or container there.
    #[error("names no bucket; one is written s3://bucket/prefix")]
    NoBucket,
    /// It is more than a bucket, a prefix and parameters.
    #[error("must be of the form s3://bucket/prefix?parameter=value")]
    NotABucket,
    /// A parameter is unknown, or there twice.
    #[error("has an unknown or repeated parameter; known are {}", .0.join(", "))]
    Parameters(&'static [&'static str]),
    /// A parameter has a value that it cannot have.
    #[error("the parameter {name} must be {} or {}", values[0], values[1])]
    Parameter {
        /// Which one.
        name: &'static str,
        /// The values that it can have.
        values: [&'static str; 2],
    },
    /// The address of the store, which the URL or a variable gives, is none.
    #[error(
        "the endpoint must be of the form https://host or http://host:port, without credentials"
    )]
    Endpoint,
    /// The store cannot be used with these parameters and variables.
    #[error("{0}")]
    Settings(String),
}

impl ObjectBlobStore {
    /// Opens the store that a URL names, with what it needs beside that from environment variables.
    /// A folder is created if it is missing. Whether a remote store can be used is for a check to
    /// say.
    pub fn open(
        url: &str,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, OpenError> {
        let url = Url::parse(url).map_err(|_| OpenError::NotAUrl)?;
        let open = match url.scheme() {
            "file" if url.query().is_none() && url.fragment().is_none() => {
                return Self::in_folder(&url.to_file_path().map_err(|()| OpenError::NotAPath)?);
            }
            "file" => return Err(OpenError::NotAPath),
            "s3" => remote::s3,
            "gs" => remote::google,
            "az" => remote::azure,
            _ => return Err(OpenError::UnknownScheme),
        };
        // TLS takes the process's provider. Whoever installed one before this has made the same
        // choice: no other is linked in.
        let _ = ring::default_provider().install_default();
        let variables: Vec<_> = variables.into_iter().collect();
        let (objects, reason) = open(&url, &variables)?;
        Ok(Self::remote(objects, reason))
    }

    /// Opens a folder on local disk, which is created if it is missing.
    pub fn in_folder(path: &Path) -> Result<Self, OpenError> {
        Self::on_disk(path).map_err(|source| OpenError::Folder { path: path.to_owned(), source })
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    fn refusal(url: &str) -> OpenError {
        ObjectBlobStore::open(url, []).err().unwrap()
    }

    #[test]
    fn a_url_names_one_known_store() {
        assert!(matches!(refusal(""), OpenError::NotAUrl));
        assert!(matches!(refusal("/var/lib/documents"), OpenError::NotAUrl));
        assert!(matches!(refusal("ftp://host/path"), OpenError::UnknownScheme));
        for not_a_path in ["file://host/path", "file:///path?fsync=no", "file:///path#fragment"] {
            assert!(matches!(refusal(not_a_path), OpenError::NotAPath), "{not_a_path}");
        }
        for no_bucket in ["s3://", "s3:///prefix", "s3:bucket", "gs://?endpoint=http://h", "az:///"]
        {
            assert!(matches!(refusal(no_bucket), OpenError::NoBucket), "{no_bucket}");
        }
        for not_a_bucket in [
            "s3://bucket:9000/prefix",
            "s3://bucket/prefix#fragment",
            "gs://bucket/a//b",
            "az://container/a%2F..%2Fb",
        ] {
            assert!(matches!(refusal(not_a_bucket), OpenError::NotABucket), "{not_a_bucket}");
        }
    }

    #[test]
    fn a_parameter_is_known_and_there_once() {
        for url in [
            "s3://bucket?secret=s",
            "s3://bucket?region=a&region=b",
            "gs://bucket?region=eu",
            "az://container?path_style=true",
        ] {
            assert!(matches!(refusal(url), OpenError::Parameters(_)), "{url}");
        }
        assert_eq!(
            refusal("s3://bucket?x=1").to_string(),
            "has an unknown or repeated parameter; known are endpoint, region, path_style, checksum"
        );
        assert_eq!(
            refusal("s3://bucket?path_style=1").to_string(),
            "the parameter path_style must be true or false"
        );
        assert_eq!(
            refusal("s3://bucket?checksum=md5").to_string(),
            "the parameter checksum must be sha256 or none"
        );
    }

    #[test]
    fn an_endpoint_is_a_web_address_whoever_gives_it() {
        for endpoint in [
            "localhost:9000",
            "ftp://host",
            "http://key:secret@host",
            "https://host?secret",
            "https://",
        ] {
            for scheme in ["s3", "gs", "az"] {
                assert!(
                    matches!(
                        refusal(&format!("{scheme}://bucket?endpoint={endpoint}")),
                        OpenError::Endpoint
                    ),
                    "{scheme} {endpoint}"
                );
            }
        }
        let variables = [("AWS_ENDPOINT_URL".to_owned(), "host:9000".to_owned())];
        assert!(matches!(
            ObjectBlobStore::open("s3://bucket", variables),
            Err(OpenError::Endpoint)
        ));
    }

    #[test]
    fn no_refusal_repeats_credentials() {
        let urls = [
            "s3://key:secret@bucket",
            "gs://secret@bucket",
            "az://:secret@container",
            "key:secret@bucket",
            "secret",
            "ftp://key:secret@host",
            "file://key:secret@host/path",
            "s3://key:secret@[bad",
            "s3://bucket?secret=secret",
            "s3://bucket?path_style=secret",
            "s3://bucket?endpoint=http://key:secret@host",
            "az://container?endpoint=https://host?sig=secret",
        ];
        for url in urls {
            let error = refusal(url);
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
    }

    #[test]
    fn settings_that_cannot_be_used_are_named_without_their_values() {
        let cases = [
            ("s3://bucket", "AWS_SECRET_ACCESS_KEY", "the-secret", "Missing AccessKeyId"),
            (
                "s3://bucket",
                "AWS_SKIP_SIGNATURE",
                "the-secret",
                "failed to parse \"AWS_SKIP_SIGNATURE\" as boolean",
            ),
            (
                "gs://bucket",
                "GOOGLE_SERVICE_ACCOUNT_KEY",
                "{\"private_key\": the-secret",
                "the credentials cannot be decoded",
            ),
            (
                "gs://bucket",
                "GOOGLE_APPLICATION_CREDENTIALS",
                "/the-secret/key.json",
                "GOOGLE_APPLICATION_CREDENTIALS",
            ),
            (
                "az://container",
                "AZURE_STORAGE_ACCOUNT_KEY",
                "the-secret",
                "Account must be specified",
            ),
        ];
        for (url, name, value, expected) in cases {
            let error =
                ObjectBlobStore::open(url, [(name.to_owned(), value.to_owned())]).err().unwrap();
            assert!(error.to_string().contains(expected), "{error}");
            assert!(
                error.source().is_none() && !format!("{error} {error:?}").contains("the-secret"),
                "{error:?}"
            );
        }
    }
}
