//! Remote stores: Amazon S3 and compatible ones, Google Cloud Storage, Azure Blob Storage.

use std::{error::Error as _, str::FromStr, sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, Error, ObjectStore, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey, Checksum},
    azure::{AzureConfigKey, MicrosoftAzureBuilder},
    gcp::{GoogleCloudStorageBuilder, GoogleConfigKey},
};
use url::Url;

use crate::{OpenError, bucket_url::BucketUrl, failure::one_line};

/// Time limits of one attempt. The limit for a request with its retries is often shorter; see
/// `bucket`.
const TIMEOUTS: [(&str, &str); 2] = [("connect_timeout", "2 seconds"), ("timeout", "60 seconds")];

/// Prefixes of the variables of each store.
const AWS: &str = "AWS_";
const GOOGLE: &str = "GOOGLE_";
const AZURE: &str = "AZURE_";

/// Returns five attempts. If the store refuses connections, they take at most 1.1 seconds. So a
/// client has its answer within 3 seconds, even if a second request fails in the same way.
fn retries() -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_millis(400),
        base: 2.0,
    };
    RetryConfig { backoff, max_retries: 4, retry_timeout: Duration::from_secs(5) }
}

/// Environment variables.
pub(crate) type Variables = [(String, String)];

/// A store, and a hint for the errors when it does not answer.
pub(crate) type Opened = (Arc<dyn ObjectStore>, &'static str);

/// Opens a bucket of S3. Each request has the SHA-256 of its body in its signature, and in a header
/// that the store keeps with the object.
pub(crate) fn s3(url: &Url, variables: &Variables) -> Result<Opened, OpenError> {
    use AmazonS3ConfigKey as Key;
    let location = BucketUrl::parse(url, &["endpoint", "region", "path_style", "checksum"])?;
    let path_style = location.choice("path_style", ["true", "false"])? == "true";
    let checksum = location.choice("checksum", ["sha256", "none"])? == "sha256";
    let from_url = [
        ("aws_endpoint_url_s3", location.parameter("endpoint")),
        ("aws_region", location.parameter("region")),
    ];
    // Only the URL configures the checksum.
    let settings =
        settings(AWS, variables, from_url).into_iter().filter(|(key, _)| *key != Key::Checksum);
    let mut builder = settings
        .fold(AmazonS3Builder::new(), |builder, (key, value)| builder.with_config(key, value));

    let value = |key| builder.get_config_value(&key);
    let hint = hint(
        [
            Key::AccessKeyId,
            Key::WebIdentityTokenFile,
            Key::ContainerCredentialsRelativeUri,
            Key::ContainerCredentialsFullUri,
        ]
        .map(value),
    );
    if let Some(endpoint) = value(Key::S3Endpoint).or_else(|| value(Key::Endpoint)) {
        let mut endpoint = http_url(&endpoint)?;
        if !path_style {
            // `object_store` expects the endpoint of the bucket; operators configure that of the
            // store.
            let host = format!("{}.{}", location.bucket, endpoint.host_str().unwrap_or_default());
            endpoint.set_host(Some(&host)).map_err(|_| OpenError::Endpoint)?;
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
    Ok((location.apply_prefix(bucket.map_err(|error| settings_error(&error, variables))?), hint))
}

/// Opens a bucket of Google Cloud Storage.
pub(crate) fn google(url: &Url, variables: &Variables) -> Result<Opened, OpenError> {
    use GoogleConfigKey as Key;
    let location = BucketUrl::parse(url, &["endpoint"])?;
    let endpoint = location.parameter("endpoint").map(http_url).transpose()?;
    let endpoint = endpoint.as_ref().map(|endpoint| endpoint.as_str().trim_end_matches('/'));
    let settings = settings(GOOGLE, variables, [("google_base_url", endpoint)]).into_iter();
    let builder = settings.fold(GoogleCloudStorageBuilder::new(), |builder, (key, value)| {
        builder.with_config(key, value)
    });

    let value = |key| builder.get_config_value(&key);
    let hint = hint(
        [
            Key::ServiceAccount,
            Key::ServiceAccountKey,
            Key::ApplicationCredentials,
            Key::BearerToken,
        ]
        .map(value),
    );
    let bucket = builder.with_bucket_name(&location.bucket).with_retry(retries()).build();
    Ok((location.apply_prefix(bucket.map_err(|error| settings_error(&error, variables))?), hint))
}

/// Opens a container of Azure Blob Storage.
pub(crate) fn azure(url: &Url, variables: &Variables) -> Result<Opened, OpenError> {
    use AzureConfigKey as Key;
    let location = BucketUrl::parse(url, &["endpoint"])?;
    let from_url = [("azure_endpoint", location.parameter("endpoint"))];
    let settings = settings(AZURE, variables, from_url).into_iter();
    let mut builder = settings.fold(MicrosoftAzureBuilder::new(), |builder, (key, value)| {
        builder.with_config(key, value)
    });

    let value = |key| builder.get_config_value(&key);
    let hint = hint(
        [
            Key::AccessKey,
            Key::SasKey,
            Key::Token,
            Key::ClientId,
            Key::UseAzureCli,
            Key::UseEmulator,
            Key::SkipSignature,
        ]
        .map(value),
    );
    if let Some(endpoint) = value(Key::Endpoint) {
        let endpoint = http_url(&endpoint)?;
        builder = builder
            .with_allow_http(endpoint.scheme() == "http")
            .with_endpoint(endpoint.as_str().trim_end_matches('/').to_owned());
    }
    let container = builder.with_container_name(&location.bucket).with_retry(retries()).build();
    Ok((location.apply_prefix(container.map_err(|error| settings_error(&error, variables))?), hint))
}

/// Returns the settings of a store: those among the variables, of which a blank one counts as
/// unset, those of the URL, and the time limits. The last setting of a key counts.
fn settings<'a, Key: FromStr>(
    prefix: &'static str,
    variables: &'a Variables,
    from_url: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
) -> Vec<(Key, &'a str)> {
    let variables = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let set =
        variables.filter(move |(name, value)| name.starts_with(prefix) && !value.trim().is_empty());
    let from_url = from_url.into_iter().filter_map(|(name, value)| Some((name, value?)));
    set.chain(from_url)
        .chain(TIMEOUTS)
        .filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, value)))
        .collect()
}

/// Returns a hint for errors if none of the settings for credentials is set.
fn hint<const N: usize>(credentials: [Option<String>; N]) -> &'static str {
    let none = credentials.into_iter().flatten().all(|value| value == "false");
    if none { "; no credentials are set, so the machine's metadata service is asked" } else { "" }
}

fn http_url(endpoint: &str) -> Result<Url, OpenError> {
    let url = Url::parse(endpoint).map_err(|_| OpenError::Endpoint)?;
    let origin_only = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if origin_only && ["http", "https"].contains(&url.scheme()) {
        Ok(url)
    } else {
        Err(OpenError::Endpoint)
    }
}

/// Describes unusable settings by their names, because their values may be secret.
fn settings_error(error: &Error, variables: &Variables) -> OpenError {
    let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    if cause.contains("decode") {
        // The error may quote the secret that it could not decode.
        return OpenError::Settings("the credentials cannot be decoded".to_owned());
    }
    let secrets = variables.iter().filter(|(name, value)| {
        [AWS, GOOGLE, AZURE].iter().any(|prefix| name.starts_with(prefix)) && value.len() >= 4
    });
    OpenError::Settings(one_line(
        &secrets.fold(cause, |cause, (name, value)| cause.replace(value, name)),
    ))
}
