//! Reads objects of a remote store.

use std::{ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use domain::ports::{BlobStream, StoreError};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::{GetOptions, GetRange, GetResult, ObjectStore, path::Path};
use tokio::time::timeout;

use crate::{bucket::REQUEST_TIMEOUT, failure::Failure};

/// Time limit for the next bytes of a response.
const BLOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Largest block that a reader gets. A client of HTTP may have read more ahead.
const BLOCK: usize = 64 * 1024;

/// A range of an object that is read.
pub(crate) struct RemoteRange {
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) location: Path,
    /// What is not read yet.
    pub(crate) left: Range<u64>,
    /// A hint for the error when the store is unavailable.
    pub(crate) hint: &'static str,
}

/// The body of a response.
type Body = stream::BoxStream<'static, object_store::Result<Bytes>>;

impl RemoteRange {
    /// Requests what is left.
    pub(crate) async fn request(&self) -> object_store::Result<GetResult> {
        let range = Some(GetRange::Bounded(self.left.clone()));
        let options = GetOptions { range, ..GetOptions::default() };
        self.objects.get_opts(&self.location, options).await
    }

    /// Returns the bytes of a body, and requests the rest again if it breaks off after some bytes:
    /// the time limit of a request ends the body of a slow reader. Objects never change.
    pub(crate) fn stream(self, body: Body) -> BlobStream {
        let reading = Reading { range: self, body, is_fresh: true, ahead: Bytes::new() };
        stream::try_unfold(reading, |mut reading| async move {
            let block = reading.next().await?;
            Ok(block.map(|block| (block, reading)))
        })
        .boxed()
    }
}

struct Reading {
    range: RemoteRange,
    body: Body,
    /// Whether this body has not given any bytes yet.
    is_fresh: bool,
    /// What was read ahead.
    ahead: Bytes,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        loop {
            if !self.ahead.is_empty() {
                let block = self.ahead.split_to(BLOCK.min(self.ahead.len()));
                return Ok(Some(block));
            }
            if self.range.left.is_empty() {
                return Ok(None);
            }
            let broken = match timeout(BLOCK_TIMEOUT, self.body.try_next()).await {
                Ok(Ok(Some(bytes))) => {
                    self.take(bytes)?;
                    continue;
                }
                Ok(Ok(None)) => "the body is too short".into(),
                Ok(Err(error)) => Failure::of(&error, self.range.hint).into(),
                Err(_) => format!("no bytes within {} seconds", BLOCK_TIMEOUT.as_secs()).into(),
            };
            if self.is_fresh {
                return Err(StoreError::Unavailable(broken));
            }
            let again = timeout(REQUEST_TIMEOUT, self.range.request()).await;
            let again = again.map_err(|_| StoreError::Unavailable(broken))?;
            let again = again.map_err(|error| {
                StoreError::Unavailable(Failure::of(&error, self.range.hint).into())
            })?;
            self.body = again.into_stream();
            self.is_fresh = true;
        }
    }

    fn take(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        let (left, size) = (&mut self.range.left, bytes.len() as u64);
        if size > left.end - left.start {
            return Err(StoreError::Internal("the body is longer than the range".into()));
        }
        left.start += size;
        self.is_fresh &= bytes.is_empty();
        self.ahead = bytes;
        Ok(())
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
