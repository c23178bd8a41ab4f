use std::{fmt, io, path::Path as FilePath, sync::Arc};

use async_trait::async_trait;
use domain::{
    document::{ObjectKey, SpooledFile},
    ports::{BlobStore, StoreError},
};
use object_store::{Error, MultipartUpload, ObjectStore, ObjectStoreExt as _, PutPayload, local::LocalFileSystem, path::Path};
use tokio::sync::Semaphore;

use crate::{
    disk::Disk,
    spool::{PART, SpoolReader},
};

/// Puts that are worked on at a time; each holds one part of a file in memory.
const PARALLEL_PUTS: usize = 8;

/// The object that a check puts and deletes.
const PROBE: &str = "readiness-probe";

/// A blob store over an object store.
pub struct ObjectBlobStore {
    objects: Arc<dyn ObjectStore>,
    disk: Option<Disk>,
    puts: Semaphore,
}

impl fmt::Debug for ObjectBlobStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ObjectBlobStore").finish_non_exhaustive()
    }
}

impl ObjectBlobStore {
    /// A blob store over an object store that makes an object durable before it says that it is complete.
    pub fn over(objects: Arc<dyn ObjectStore>) -> Self {
        Self { objects, disk: None, puts: Semaphore::new(PARALLEL_PUTS) }
    }

    pub(crate) fn on_disk(path: &FilePath) -> io::Result<Self> {
        let disk = Disk::open(path)?;
        let objects = LocalFileSystem::new_with_prefix(disk.root())?.with_fsync(true);
        Ok(Self { disk: Some(disk), ..Self::over(Arc::new(objects)) })
    }

    /// Runs blocking work on the disk, if the objects are on one.
    async fn with_disk(&self, work: impl FnOnce(Disk) -> io::Result<()> + Send + 'static) -> Result<(), StoreError> {
        let Some(disk) = self.disk.clone() else { return Ok(()) };
        let done = tokio::task::spawn_blocking(move || work(disk)).await.map_err(|error| StoreError::Internal(error.into()))?;
        done.map_err(|error| StoreError::Unavailable(error.into()))
    }

    async fn check_folder(&self) -> Result<(), StoreError> {
        self.with_disk(|disk| disk.check()).await
    }

    async fn remove(&self, location: &Path) -> Result<(), StoreError> {
        match self.objects.delete(location).await {
            Err(Error::NotFound { .. }) => Ok(()),
            deleted => deleted.map_err(store_error),
        }
    }

    /// Uploads a file whose first part is full.
    async fn put_in_parts(&self, location: &Path, file: &SpooledFile, reader: SpoolReader, first: Vec<u8>) -> Result<(), StoreError> {
        let mut upload = self.objects.put_multipart(location).await.map_err(store_error)?;
        if let Err(error) = send_parts(&mut *upload, file, reader, first).await {
            // The caller is told the first error, and deletes the key, with what an abort that fails leaves.
            let _ = upload.abort().await;
            return Err(error);
        }
        upload.complete().await.map(drop).map_err(store_error)
    }
}

/// Sends all parts and answers whether they were the file that was meant, which must be known before the upload is
/// completed: from then on the object is seen.
async fn send_parts(upload: &mut dyn MultipartUpload, file: &SpooledFile, mut reader: SpoolReader, mut part: Vec<u8>) -> Result<(), StoreError> {
    while !part.is_empty() {
        upload.put_part(PutPayload::from(part)).await.map_err(store_error)?;
        (reader, part) = reader.next_part().await?;
    }
    reader.verify(file)
}

#[async_trait]
impl BlobStore for ObjectBlobStore {
    async fn put(&self, key: &ObjectKey, file: &SpooledFile) -> Result<(), StoreError> {
        let location = location(key)?;
        let _turn = self.puts.acquire().await.map_err(|error| StoreError::Internal(error.into()))?;
        self.check_folder().await?;
        let (reader, first) = SpoolReader::open(file).await?;
        if first.len() < PART {
            reader.verify(file)?;
            self.objects.put(&location, PutPayload::from(first)).await.map_err(store_error)?;
        } else {
            self.put_in_parts(&location, file, reader, first).await?;
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
        let probe = Path::from(PROBE);
        self.objects.put(&probe, PutPayload::from_static(PROBE.as_bytes())).await.map_err(store_error)?;
        self.remove(&probe).await
    }
}

fn location(key: &ObjectKey) -> Result<Path, StoreError> {
    Path::parse(key.as_str()).map_err(|error| StoreError::Internal(error.into()))
}

/// A store that refuses the service is one that does not answer: once an operator has mended that, the same call succeeds.
fn store_error(error: Error) -> StoreError {
    match error {
        Error::Generic { .. } | Error::NotFound { .. } | Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            StoreError::Unavailable(error.into())
        }
        _ => StoreError::Internal(error.into()),
    }
}
