//! Objects in a remote store.

use std::{
    future::Future,
    ops::Range,
    sync::Arc,
    time::{Duration, SystemTime},
};

use domain::{
    document::SpooledFile,
    ports::{BlobStream, StoreError},
};
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt as _, PutPayload, path::Path};
use tokio::time::timeout;

use crate::{
    PROBE,
    concurrency_limit::ConcurrencyLimit,
    failure::{Failure, is_absent, is_beyond_end, store_error, within},
    read_remote::RemoteRange,
    spool::{SpoolReader, check_size},
};

const MIB: usize = 1024 * 1024;
/// The minimum part size of S3, except for the last part.
const PART_MIB: u32 = 5;
const PART: usize = PART_MIB as usize * MIB;
/// One permit per MiB of parts in memory: six puts of large files, or thirty of files up to 1 MiB.
const PERMITS: usize = 30;

/// Time limit for a request with its retries, in addition to the time for its body.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_millis(2_500);
/// Minimum upload rate in bytes per second, from which the time for a body follows.
const MIN_UPLOAD_RATE: usize = 200 * 1024;
/// Time limit for aborting an upload, which delays the error response.
const ABORT_TIMEOUT: Duration = Duration::from_millis(1_500);

/// A bucket, which must make objects durable before it reports success.
pub(crate) struct Bucket {
    objects: Arc<dyn ObjectStore>,
    limit: ConcurrencyLimit,
    /// A hint for the error when the store is unavailable.
    hint: &'static str,
}

impl Bucket {
    pub(crate) fn new(objects: Arc<dyn ObjectStore>, hint: &'static str) -> Self {
        Self { objects, limit: ConcurrencyLimit::new(PERMITS), hint }
    }

    /// Sends a request with a body of `bytes`, within the time limit.
    async fn request<T>(
        &self,
        bytes: usize,
        request: impl Future<Output = object_store::Result<T>> + Send,
    ) -> Result<T, StoreError> {
        let limit = REQUEST_TIMEOUT + Duration::from_secs((bytes / MIN_UPLOAD_RATE) as u64);
        let request = async { request.await.map_err(|error| store_error(&error, self.hint)) };
        let result = within(limit, self.hint, request).await;
        self.limit.record(!matches!(result, Err(StoreError::Unavailable(_))));
        result
    }

    /// Puts a file, in parts if it is large.
    pub(crate) async fn put(&self, location: &Path, file: &SpooledFile) -> Result<(), StoreError> {
        let mebibytes = u32::try_from(file.size.div_ceil(MIB as u64)).unwrap_or(PART_MIB);
        let _permit = self.limit.acquire(mebibytes.clamp(1, PART_MIB)).await?;
        let (reader, first) = SpoolReader::open(file).await?.next_part(PART).await?;
        if reader.is_at_end() {
            reader.verify(file)?;
            self.request(first.content_length(), self.objects.put(location, first)).await?;
        } else {
            self.put_in_parts(location, file, reader, first).await?;
        }
        self.verify_size(location, file).await
    }

    async fn put_in_parts(
        &self,
        location: &Path,
        file: &SpooledFile,
        reader: SpoolReader,
        first: PutPayload,
    ) -> Result<(), StoreError> {
        let mut upload = self.request(0, self.objects.put_multipart(location)).await?;
        let sent = match self.send_parts(&mut *upload, file, reader, first).await {
            // Some stores copy the parts to complete an upload.
            Ok(()) => {
                self.request(usize::try_from(file.size).unwrap_or(usize::MAX), upload.complete())
                    .await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = sent {
            // The caller gets the first error. If the abort fails, a lifecycle rule of the bucket
            // removes the rest.
            let _ = timeout(ABORT_TIMEOUT, upload.abort()).await;
            return Err(error);
        }
        Ok(())
    }

    /// Sends all parts and verifies them. Must succeed before the upload is completed, which makes
    /// the object visible.
    async fn send_parts(
        &self,
        upload: &mut dyn MultipartUpload,
        file: &SpooledFile,
        mut reader: SpoolReader,
        mut part: PutPayload,
    ) -> Result<(), StoreError> {
        loop {
            self.request(part.content_length(), upload.put_part(part)).await?;
            if reader.is_at_end() {
                return reader.verify(file);
            }
            (reader, part) = reader.next_part(PART).await?;
        }
    }

    /// Checks that the store has the whole object. A proxy may report success for a put that never
    /// reached the store.
    async fn verify_size(&self, location: &Path, file: &SpooledFile) -> Result<(), StoreError> {
        let stored = self.request(0, self.objects.head(location)).await?.size;
        if stored == file.size {
            Ok(())
        } else {
            let sent = file.size;
            let cause = format!("{sent} bytes were sent, but the store has {stored}");
            Err(StoreError::Unavailable(cause.into()))
        }
    }

    pub(crate) async fn get(
        &self,
        location: Path,
        left: Range<u64>,
    ) -> Result<Option<BlobStream>, StoreError> {
        let (objects, hint) = (Arc::clone(&self.objects), self.hint);
        let range = RemoteRange { objects, location, left, hint };
        let request = async {
            match range.request().await {
                Err(error) if is_absent(&error) => Ok(Ok(None)),
                Err(error) if is_beyond_end(&error) => {
                    Ok(Err(StoreError::Internal(Failure::of(&error, "").into())))
                }
                done => done.map(|found| Ok(Some(found))),
            }
        };
        let Some(found) = self.request(0, request).await?? else { return Ok(None) };
        check_size(found.range.end, &range.left)?;
        Ok(Some(range.stream(found.into_stream())))
    }

    pub(crate) async fn delete(&self, location: &Path) -> Result<(), StoreError> {
        let delete = async {
            match self.objects.delete(location).await {
                Err(error) if is_absent(&error) => Ok(()),
                deleted => deleted,
            }
        };
        self.request(0, delete).await
    }

    /// Puts a small object, and removes it.
    pub(crate) async fn check(&self, limit: Duration) -> Result<(), StoreError> {
        let object = Path::from(PROBE);
        let check = async {
            self.request(0, self.objects.put(&object, PROBE.into())).await?;
            self.delete(&object).await
        };
        within(limit, self.hint, check).await
    }

    /// Puts a small object, reads and removes it. Returns its bytes, and when it was put by the
    /// clock of the store.
    pub(crate) async fn probe(&self, name: &str) -> Result<(Vec<u8>, SystemTime), StoreError> {
        let object = Path::from(name);
        self.request(0, self.objects.put(&object, PROBE.into())).await?;
        let read = async {
            let found = self.objects.get(&object).await?;
            let put_at = found.meta.last_modified;
            Ok((found.bytes().await?.into(), put_at.into()))
        };
        let read = self.request(0, read).await;
        self.delete(&object).await?;
        read
    }
}

#[cfg(test)]
#[path = "bucket_tests.rs"]
mod tests;
