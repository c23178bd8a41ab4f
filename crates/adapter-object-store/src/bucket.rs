//! Objects in a remote store.

use std::{
    future::Future,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use domain::{
    document::{ObjectKey, SpooledFile},
    ports::{BlobStore, BlobStream, StoreError},
};
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::{GetOptions, ObjectStore, ObjectStoreExt as _, path::Path};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};
use tracing::Instrument as _;

use crate::{
    TimeLimits,
    failure::{Failure, is_absent, is_beyond_end, store_error, within},
    spool::{SpoolReader, blocking},
    store::{DocumentStore, PROBE, compare, location, step},
    stream::{check_size, exactly},
};

const MIB: usize = 1024 * 1024;
/// The minimum part size of S3, except for the last part.
const PART_MIB: u32 = 5;
const PART: usize = PART_MIB as usize * MIB;
/// One permit per MiB of parts in memory: six puts of large files, or thirty of files up to 1 MiB.
const PERMITS: usize = 30;

/// Minimum upload rate in bytes per second, from which the time for a body follows.
const MIN_UPLOAD_RATE: usize = 200 * 1024;

/// A bucket, which must make objects durable before it reports success.
pub(crate) struct Bucket {
    objects: Arc<dyn ObjectStore>,
    /// Limits the parts in memory.
    permits: Semaphore,
    /// Whether the last request did not reach the store.
    unreachable: AtomicBool,
    /// A hint for the error when the store is unavailable.
    hint: &'static str,
    limits: TimeLimits,
}

impl Bucket {
    pub(crate) fn new(
        objects: Arc<dyn ObjectStore>,
        hint: &'static str,
        limits: TimeLimits,
    ) -> Self {
        let (permits, unreachable) = (Semaphore::new(PERMITS), AtomicBool::new(false));
        Self { objects, permits, unreachable, hint, limits }
    }

    /// Sends a request with a body of `bytes`, within the time limit.
    async fn request<T>(
        &self,
        bytes: usize,
        request: impl Future<Output = object_store::Result<T>> + Send,
    ) -> Result<T, StoreError> {
        let for_body = Duration::from_secs((bytes / MIN_UPLOAD_RATE) as u64);
        let limit = self.limits.request + for_body;
        let request = async { request.await.map_err(|error| store_error(&error, self.hint)) };
        let result = within(limit, self.hint, request).await;
        let unreachable = matches!(result, Err(StoreError::Unavailable(_)));
        self.unreachable.store(unreachable, Ordering::Relaxed);
        result
    }

    /// Waits for permits. After a wait, fails if the store is unreachable. Otherwise the next waiter
    /// would also wait for the retries of this one.
    async fn permit(&self, mebibytes: u32) -> Result<SemaphorePermit<'_>, StoreError> {
        if let Ok(permit) = self.permits.try_acquire_many(mebibytes) {
            return Ok(permit);
        }
        let permit = self.permits.acquire_many(mebibytes).await;
        if self.unreachable.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable(
                "another request has just failed to reach it".into(),
            ));
        }
        permit.map_err(|closed| StoreError::Internal(closed.into()))
    }

    /// Puts a file, in parts if it is large.
    async fn put_file(&self, location: &Path, file: &SpooledFile) -> Result<(), StoreError> {
        let mebibytes = u32::try_from(file.size.div_ceil(MIB as u64)).unwrap_or(PART_MIB);
        let _permit = self.permit(mebibytes.clamp(1, PART_MIB)).await?;
        let spooled = file.clone();
        let (reader, first) = read(blocking(move || SpoolReader::open(&spooled)).await?).await?;
        if reader.left == 0 {
            self.request(first.len(), self.objects.put(location, first.into())).await?;
        } else {
            self.put_in_parts(location, file.size, reader, first).await?;
        }
        // A proxy may report success for a put that never reached the store.
        let (sent, stored) = (file.size, self.request(0, self.objects.head(location)).await?.size);
        if stored == sent {
            return Ok(());
        }
        let cause = format!("{sent} bytes were sent, but the store has {stored}");
        Err(StoreError::Unavailable(cause.into()))
    }

    /// Puts a file in parts, one at a time. The object appears when the upload is completed, which
    /// needs all parts.
    async fn put_in_parts(
        &self,
        location: &Path,
        size: u64,
        mut reader: SpoolReader,
        mut part: Vec<u8>,
    ) -> Result<(), StoreError> {
        let mut upload = self.request(0, self.objects.put_multipart(location)).await?;
        let sent = async {
            loop {
                self.request(part.len(), upload.put_part(part.into())).await?;
                if reader.left == 0 {
                    break;
                }
                (reader, part) = read(reader).await?;
            }
            // Some stores copy the parts to complete an upload.
            self.request(usize::try_from(size).unwrap_or(usize::MAX), upload.complete()).await
        };
        let sent = sent.await;
        if sent.is_err() {
            // The caller gets the first error. If the abort fails, a lifecycle rule of the bucket
            // removes the rest.
            let _ = timeout(self.limits.abort, upload.abort()).await;
        }
        sent.map(drop)
    }

    async fn remove(&self, location: &Path) -> Result<(), StoreError> {
        let delete = async {
            match self.objects.delete(location).await {
                Err(error) if is_absent(&error) => Ok(()),
                deleted => deleted,
            }
        };
        self.request(0, delete).await
    }
}

#[async_trait]
impl BlobStore for Bucket {
    async fn put(&self, key: &ObjectKey, file: &SpooledFile) -> Result<(), StoreError> {
        self.put_file(&location(key)?, file).instrument(step(file)).await
    }

    /// Opens an object. If its body breaks off, `object_store` requests the rest.
    async fn get(
        &self,
        key: &ObjectKey,
        range: Range<u64>,
    ) -> Result<Option<BlobStream>, StoreError> {
        let location = location(key)?;
        let options = GetOptions::new().with_range(Some(range.clone()));
        let request = async {
            match self.objects.get_opts(&location, options).await {
                Err(error) if is_absent(&error) => Ok(Ok(None)),
                Err(error) if is_beyond_end(&error) => {
                    Ok(Err(StoreError::Internal(Failure::of(&error, "").into())))
                }
                done => done.map(|found| Ok(Some(found))),
            }
        };
        let Some(found) = self.request(0, request).await?? else { return Ok(None) };
        check_size(found.range.end, &range)?;
        let hint = self.hint;
        let body = found.into_stream().map_err(move |error| store_error(&error, hint));
        Ok(Some(exactly(range.end - range.start, body.boxed())))
    }

    async fn delete(&self, key: &ObjectKey) -> Result<(), StoreError> {
        self.remove(&location(key)?).await
    }

    /// Puts a small object, and removes it.
    async fn check(&self) -> Result<(), StoreError> {
        let object = Path::from(PROBE);
        let check = async {
            self.request(0, self.objects.put(&object, PROBE.into())).await?;
            self.remove(&object).await
        };
        within(self.limits.check, self.hint, check).await
    }
}

#[async_trait]
impl DocumentStore for Bucket {
    async fn probe(&self) -> Result<SystemTime, StoreError> {
        // Not the object of a check: a running service would remove it. Rules for versions of that
        // one select this one too, by their prefix.
        let object = Path::from(format!("{PROBE}-{}", std::process::id()));
        self.request(0, self.objects.put(&object, PROBE.into())).await?;
        let read = async {
            let found = self.objects.get(&object).await?;
            let put_at = found.meta.last_modified;
            Ok((found.bytes().await?, put_at.into()))
        };
        let read = self.request(0, read).await;
        self.remove(&object).await?;
        let (bytes, put_at) = read?;
        compare(&bytes).map(|()| put_at)
    }
}

/// Reads the next part of a file.
async fn read(mut reader: SpoolReader) -> Result<(SpoolReader, Vec<u8>), StoreError> {
    blocking(move || reader.next_part(PART).map(|part| (reader, part))).await
}

#[cfg(test)]
#[path = "bucket_tests.rs"]
mod tests;
