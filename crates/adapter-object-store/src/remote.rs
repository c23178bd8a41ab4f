//! Remote stores: Amazon S3 and compatible ones, Google Cloud Storage, Azure Blob Storage.

use std::{error::Error as _, str::FromStr, sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, Error, ObjectStore, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey, Checksum},
    azure::{AzureConfigKey, MicrosoftAzureBuilder},
    gcp::GoogleCloudStorageBuilder,
};
use url::Url;

use crate::{
    TimeLimits,
    bucket_url::BucketUrl,
    failure::one_line,
    open_error::{OpenError, wrong},
};

/// Returns the time limits of one attempt. `bucket` limits a request with its retries, and the pauses of a body.
/// A whole body has no limit, because the reader of a document may be slow.
fn timeouts(connect: &str) -> [(&str, Option<&str>); 2] {
    [("connect_timeout", Some(connect)), ("timeout", Some("1 day"))]
}

/// Prefixes of the variables of each store.
const AWS: &str = "AWS_";
const GOOGLE: &str = "GOOGLE_";
const AZURE: &str = "AZURE_";

/// The variable of the checksum, which only the URL configures.
const AWS_CHECKSUM: &str = "AWS_CHECKSUM_ALGORITHM";

/// Prefixes of the variables of encryption, which do not count if the URL configures it.
const AWS_ENCRYPTION: [&str; 2] = ["AWS_SERVER_SIDE_ENCRYPTION", "AWS_SSE_"];

/// Parts of the names of variables that have credentials.
const CREDENTIALS: [&str; 11] = [
    "ACCESS_KEY",
    "ACCOUNT_KEY",
    "MASTER_KEY",
    "SAS_",
    "TOKEN",
    "CREDENTIALS",
    "SERVICE_ACCOUNT",
    "CLIENT_ID",
    "AZURE_CLI",
    "EMULATOR",
    "SKIP_SIGNATURE",
];

/// Returns five attempts. If the store refuses connections, they take at most 1.1 seconds. So a
/// client has its answer within 3 seconds, even if a second request fails in the same way. A body
/// that breaks off an hour after its request is not continued.
fn retries() -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_millis(400),
        base: 2.0,
    };
    RetryConfig { backoff, max_retries: 4, retry_timeout: Duration::from_secs(3_600) }
}

const ENDPOINT: &str =
    "the endpoint must be of the form https://host or http://host:port, without credentials";

/// Environment variables.
pub(crate) type Variables = [(String, String)];

/// Opens the bucket of a URL. Returns it with a hint for the errors when it does not answer.
pub(crate) fn open(
    url: &Url,
    variables: &Variables,
    limits: TimeLimits,
) -> Result<(Arc<dyn ObjectStore>, &'static str), OpenError> {
    let connect = &format!("{} ms", limits.connect.as_millis());
    let (bucket, prefix) = match url.scheme() {
        "s3" => (s3(url, variables, connect), AWS),
        "gs" => (google(url, variables, connect), GOOGLE),
        "az" => (azure(url, variables, connect), AZURE),
        "file" => return Err(wrong("must be of the form file:///absolute/path")),
        _ => return Err(wrong("has an unknown scheme; known are file, s3, gs and az")),
    };
    let has_credentials = variables.iter().any(|(name, value)| {
        name.starts_with(prefix)
            && CREDENTIALS.iter().any(|part| name.contains(part))
            && !["", "false"].contains(&value.trim())
    });
    let no_credentials = "; no credentials are set, so the machine's metadata service is asked";
    Ok((bucket?, if has_credentials { "" } else { no_credentials }))
}

/// Returns what identifies the bucket of a URL that can be opened: its name, its prefix, and the endpoint or
/// account if one is set that the provider does not use anyway. How objects are stored or addressed, such as
/// their encryption, does not count.
pub(crate) fn identity(url: &Url, variables: &Variables) -> String {
    let parameter = url.query_pairs().find(|(name, _)| name == "endpoint");
    let parameter = parameter.map(|(_, endpoint)| endpoint.into_owned());
    let server = match url.scheme() {
        "s3" => {
            let builder = configured(AmazonS3Builder::with_config, AWS, variables, []);
            let value = |key| builder.get_config_value(&key);
            parameter
                .or_else(|| value(AmazonS3ConfigKey::S3Endpoint))
                .or_else(|| value(AmazonS3ConfigKey::Endpoint))
        }
        "az" => {
            let builder = configured(MicrosoftAzureBuilder::with_config, AZURE, variables, []);
            let value = |key| builder.get_config_value(&key);
            parameter
                .or_else(|| value(AzureConfigKey::Endpoint))
                .or_else(|| value(AzureConfigKey::AccountName))
        }
        _ => parameter,
    };
    let server = server.and_then(|server| server_name(url.scheme(), &server));
    let server = server.map(|server| format!(" at {server}"));
    let (scheme, bucket) = (url.scheme(), url.host_str().unwrap_or_default());
    let prefix = url.path().trim_end_matches('/');
    format!("{scheme}://{bucket}{prefix}{}", server.unwrap_or_default())
}

/// Returns one name for all spellings of an endpoint or account; `None` for that of the provider itself, where names of
/// buckets are unique.
fn server_name(scheme: &str, server: &str) -> Option<String> {
    // The parser writes the host in lower case, and leaves out the port of the scheme.
    let Ok(endpoint) = Url::parse(server) else { return Some(server.to_ascii_lowercase()) };
    let host = endpoint.host_str().unwrap_or_default();
    match scheme {
        "s3" if host.ends_with(".amazonaws.com") && !host.contains("us-gov") => None,
        "gs" if host == "storage.googleapis.com" => None,
        _ => Some(match host.strip_suffix(".blob.core.windows.net") {
            Some(account) if scheme == "az" => account.to_owned(),
            _ => endpoint.as_str().trim_end_matches('/').to_owned(),
        }),
    }
}

/// Opens a bucket of S3. Each request has the SHA-256 of its body in its signature, and in a header
/// that the store keeps with the object.
fn s3(url: &Url, variables: &Variables, connect: &str) -> Result<Arc<dyn ObjectStore>, OpenError> {
    use AmazonS3ConfigKey as Key;
    const PARAMETERS: [&str; 6] =
        ["endpoint", "region", "path_style", "checksum", "sse", "sse_kms_key"];
    let location = BucketUrl::parse(url, &PARAMETERS)?;
    let path_style = location.is_first("path_style", ["true", "false"])?;
    let checksum = location.is_first("checksum", ["sha256", "none"])?;
    let encryption = encryption(&location)?;
    let from_url = [
        ("aws_endpoint_url_s3", location.parameter("endpoint")),
        ("aws_region", location.parameter("region")),
        ("aws_server_side_encryption", encryption),
        ("aws_sse_kms_key_id", location.parameter("sse_kms_key")),
    ];
    let set = from_url.into_iter().chain(timeouts(connect));
    let is_replaced = |name: &str| {
        encryption.is_some() && AWS_ENCRYPTION.iter().any(|prefix| name.starts_with(prefix))
    };
    let kept: Vec<_> = variables.iter().filter(|(name, _)| !is_replaced(name)).cloned().collect();
    let mut builder = configured(AmazonS3Builder::with_config, AWS, &kept, set);

    let value = |key| builder.get_config_value(&key);
    if let Some(endpoint) = value(Key::S3Endpoint).or_else(|| value(Key::Endpoint)) {
        let mut endpoint = http_url(&endpoint)?;
        if !path_style {
            // `object_store` expects the endpoint of the bucket; operators configure that of the
            // store.
            let host = format!("{}.{}", location.bucket, endpoint.host_str().unwrap_or_default());
            endpoint.set_host(Some(&host)).map_err(|_| wrong(ENDPOINT))?;
        }
        builder = builder
            .with_allow_http(endpoint.scheme() == "http")
            .with_config(Key::S3Endpoint, endpoint.as_str().trim_end_matches('/'));
    }
    if checksum {
        builder = builder.with_checksum_algorithm(Checksum::SHA256);
    }
    let bucket = builder
        .with_bucket_name(&location.bucket)
        .with_virtual_hosted_style_request(!path_style)
        .with_unsigned_payload(false)
        // Some stores do not support bulk deletes, and the service deletes one object at a time.
        .with_disable_bulk_delete(true)
        .with_retry(retries())
        .build();
    Ok(location.apply_prefix(bucket.map_err(|error| settings_error(&error, variables))?))
}

/// Returns how the URL asks S3 to encrypt objects: with its own keys, or with one of the key management
/// service. Without a key, that service uses the one that it has for S3.
fn encryption(location: &BucketUrl) -> Result<Option<&'static str>, OpenError> {
    let key = location.parameter("sse_kms_key");
    if key.is_some_and(|key| key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic())) {
        return Err(wrong("the parameter sse_kms_key must be the identifier or the ARN of a key"));
    }
    match (location.parameter("sse"), key) {
        (Some("aws:kms"), _) => Ok(Some("aws:kms")),
        (_, Some(_)) => Err(wrong("the parameter sse_kms_key needs sse=aws:kms")),
        (Some("aes256"), None) => Ok(Some("AES256")),
        (Some(_), None) => Err(wrong("the parameter sse must be aes256 or aws:kms")),
        (None, None) => Ok(None),
    }
}

/// Opens a bucket of Google Cloud Storage.
fn google(
    url: &Url,
    variables: &Variables,
    connect: &str,
) -> Result<Arc<dyn ObjectStore>, OpenError> {
    let location = BucketUrl::parse(url, &["endpoint"])?;
    let endpoint = location.parameter("endpoint").map(http_url).transpose()?;
    let endpoint = endpoint.as_ref().map(|endpoint| endpoint.as_str().trim_end_matches('/'));
    let set = [("google_base_url", endpoint)].into_iter().chain(timeouts(connect));
    let builder = configured(GoogleCloudStorageBuilder::with_config, GOOGLE, variables, set);
    let bucket = builder.with_bucket_name(&location.bucket).with_retry(retries()).build();
    Ok(location.apply_prefix(bucket.map_err(|error| settings_error(&error, variables))?))
}

/// Opens a container of Azure Blob Storage.
fn azure(
    url: &Url,
    variables: &Variables,
    connect: &str,
) -> Result<Arc<dyn ObjectStore>, OpenError> {
    use AzureConfigKey as Key;
    let location = BucketUrl::parse(url, &["endpoint"])?;
    let endpoint = location.parameter("endpoint");
    let set = [("azure_endpoint", endpoint)].into_iter().chain(timeouts(connect));
    let mut builder = configured(MicrosoftAzureBuilder::with_config, AZURE, variables, set);

    let value = |key| builder.get_config_value(&key);
    if let Some(endpoint) = value(Key::Endpoint) {
        let endpoint = http_url(&endpoint)?;
        builder = builder
            .with_allow_http(endpoint.scheme() == "http")
            .with_endpoint(endpoint.as_str().trim_end_matches('/').to_owned());
    }
    let container = builder.with_container_name(&location.bucket).with_retry(retries()).build();
    Ok(location.apply_prefix(container.map_err(|error| settings_error(&error, variables))?))
}

/// Returns a builder with the settings of a store: those among the variables, of which a blank one
/// counts as unset, and then others. The last setting of a key counts.
fn configured<'a, Builder: Default, Key: FromStr>(
    with: impl Fn(Builder, Key, &'a str) -> Builder,
    prefix: &str,
    variables: &'a Variables,
    others: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
) -> Builder {
    let variables = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let set = variables.filter(|(name, value)| {
        name.starts_with(prefix) && !value.trim().is_empty() && *name != AWS_CHECKSUM
    });
    let others = others.into_iter().filter_map(|(name, value)| Some((name, value?)));
    set.chain(others).fold(Builder::default(), |builder, (name, value)| {
        match name.to_ascii_lowercase().parse() {
            Ok(key) => with(builder, key, value),
            Err(_) => builder,
        }
    })
}

fn http_url(endpoint: &str) -> Result<Url, OpenError> {
    let is_origin = |url: &Url| {
        url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
            && ["http", "https"].contains(&url.scheme())
    };
    Url::parse(endpoint).ok().filter(is_origin).ok_or_else(|| wrong(ENDPOINT))
}

/// Describes unusable settings by their names, because their values may be secret.
fn settings_error(error: &Error, variables: &Variables) -> OpenError {
    let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    if cause.contains("decode") {
        // The error may quote the secret that it could not decode.
        return OpenError("the credentials cannot be decoded".to_owned());
    }
    let secrets = variables.iter().filter(|(name, value)| {
        [AWS, GOOGLE, AZURE].iter().any(|prefix| name.starts_with(prefix)) && value.len() >= 4
    });
    OpenError(one_line(&secrets.fold(cause, |cause, (name, value)| cause.replace(value, name))))
}
