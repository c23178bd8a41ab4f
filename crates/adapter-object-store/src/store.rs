use std::{fmt, future::Future, io, path::Path as FilePath, sync::Arc, time::Duration};

use async_trait::async_trait;
use domain::{
    document::{ObjectKey, SpooledFile},
    ports::{BlobStore, StoreError},
};
use object_store::{
    MultipartUpload, ObjectStore, ObjectStoreExt as _, PutPayload, local::LocalFileSystem,
    path::Path,
};
use tokio::time::timeout;

use crate::{
    blocks::Blocks,
    disk::Disk,
    failure::{Failure, is_absent, is_transient, store_error},
    spool::{SpoolReader, broke_off},
    turns::Turns,
};

const MIB: usize = 1024 * 1024;

/// A disk is written to in small parts, by so many puts at a time.
const DISK_PART: usize = 128 * 1024;
const DISK_TURNS: usize = 8;

/// The least size of a part that S3 takes, but for the last.
const REMOTE_PART_MIB: u32 = 5;
const REMOTE_PART: usize = REMOTE_PART_MIB as usize * MIB;
/// MiB of parts that are in memory at a time: six puts of large files, or thirty of files up to 1
/// MiB.
const REMOTE_TURNS: usize = 30;

/// How long a remote store may take for a request, retries included, beside the time for its body.
const PATIENCE: Duration = Duration::from_millis(2_500);
/// Bytes per second that a line to a remote store carries at the least: 10 MiB take up to a minute.
const SLOWEST: usize = 200 * 1024;
/// How long it may take to abort an upload, for which a client waits that is refused anyway.
const ABORT: Duration = Duration::from_millis(1_500);
/// How long a check may take: whoever asks gives it two seconds.
const CHECK: Duration = Duration::from_millis(1_500);

/// The object that a check puts and deletes.
const PROBE: &str = "readiness-probe";

/// A blob store over an object store.
pub struct ObjectBlobStore {
    objects: Arc<dyn ObjectStore>,
    disk: Option<Disk>,
    blocks: Blocks,
    turns: Turns,
    /// Why the store may give no answer, to be told with it.
    reason: &'static str,
}

impl fmt::Debug for ObjectBlobStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ObjectBlobStore").finish_non_exhaustive()
    }
}

impl ObjectBlobStore {
    /// A blob store over an object store that makes an object durable before it says that it is
    /// complete. It is taken for a remote one: files over 5 MiB are put in parts of that size, with
    /// at most 30 MiB of parts in memory.
    pub fn over(objects: Arc<dyn ObjectStore>) -> Self {
        Self::remote(objects, "")
    }

    pub(crate) fn remote(objects: Arc<dyn ObjectStore>, reason: &'static str) -> Self {
        Self {
            objects,
            disk: None,
            blocks: Blocks::new(MIB, REMOTE_TURNS),
            turns: Turns::new(REMOTE_TURNS),
            reason,
        }
    }

    pub(crate) fn on_disk(path: &FilePath) -> io::Result<Self> {
        let disk = Disk::open(path)?;
        // Of a process that was killed while it tried whether it can write.
        disk.finish_delete(PROBE)?;
        Self::over_disk(disk)
    }

    pub(crate) fn over_disk(disk: Disk) -> io::Result<Self> {
        let objects = LocalFileSystem::new_with_prefix(disk.root())?.with_fsync(true);
        let blocks = Blocks::new(DISK_PART, DISK_TURNS);
        Ok(Self {
            objects: Arc::new(objects),
            disk: Some(disk),
            blocks,
            turns: Turns::new(DISK_TURNS),
            reason: "",
        })
    }

    /// Runs blocking work on the disk, if the objects are on one.
    async fn with_disk(
        &self,
        work: impl FnOnce(Disk) -> io::Result<()> + Send + 'static,
    ) -> Result<(), StoreError> {
        let Some(disk) = self.disk.clone() else { return Ok(()) };
        let done =
            tokio::task::spawn_blocking(move || work(disk)).await.map_err(|_| broke_off())?;
        done.map_err(|error| StoreError::Unavailable(error.into()))
    }

    /// Makes the file an object without a copy, if objects are on a disk that can; answers whether
    /// it did. It takes no turn, because it takes no memory; how many run at a time is bounded by
    /// the runtime's threads for blocking work.
    async fn adopt(&self, location: &Path, file: &SpooledFile) -> Result<bool, StoreError> {
        let Some(disk) = self.disk.clone() else { return Ok(false) };
        let (location, file) = (location.clone(), file.clone());
        let adopted =
            tokio::task::spawn_blocking(move || disk.adopt(location.as_ref(), &file)).await;
        adopted.map_err(|_| broke_off())?
    }

    async fn check_folder(&self) -> Result<(), StoreError> {
        self.with_disk(|disk| disk.check()).await
    }

    /// Awaits what a store does with a body of so many bytes, with patience but not for ever.
    async fn answer<T>(
        &self,
        bytes: usize,
        call: impl Future<Output = object_store::Result<T>> + Send,
    ) -> Result<T, StoreError> {
        if self.disk.is_some() {
            return call.await.map_err(store_error);
        }
        let patience = PATIENCE + Duration::from_secs((bytes / SLOWEST) as u64);
        let answer = match timeout(patience, call).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) if is_transient(&error) => {
                Err(StoreError::Unavailable(Failure::of(&error, self.reason).into()))
            }
            Ok(Err(error)) => Err(StoreError::Internal(Failure::of(&error, self.reason).into())),
            Err(_) => Err(self.silence(patience)),
        };
        self.turns.reached(!matches!(answer, Err(StoreError::Unavailable(_))));
        answer
    }

    fn silence(&self, waited: Duration) -> StoreError {
        StoreError::Unavailable(Failure::silence(waited, self.reason).into())
    }

    async fn remove(&self, location: &Path) -> Result<(), StoreError> {
        let absent_is_fine = |deleted| match deleted {
            Err(error) if is_absent(&error) => Ok(()),
            deleted => deleted,
        };
        self.answer(0, async { absent_is_fine(self.objects.delete(location).await) }).await
    }

    /// What a put takes of the bound on memory, and the size of its parts.
    fn share(&self, file: &SpooledFile) -> (u32, usize) {
        if self.disk.is_some() {
            return (1, DISK_PART);
        }
        let most = REMOTE_PART_MIB;
        (
            u32::try_from(file.size.div_ceil(MIB as u64)).map_or(most, |mib| mib.clamp(1, most)),
            REMOTE_PART,
        )
    }

    /// Uploads a file that is more than its first part.
    async fn put_in_parts(
        &self,
        location: &Path,
        file: &SpooledFile,
        reader: SpoolReader,
        first: PutPayload,
    ) -> Result<(), StoreError> {
        let mut upload = self.answer(0, self.objects.put_multipart(location)).await?;
        let sent = match self.send_parts(&mut *upload, file, reader, first).await {
            // A store may copy the parts for it.
            Ok(()) => {
                self.answer(usize::try_from(file.size).unwrap_or(usize::MAX), upload.complete())
                    .await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = sent {
            // The caller is told the first error. What an abort that fails leaves, the removal of
            // the key takes away from a disk, and a rule of the bucket from a remote store.
            let _ = timeout(ABORT, upload.abort()).await;
            return Err(error);
        }
        Ok(())
    }

    /// Sends all parts and answers whether they were the file that was meant, which must be known
    /// before the upload is completed: from then on the object is seen.
    async fn send_parts(
        &self,
        upload: &mut dyn MultipartUpload,
        file: &SpooledFile,
        mut reader: SpoolReader,
        mut part: PutPayload,
    ) -> Result<(), StoreError> {
        loop {
            self.answer(part.content_length(), upload.put_part(part)).await?;
            if reader.is_at_end() {
                return reader.verify(file);
            }
            (reader, part) = reader.next_part().await?;
        }
    }

    /// The checksums of requests say that the bytes have arrived; this says that the store keeps
    /// one object of all of them. Whatever stands between may say that a put succeeded, and only
    /// the store itself knows the size of what it never saw.
    async fn verify_size(&self, location: &Path, file: &SpooledFile) -> Result<(), StoreError> {
        let stored = self.answer(0, self.objects.head(location)).await?.size;
        if stored == file.size {
            Ok(())
        } else {
            Err(StoreError::Unavailable(WrongSize { stored, size: file.size }.into()))
        }
    }

    async fn put_and_remove_probe(&self) -> Result<(), StoreError> {
        let probe = Path::from(PROBE);
        self.answer(0, self.objects.put(&probe, PutPayload::from_static(PROBE.as_bytes()))).await?;
        self.remove(&probe).await
    }
}

#[async_trait]
impl BlobStore for ObjectBlobStore {
    async fn put(&self, key: &ObjectKey, file: &SpooledFile) -> Result<(), StoreError> {
        let location = location(key)?;
        if self.adopt(&location, file).await? {
            return Ok(());
        }
        let (turns, part) = self.share(file);
        let _turn = self.turns.take(turns).await?;
        self.check_folder().await?;
        let (reader, first) = SpoolReader::open(file, self.blocks.clone(), part).await?;
        if reader.is_at_end() {
            reader.verify(file)?;
            self.answer(first.content_length(), self.objects.put(&location, first)).await?;
        } else {
            self.put_in_parts(&location, file, reader, first).await?;
        }
        if self.disk.is_none() {
            self.verify_size(&location, file).await?;
        }
        self.with_disk(move |disk| disk.sync_folders(location.as_ref())).await
    }

    async fn delete(&self, key: &ObjectKey) -> Result<(), StoreError> {
        let location = location(key)?;
        self.check_folder().await?;
        self.remove(&location).await?;
        self.with_disk(move |disk| disk.finish_delete(location.as_ref())).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.check_folder().await?;
        timeout(CHECK, self.put_and_remove_probe())
            .await
            .unwrap_or_else(|_| Err(self.silence(CHECK)))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("of {size} bytes that were sent the store keeps {stored}")]
struct WrongSize {
    stored: u64,
    size: u64,
}

fn location(key: &ObjectKey) -> Result<Path, StoreError> {
    Path::parse(key.as_str()).map_err(|error| StoreError::Internal(error.into()))
}
