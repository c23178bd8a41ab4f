use std::{
    fmt,
    future::Future,
    io,
    ops::Range,
    path::Path as FilePath,
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use domain::{
    document::{ObjectKey, SpooledFile},
    ports::{BlobStore, BlobStream, GetError, StoreError},
};
use object_store::{
    MultipartUpload, ObjectStore, ObjectStoreExt as _, PutPayload, local::LocalFileSystem,
    path::Path,
};
use tokio::{sync::oneshot, time::timeout};

use crate::{
    buffers::BufferPool,
    concurrency_limit::ConcurrencyLimit,
    disk::{Disk, unavailable},
    failure::{Failure, is_absent, is_beyond_end, is_transient, store_error},
    folder_syncs::Done,
    read_disk::{BLOCK, blocks, check_size},
    read_remote::RemoteRange,
    spool::{SpoolReader, panicked},
};

const MIB: usize = 1024 * 1024;

/// Part size and concurrent copies on local disk.
const DISK_PART: usize = 128 * 1024;
const DISK_PERMITS: usize = 8;

/// Free blocks that readers of local disk keep for each other.
const FREE_BLOCKS: usize = 32;

/// The minimum part size of S3, except for the last part.
const REMOTE_PART_MIB: u32 = 5;
const REMOTE_PART: usize = REMOTE_PART_MIB as usize * MIB;
/// One permit per MiB of parts in memory: six puts of large files, or thirty of files up to 1 MiB.
const REMOTE_PERMITS: usize = 30;

/// Time limit for a request with its retries, in addition to the time for its body.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_millis(2_500);
/// Minimum upload rate in bytes per second, from which the time for a body follows.
const MIN_UPLOAD_RATE: usize = 200 * 1024;
/// Time limit for aborting an upload, which delays the error response.
const ABORT_TIMEOUT: Duration = Duration::from_millis(1_500);
/// Time limit for a check. The readiness endpoint allows two seconds.
const CHECK_TIMEOUT: Duration = Duration::from_millis(1_500);

/// The key of the object that a check puts and deletes.
const PROBE: &str = "readiness-probe";

/// A blob store over an object store.
pub struct ObjectBlobStore {
    objects: Arc<dyn ObjectStore>,
    disk: Option<Disk>,
    buffers: BufferPool,
    blocks: BufferPool,
    limit: ConcurrencyLimit,
    /// A hint for the error when the store is unavailable.
    hint: &'static str,
}

impl fmt::Debug for ObjectBlobStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ObjectBlobStore").finish_non_exhaustive()
    }
}

impl ObjectBlobStore {
    /// Creates a blob store over a remote store, which must make objects durable before it reports
    /// success.
    pub(crate) fn remote(objects: Arc<dyn ObjectStore>, hint: &'static str) -> Self {
        Self {
            objects,
            disk: None,
            buffers: BufferPool::new(MIB, REMOTE_PERMITS),
            blocks: BufferPool::new(BLOCK, FREE_BLOCKS),
            limit: ConcurrencyLimit::new(REMOTE_PERMITS),
            hint,
        }
    }

    pub(crate) fn on_disk(path: &FilePath) -> io::Result<Self> {
        let disk = Disk::open(path)?;
        // A process that was killed during a check may have left the probe.
        disk.finish_delete(PROBE)?;
        Self::over_disk(disk)
    }

    pub(crate) fn over_disk(disk: Disk) -> io::Result<Self> {
        let objects = LocalFileSystem::new_with_prefix(disk.root())?.with_fsync(true);
        Ok(Self {
            objects: Arc::new(objects),
            disk: Some(disk),
            buffers: BufferPool::new(DISK_PART, DISK_PERMITS),
            blocks: BufferPool::new(BLOCK, FREE_BLOCKS),
            limit: ConcurrencyLimit::new(DISK_PERMITS),
            hint: "",
        })
    }

    /// Runs blocking work on the disk, if this is a store on disk.
    async fn with_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(Disk) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<Option<T>, StoreError> {
        let Some(disk) = self.disk.clone() else { return Ok(None) };
        let done = tokio::task::spawn_blocking(move || work(disk)).await;
        done.map_err(|_| panicked())?.map(Some)
    }

    /// Links the file on a store on disk and returns whether that was possible. Needs no permit,
    /// because it takes no memory; the runtime's threads for blocking work limit the concurrency.
    async fn link_spooled(&self, location: &Path, file: &SpooledFile) -> Result<bool, StoreError> {
        let Some(disk) = self.disk.clone() else { return Ok(false) };
        let (location, file) = (location.clone(), file.clone());
        let (done, outcome) = oneshot::channel();
        // Not awaited: it may go on for other calls.
        tokio::task::spawn_blocking(move || {
            disk.link_spooled(location.as_ref(), &file, Done(done));
        });
        outcome.await.map_err(|_| panicked())?
    }

    async fn check_folder(&self) -> Result<(), StoreError> {
        self.with_disk(|disk| disk.check().map_err(unavailable)).await.map(drop)
    }

    /// Sends a request with a body of `bytes`, with the time limit for a remote store.
    async fn request<T>(
        &self,
        bytes: usize,
        request: impl Future<Output = object_store::Result<T>> + Send,
    ) -> Result<T, StoreError> {
        if self.disk.is_some() {
            return request.await.map_err(store_error);
        }
        let limit = REQUEST_TIMEOUT + Duration::from_secs((bytes / MIN_UPLOAD_RATE) as u64);
        let result = match timeout(limit, request).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) if is_transient(&error) => {
                Err(StoreError::Unavailable(Failure::of(&error, self.hint).into()))
            }
            Ok(Err(error)) => Err(StoreError::Internal(Failure::of(&error, self.hint).into())),
            Err(_) => Err(self.timed_out(limit)),
        };
        self.limit.record(!matches!(result, Err(StoreError::Unavailable(_))));
        result
    }

    fn timed_out(&self, waited: Duration) -> StoreError {
        let (seconds, hint) = (waited.as_secs_f32(), self.hint);
        StoreError::Unavailable(format!("no answer within {seconds:.1} seconds{hint}").into())
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

    /// Returns the permits and the part size for a put.
    fn permits_and_part_size(&self, file: &SpooledFile) -> (u32, usize) {
        if self.disk.is_some() {
            return (1, DISK_PART);
        }
        let max = REMOTE_PART_MIB;
        let permits =
            u32::try_from(file.size.div_ceil(MIB as u64)).map_or(max, |mib| mib.clamp(1, max));
        (permits, REMOTE_PART)
    }

    /// Uploads a file of more than one part.
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
            // The caller gets the first error. If the abort fails, deleting the key removes the
            // rest from a disk, and a lifecycle rule of the bucket from a remote store.
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
            (reader, part) = reader.next_part().await?;
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

    async fn get_remote(&self, location: Path, left: Range<u64>) -> Result<BlobStream, GetError> {
        let (objects, hint) = (Arc::clone(&self.objects), self.hint);
        let range = RemoteRange { objects, location, left, hint };
        let request = async {
            match range.request().await {
                Err(error) if is_absent(&error) => Ok(Err(GetError::Missing)),
                Err(error) if is_beyond_end(&error) => {
                    Ok(Err(GetError::Internal(Failure::of(&error, "").into())))
                }
                done => done.map(Ok),
            }
        };
        let found = self.request(0, request).await??;
        check_size(found.range.end, &range.left)?;
        Ok(range.stream(found.into_stream()))
    }

    /// Puts a small object, reads and removes it. Returns when it was put, by the clock of the
    /// store.
    ///
    /// # Errors
    /// The store rejects one of the requests, does not answer in time, or returns other bytes.
    pub async fn probe(&self) -> Result<SystemTime, StoreError> {
        // Not the object of a check: a running service would remove it. Rules for versions of that
        // one select this one too, by their prefix.
        let probe = Path::from(format!("{PROBE}-{}", std::process::id()));
        self.request(0, self.objects.put(&probe, PutPayload::from_static(PROBE.as_bytes())))
            .await?;
        let read = async {
            let object = self.objects.get(&probe).await?;
            let put_at = object.meta.last_modified;
            Ok((object.bytes().await?, put_at))
        };
        let read = self.request(0, read).await;
        self.remove(&probe).await?;
        let (bytes, put_at) = read?;
        if bytes == PROBE.as_bytes() {
            Ok(put_at.into())
        } else {
            Err(StoreError::Internal("the store returns other bytes than were put".into()))
        }
    }

    async fn put_and_remove_probe(&self) -> Result<(), StoreError> {
        let probe = Path::from(PROBE);
        self.request(0, self.objects.put(&probe, PutPayload::from_static(PROBE.as_bytes())))
            .await?;
        self.remove(&probe).await
    }
}

#[async_trait]
impl BlobStore for ObjectBlobStore {
    async fn put(&self, key: &ObjectKey, file: &SpooledFile) -> Result<(), StoreError> {
        let location = location(key)?;
        if self.link_spooled(&location, file).await? {
            return Ok(());
        }
        let (permits, part_size) = self.permits_and_part_size(file);
        let _permit = self.limit.acquire(permits).await?;
        self.check_folder().await?;
        let (reader, first) = SpoolReader::open(file, self.buffers.clone(), part_size).await?;
        if reader.is_at_end() {
            reader.verify(file)?;
            self.request(first.content_length(), self.objects.put(&location, first)).await?;
        } else {
            self.put_in_parts(&location, file, reader, first).await?;
        }
        if self.disk.is_none() {
            self.verify_size(&location, file).await?;
        }
        let sync = move |disk: Disk| disk.sync_folders(location.as_ref()).map_err(unavailable);
        self.with_disk(sync).await.map(drop)
    }

    async fn get(&self, key: &ObjectKey, range: Range<u64>) -> Result<BlobStream, GetError> {
        let location = location(key)?;
        let Some(disk) = self.disk.clone() else { return self.get_remote(location, range).await };
        let opened = range.clone();
        let open = move || disk.open_object(location.as_ref(), &opened);
        let file = tokio::task::spawn_blocking(open).await.map_err(|_| panicked())??;
        Ok(blocks(file, range, self.blocks.clone()))
    }

    async fn delete(&self, key: &ObjectKey) -> Result<(), StoreError> {
        let location = location(key)?;
        self.check_folder().await?;
        self.remove(&location).await?;
        let finish = move |disk: Disk| disk.finish_delete(location.as_ref()).map_err(unavailable);
        self.with_disk(finish).await.map(drop)
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.check_folder().await?;
        timeout(CHECK_TIMEOUT, self.put_and_remove_probe())
            .await
            .unwrap_or_else(|_| Err(self.timed_out(CHECK_TIMEOUT)))
    }
}

fn location(key: &ObjectKey) -> Result<Path, StoreError> {
    Path::parse(key.as_str()).map_err(|error| StoreError::Internal(error.into()))
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
