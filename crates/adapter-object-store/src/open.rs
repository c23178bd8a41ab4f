use std::{path::Path, sync::Arc};

use rustls::crypto::ring;
use url::Url;

use crate::{
    DocumentStore, OpenError, TimeLimits, bucket::Bucket, disk::Disk, open_error::wrong, remote,
};

const NO_URL: &str = "is not a URL; write file:///absolute/path for a folder";

/// Opens the remote store that a URL names, with credentials and other settings from environment
/// variables. Does not connect.
pub fn open(
    url: &str,
    variables: impl IntoIterator<Item = (String, String)>,
    limits: TimeLimits,
) -> Result<Arc<dyn DocumentStore>, OpenError> {
    let url = Url::parse(url).map_err(|_| wrong(NO_URL))?;
    // TLS uses the provider of the process. An error means that one is installed already; it is the
    // same one, because no other is linked.
    let _ = ring::default_provider().install_default();
    let (objects, hint) = remote::open(&url, &variables.into_iter().collect::<Vec<_>>(), limits)?;
    Ok(Arc::new(Bucket::new(objects, hint, limits)))
}

/// Returns what identifies the remote store that a URL names: the same text in each instance of a service. A
/// copied bucket has another. Has no credentials. Does not connect.
pub fn identity(
    url: &str,
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<String, OpenError> {
    let variables: Vec<_> = variables.into_iter().collect();
    let url = Url::parse(url).map_err(|_| wrong(NO_URL))?;
    let _ = ring::default_provider().install_default();
    remote::open(&url, &variables, TimeLimits::default())?;
    Ok(remote::identity(&url, &variables))
}

/// Returns the store in a folder on local disk.
pub fn in_folder(path: &Path, limits: TimeLimits) -> Arc<dyn DocumentStore> {
    Arc::new(Disk::new(path, limits))
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    fn open_error(url: &str) -> OpenError {
        open(url, [], TimeLimits::default()).err().unwrap()
    }

    #[test]
    fn wrong_urls_are_rejected_with_what_to_write() {
        let parameters = "has an unknown or repeated parameter; known are ";
        for (urls, text) in [
            ("|/var/lib/documents", "is not a URL; write file:///absolute/path for a folder"),
            ("ftp://host/path", "has an unknown scheme; known are file, s3, gs and az"),
            (
                "file://host/path|file:///path?fsync=no|file:///path#fragment",
                "must be of the form file:///absolute/path",
            ),
            (
                "s3://|s3:///prefix|s3:bucket|gs://?endpoint=http://h|az:///",
                "names no bucket; write s3://bucket/prefix",
            ),
            (
                "s3://bucket:9000/prefix|s3://bucket/prefix#fragment|gs://bucket/a//b|\
                 az://container/a%2F..%2Fb",
                "must be of the form s3://bucket/prefix?parameter=value",
            ),
            ("gs://bucket?region=eu|az://container?path_style=true", parameters),
            (
                "s3://bucket?secret=s|s3://bucket?region=a&region=b",
                &format!("{parameters}endpoint, region, path_style, checksum, sse, sse_kms_key"),
            ),
            ("s3://bucket?path_style=1", "the parameter path_style must be true or false"),
            ("s3://bucket?checksum=md5", "the parameter checksum must be sha256 or none"),
            ("s3://bucket?sse=AES|s3://bucket?sse=", "the parameter sse must be aes256 or aws:kms"),
            (
                "s3://bucket?sse_kms_key=k|s3://bucket?sse=aes256&sse_kms_key=k",
                "the parameter sse_kms_key needs sse=aws:kms",
            ),
            (
                "s3://bucket?sse=aws:kms&sse_kms_key=|s3://bucket?sse=aws:kms&sse_kms_key=a%0Ab",
                "the parameter sse_kms_key must be the identifier or the ARN of a key",
            ),
            ("gs://bucket?sse=aes256|az://bucket?sse=aes256", parameters),
        ] {
            for url in urls.split('|') {
                let error = open_error(url).to_string();
                assert!(error.starts_with(text), "{url}: {error}");
            }
        }
    }

    #[test]
    fn bucket_prefix_and_server_identify_a_store() {
        let variables = |pairs: &[(&str, &str)]| {
            let owned = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            owned.collect::<Vec<_>>()
        };
        let (endpoint, secret) =
            (("AWS_ENDPOINT_URL", "http://minio:9000/"), ("AWS_SECRET_ACCESS_KEY", "s3cret"));
        let account =
            [("AZURE_STORAGE_ACCOUNT_NAME", "acme"), ("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")];
        for (url, set, expected) in [
            ("s3://one/orders/?sse=aes256&checksum=none", &[][..], "s3://one/orders"),
            ("s3://one/orders", &[("AWS_ACCESS_KEY_ID", "id"), secret], "s3://one/orders"),
            ("s3://one", &[endpoint], "s3://one at http://minio:9000"),
            ("s3://one?endpoint=http://other:9000", &[endpoint], "s3://one at http://other:9000"),
            ("gs://one/a/b", &[], "gs://one/a/b"),
            ("az://one", &account, "az://one at acme"),
            // Other spellings.
            (
                "s3://one?endpoint=http://MinIO:9000//&path_style=true",
                &[],
                "s3://one at http://minio:9000",
            ),
            (
                "s3://one?endpoint=https://S3.example.com:443/",
                &[],
                "s3://one at https://s3.example.com",
            ),
            (
                "s3://one?endpoint=https://s3.example.com:444",
                &[],
                "s3://one at https://s3.example.com:444",
            ),
            ("s3://one?endpoint=https://s3.eu-central-1.amazonaws.com", &[], "s3://one"),
            (
                "s3://one?endpoint=https://s3.us-gov-west-1.amazonaws.com",
                &[],
                "s3://one at https://s3.us-gov-west-1.amazonaws.com",
            ),
            ("gs://one?endpoint=https://storage.googleapis.com/", &[], "gs://one"),
            ("az://one?endpoint=https://Acme.blob.core.windows.net", &account, "az://one at acme"),
        ] {
            assert_eq!(identity(url, variables(set)).unwrap(), expected);
        }
        assert!(identity("s3://key:secret@bucket", []).is_err());
    }

    #[test]
    fn endpoint_must_be_a_web_address() {
        let text = "the endpoint must be of the form https://host or http://host:port, without \
                    credentials";
        for endpoint in
            "localhost:9000 ftp://host http://key:secret@host https://host?secret https://"
                .split(' ')
        {
            for scheme in ["s3", "gs", "az"] {
                let url = format!("{scheme}://bucket?endpoint={endpoint}");
                assert_eq!(open_error(&url).to_string(), text, "{url}");
            }
        }
        let variables = [("AWS_ENDPOINT_URL".to_owned(), "host:9000".to_owned())];
        let error = open("s3://bucket", variables, TimeLimits::default()).err().unwrap();
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn errors_never_repeat_credentials() {
        for url in "s3://key:secret@bucket gs://secret@bucket az://:secret@container \
             key:secret@bucket secret ftp://key:secret@host file://key:secret@host/path \
             s3://key:secret@[bad s3://bucket?secret=secret s3://bucket?path_style=secret \
             s3://bucket?endpoint=http://key:secret@host \
             az://container?endpoint=https://host?sig=secret"
            .split(' ')
        {
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
            let variables = [(name.to_owned(), value.to_owned())];
            let error = open(url, variables, TimeLimits::default()).err().unwrap();
            assert!(error.to_string().contains(expected), "{error}");
            assert!(
                error.source().is_none() && !format!("{error} {error:?}").contains("the-secret"),
                "{error:?}"
            );
        }
    }
}
