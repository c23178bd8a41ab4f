use std::{
    io,
    path::{Path, PathBuf},
};

use rustls::crypto::ring;
use url::Url;

use crate::{ObjectBlobStore, remote};

/// A URL does not name a usable store. The text never repeats the URL or a variable, which may
/// contain credentials.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The text is not a URL.
    #[error("is not a URL; write file:///absolute/path for a folder")]
    NotAUrl,
    /// The scheme is unknown.
    #[error("has an unknown scheme; known are file, s3, gs and az")]
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
    /// The URL contains a user or a password.
    #[error("must not contain credentials; set them as environment variables")]
    Credentials,
    /// The URL names a remote store without a bucket or container.
    #[error("names no bucket; write s3://bucket/prefix")]
    NoBucket,
    /// The URL has more than a bucket, a prefix and parameters.
    #[error("must be of the form s3://bucket/prefix?parameter=value")]
    NotABucket,
    /// A parameter is unknown or repeated.
    #[error("has an unknown or repeated parameter; known are {}", .0.join(", "))]
    Parameters(&'static [&'static str]),
    /// A parameter has an invalid value.
    #[error("the parameter {name} must be {} or {}", values[0], values[1])]
    Parameter {
        /// Its name.
        name: &'static str,
        /// Its possible values.
        values: [&'static str; 2],
    },
    /// The endpoint from the URL or a variable is not a web address.
    #[error(
        "the endpoint must be of the form https://host or http://host:port, without credentials"
    )]
    Endpoint,
    /// The store cannot be used with these parameters and variables.
    #[error("{0}")]
    Settings(String),
}

impl ObjectBlobStore {
    /// Opens the store that a URL names, with credentials and other settings from environment
    /// variables. Creates a missing folder. Does not connect to a remote store.
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
        // TLS uses the provider of the process. An error means that one is installed already; it is
        // the same one, because no other is linked.
        let _ = ring::default_provider().install_default();
        let variables: Vec<_> = variables.into_iter().collect();
        let (objects, hint) = open(&url, &variables)?;
        Ok(Self::remote(objects, hint))
    }

    /// Returns the folder that a URL names; `None` if it names a remote store or no store.
    pub fn folder(url: &str) -> Option<PathBuf> {
        let url = Url::parse(url).ok().filter(|url| url.scheme() == "file")?;
        url.to_file_path().ok()
    }

    /// Opens a folder on local disk and creates it if it is missing.
    pub fn in_folder(path: &Path) -> Result<Self, OpenError> {
        Self::on_disk(path).map_err(|source| OpenError::Folder { path: path.to_owned(), source })
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    fn open_error(url: &str) -> OpenError {
        ObjectBlobStore::open(url, []).err().unwrap()
    }

    #[test]
    fn unusable_urls_are_rejected() {
        assert!(matches!(open_error(""), OpenError::NotAUrl));
        assert!(matches!(open_error("/var/lib/documents"), OpenError::NotAUrl));
        assert!(matches!(open_error("ftp://host/path"), OpenError::UnknownScheme));
        for not_a_path in ["file://host/path", "file:///path?fsync=no", "file:///path#fragment"] {
            assert!(matches!(open_error(not_a_path), OpenError::NotAPath), "{not_a_path}");
        }
        for no_bucket in ["s3://", "s3:///prefix", "s3:bucket", "gs://?endpoint=http://h", "az:///"]
        {
            assert!(matches!(open_error(no_bucket), OpenError::NoBucket), "{no_bucket}");
        }
        for not_a_bucket in [
            "s3://bucket:9000/prefix",
            "s3://bucket/prefix#fragment",
            "gs://bucket/a//b",
            "az://container/a%2F..%2Fb",
        ] {
            assert!(matches!(open_error(not_a_bucket), OpenError::NotABucket), "{not_a_bucket}");
        }
    }

    #[test]
    fn unknown_or_repeated_parameters_are_rejected() {
        for url in [
            "s3://bucket?secret=s",
            "s3://bucket?region=a&region=b",
            "gs://bucket?region=eu",
            "az://container?path_style=true",
        ] {
            assert!(matches!(open_error(url), OpenError::Parameters(_)), "{url}");
        }
        assert_eq!(
            open_error("s3://bucket?x=1").to_string(),
            "has an unknown or repeated parameter; known are endpoint, region, path_style, checksum"
        );
        assert_eq!(
            open_error("s3://bucket?path_style=1").to_string(),
            "the parameter path_style must be true or false"
        );
        assert_eq!(
            open_error("s3://bucket?checksum=md5").to_string(),
            "the parameter checksum must be sha256 or none"
        );
    }

    #[test]
    fn endpoint_must_be_a_web_address() {
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
                        open_error(&format!("{scheme}://bucket?endpoint={endpoint}")),
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
    fn errors_never_repeat_credentials() {
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
            let error = open_error(url);
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
    }

    #[test]
    fn settings_errors_hide_values() {
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
