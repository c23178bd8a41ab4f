use std::{collections::BTreeMap, sync::Arc};

use object_store::{ObjectStore, path::Path, prefix::PrefixStore};
use url::Url;

use crate::OpenError;

/// The URL of a remote store: a bucket, a prefix and parameters.
#[derive(Debug)]
pub(crate) struct BucketUrl {
    pub(crate) bucket: String,
    prefix: Path,
    parameters: BTreeMap<String, String>,
}

impl BucketUrl {
    /// Parses a URL whose query may contain each of the `allowed` parameters once.
    pub(crate) fn parse(url: &Url, allowed: &'static [&'static str]) -> Result<Self, OpenError> {
        if !url.username().is_empty() || url.password().is_some() {
            return Err(OpenError::Credentials);
        }
        let bucket = url
            .host_str()
            .filter(|bucket| !bucket.is_empty())
            .ok_or(OpenError::NoBucket)?
            .to_owned();
        if url.port().is_some() || url.fragment().is_some() {
            return Err(OpenError::NotABucket);
        }
        let prefix = Path::from_url_path(url.path().trim_end_matches('/'))
            .map_err(|_| OpenError::NotABucket)?;
        let mut parameters = BTreeMap::new();
        for (name, value) in url.query_pairs() {
            if !allowed.contains(&&*name)
                || parameters.insert(name.into_owned(), value.into_owned()).is_some()
            {
                return Err(OpenError::Parameters(allowed));
            }
        }
        Ok(Self { bucket, prefix, parameters })
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    /// Returns the value of a parameter that has two possible values, the first as the default.
    pub(crate) fn choice(
        &self,
        name: &'static str,
        [default, other]: [&'static str; 2],
    ) -> Result<&'static str, OpenError> {
        match self.parameter(name) {
            None => Ok(default),
            Some(value) => [default, other]
                .into_iter()
                .find(|possible| *possible == value)
                .ok_or(OpenError::Parameter { name, values: [default, other] }),
        }
    }

    /// Limits the store of a whole bucket to the prefix.
    pub(crate) fn apply_prefix(&self, bucket: impl ObjectStore) -> Arc<dyn ObjectStore> {
        if self.prefix.as_ref().is_empty() {
            Arc::new(bucket)
        } else {
            Arc::new(PrefixStore::new(bucket, self.prefix.clone()))
        }
    }
}
