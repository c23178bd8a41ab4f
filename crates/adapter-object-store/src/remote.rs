//! Stores over the network: Amazon S3 and those that speak its protocol, Google Cloud Storage,
//! Azure Blob Storage.

use std::{error::Error as _, str::FromStr, sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, ClientConfigKey, Error, ObjectStore, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey, Checksum},
    azure::{AzureConfigKey, MicrosoftAzureBuilder},
    gcp::{GoogleCloudStorageBuilder, GoogleConfigKey},
};
use url::Url;

use crate::{OpenError, failure::one_line, place::Place};

/// Time limits of one attempt. Those of a request with all its attempts are shorter where it is
/// small; see `store`.
const TIMEOUTS: [(ClientConfigKey, &str); 2] =
    [(ClientConfigKey::ConnectTimeout, "2 seconds"), (ClientConfigKey::Timeout, "60 seconds")];

/// How the names of the variables of each store begin.
const AWS: &str = "AWS_";
const GOOGLE: &str = "GOOGLE_";
const AZURE: &str = "AZURE_";

/// Five attempts, which a store that refuses connections has used up after 1.1 seconds at the most:
/// a client is answered within 3 seconds even where a second request, such as the abort of an
/// upload, fails in the same way.
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

/// A store, and why it may give no answer.
pub(crate) type Opened = (Arc<dyn ObjectStore>, &'static str);

/// Opens a bucket of S3. Each request carries the SHA-256 of its body twice: in its signature, and
/// in a header that the store keeps with the object.
pub(crate) fn s3(url: &Url, variables: &Variables) -> Result<Opened, OpenError> {
    use AmazonS3ConfigKey as Key;
    let place = Place::parse(url, &["endpoint", "region", "path_style", "checksum"])?;
    let path_style = place.choice("path_style", ["true", "false"])? == "true";
    let checksum = place.choice("checksum", ["sha256", "none"])? == "sha256";
    let from_url =
        [(Key::S3Endpoint, place.parameter("endpoint")), (Key::Region, place.parameter("region"))];
    let from_url = from_url.into_iter().filter_map(|(key, value)| Some((key, value?)));
    // Whether there is a checksum is for the URL alone to say.
    let from_environment = settings(AWS, variables).filter(|(key, _)| *key != Key::Checksum);
    let limits = TIMEOUTS.map(|(key, value)| (Key::Client(key), value));
    let settings = from_environment.chain(from_url).chain(limits);
    let mut builder = settings
        .fold(AmazonS3Builder::new(), |builder, (key, value)| builder.with_config(key, value));

    let value = |key| builder.get_config_value(&key);
    let reason = reason(
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
            // `object_store` takes the endpoint of the bucket here, operators know that of the
            // store.
            let host = format!("{}.{}", place.bucket, endpoint.host_str().unwrap_or_default());
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
        .with_bucket_name(&place.bucket)
        .with_virtual_hosted_style_request(!path_style)
        .with_unsigned_payload(false)
        // Every store knows the removal of one object, and the service never removes more than one
        // at a time.
        .with_disable_bulk_delete(true)
        .with_retry(retries())
        .build();
    Ok((place.part_of(bucket.map_err(|error| refused(&error, variables))?), reason))
}

/// Opens a bucket of Google Cloud Storage.
pub(crate) fn google(url: &Url, variables: &Variables) -> Result<Opened, OpenError> {
    use GoogleConfigKey as Key;
    let place = Place::parse(url, &["endpoint"])?;
    let endpoint = place.parameter("endpoint").map(http_url).transpose()?;
    let from_url =
        endpoint.iter().map(|endpoint| (Key::BaseUrl, endpoint.as_str().trim_end_matches('/')));
    let limits = TIMEOUTS.map(|(key, value)| (Key::Client(key), value));
    let settings = settings(GOOGLE, variables).chain(from_url).chain(limits);
    let builder = settings.fold(GoogleCloudStorageBuilder::new(), |builder, (key, value)| {
        builder.with_config(key, value)
    });

    let value = |key| builder.get_config_value(&key);
    let reason = reason(
        [
            Key::ServiceAccount,
            Key::ServiceAccountKey,
            Key::ApplicationCredentials,
            Key::BearerToken,
        ]
        .map(value),
    );
    let bucket = builder.with_bucket_name(&place.bucket).with_retry(retries()).build();
    Ok((place.part_of(bucket.map_err(|error| refused(&error, variables))?), reason))
}

/// Opens a container of Azure Blob Storage.
pub(crate) fn azure(url: &Url, variables: &Variables) -> Result<Opened, OpenError> {
    use AzureConfigKey as Key;
    let place = Place::parse(url, &["endpoint"])?;
    let from_url = place.parameter("endpoint").map(|endpoint| (Key::Endpoint, endpoint));
    let limits = TIMEOUTS.map(|(key, value)| (Key::Client(key), value));
    let settings = settings(AZURE, variables).chain(from_url).chain(limits);
    let mut builder = settings.fold(MicrosoftAzureBuilder::new(), |builder, (key, value)| {
        builder.with_config(key, value)
    });

    let value = |key| builder.get_config_value(&key);
    let reason = reason(
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
    let container = builder.with_container_name(&place.bucket).with_retry(retries()).build();
    Ok((place.part_of(container.map_err(|error| refused(&error, variables))?), reason))
}

/// The settings among the variables. A variable that is blank is one that is not set.
fn settings<'a, Key: FromStr>(
    prefix: &'static str,
    variables: &'a Variables,
) -> impl Iterator<Item = (Key, &'a str)> {
    let set = variables
        .iter()
        .filter(move |(name, value)| name.starts_with(prefix) && !value.trim().is_empty());
    set.filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, value.as_str())))
}

/// Why a store may give no answer, by the settings that name credentials.
fn reason<const N: usize>(credentials: [Option<String>; N]) -> &'static str {
    let none = credentials.into_iter().flatten().all(|value| value == "false");
    if none { "; no credentials are set, and the machine is asked for its own" } else { "" }
}

fn http_url(endpoint: &str) -> Result<Url, OpenError> {
    let url = Url::parse(endpoint).map_err(|_| OpenError::Endpoint)?;
    let plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if plain && ["http", "https"].contains(&url.scheme()) {
        Ok(url)
    } else {
        Err(OpenError::Endpoint)
    }
}

/// What is wrong with the settings: their names rather than their values, which may be secret.
fn refused(error: &Error, variables: &Variables) -> OpenError {
    let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    if cause.contains("decode") {
        // It may quote what it could not decode.
        return OpenError::Settings("the credentials cannot be decoded".to_owned());
    }
    let secret = variables.iter().filter(|(name, value)| {
        [AWS, GOOGLE, AZURE].iter().any(|prefix| name.starts_with(prefix)) && value.len() >= 4
    });
    OpenError::Settings(one_line(
        &secret.fold(cause, |cause, (name, value)| cause.replace(value, name)),
    ))
}
