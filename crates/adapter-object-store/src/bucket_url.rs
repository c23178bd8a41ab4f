use std::{collections::BTreeMap, sync::Arc};

use object_store::{ObjectStore, path::Path, prefix::PrefixStore};
use url::Url;

use crate::open_error::{OpenError, wrong};

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
            return Err(wrong("must not contain credentials; set them as environment variables"));
        }
        let bucket = url
            .host_str()
            .filter(|bucket| !bucket.is_empty())
            .ok_or_else(|| wrong("names no bucket; write s3://bucket/prefix"))?
            .to_owned();
        let prefix = Path::from_url_path(url.path().trim_end_matches('/')).ok();
        let prefix = prefix
            .filter(|_| url.port().is_none() && url.fragment().is_none())
            .ok_or_else(|| wrong("must be of the form s3://bucket/prefix?parameter=value"))?;
        let mut parameters = BTreeMap::new();
        for (name, value) in url.query_pairs() {
            if !allowed.contains(&&*name)
                || parameters.insert(name.into_owned(), value.into_owned()).is_some()
            {
                let known = allowed.join(", ");
                return Err(OpenError(format!(
                    "has an unknown or repeated parameter; known are {known}"
                )));
            }
        }
        Ok(Self { bucket, prefix, parameters })
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    /// Returns whether a parameter is absent or has the first of two possible values.
    pub(crate) fn is_first(
        &self,
        name: &str,
        [first, other]: [&str; 2],
    ) -> Result<bool, OpenError> {
        match self.parameter(name) {
            None => Ok(true),
            Some(value) if [first, other].contains(&value) => Ok(value == first),
            Some(_) => Err(wrong(&format!("the parameter {name} must be {first} or {other}"))),
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
