use std::{
    fmt,
    ops::Range,
    path::Path as FilePath,
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use domain::{
    document::{ObjectKey, SpooledFile},
    ports::{BlobStore, BlobStream, StoreError},
};
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::{ObjectStore, path::Path};
use tokio::io::AsyncReadExt as _;
use tokio_util::io::ReaderStream;

use crate::{
    OpenError, PROBE,
    bucket::Bucket,
    disk::Disk,
    failure::within,
    spool::unavailable,
    stream::{BLOCK, exactly},
};

/// Time limit for a check. The readiness endpoint allows two seconds.
const CHECK_TIMEOUT: Duration = Duration::from_millis(1_500);

/// A blob store in a folder or in a remote store.
pub struct ObjectBlobStore(Place);

enum Place {
    Disk(Disk),
    Bucket(Bucket),
}

impl fmt::Debug for ObjectBlobStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ObjectBlobStore").finish_non_exhaustive()
    }
}

impl ObjectBlobStore {
    pub(crate) fn remote(objects: Arc<dyn ObjectStore>, hint: &'static str) -> Self {
        Self(Place::Bucket(Bucket::new(objects, hint)))
    }

    /// Opens a folder on local disk and creates it if it is missing.
    pub fn in_folder(path: &FilePath) -> Result<Self, OpenError> {
        let disk = Disk::open(path)
            .map_err(|source| OpenError::Folder { path: path.to_owned(), source })?;
        Ok(Self(Place::Disk(disk)))
    }

    /// Puts a small object, reads and removes it. Returns when it was put, by the clock of the
    /// store.
    ///
    /// # Errors
    /// The store rejects one of the requests, does not answer in time, or returns other bytes.
    pub async fn probe(&self) -> Result<SystemTime, StoreError> {
        let (bytes, put_at) = match &self.0 {
            Place::Disk(disk) => disk.run(|disk| disk.probe().map_err(unavailable)).await?,
            Place::Bucket(bucket) => bucket.probe().await?,
        };
        if bytes == PROBE.as_bytes() {
            Ok(put_at)
        } else {
            Err(StoreError::Internal("the store returns other bytes than were put".into()))
        }
    }
}

#[async_trait]
impl BlobStore for ObjectBlobStore {
    async fn put(&self, key: &ObjectKey, file: &SpooledFile) -> Result<(), StoreError> {
        let (location, file) = (location(key)?, file.clone());
        match &self.0 {
            Place::Disk(disk) => disk.run(move |disk| disk.put(location.as_ref(), &file)).await,
            Place::Bucket(bucket) => bucket.put(&location, &file).await,
        }
    }

    async fn get(
        &self,
        key: &ObjectKey,
        range: Range<u64>,
    ) -> Result<Option<BlobStream>, StoreError> {
        let location = location(key)?;
        match &self.0 {
            Place::Disk(disk) => {
                let wanted = range.clone();
                let open = move |disk: &Disk| disk.open_object(location.as_ref(), &wanted);
                let Some(file) = disk.run(open).await? else { return Ok(None) };
                let file = tokio::fs::File::from_std(file);
                let size = range.end - range.start;
                let blocks = ReaderStream::with_capacity(file.take(size), BLOCK);
                Ok(Some(exactly(size, blocks.map_err(unavailable).boxed())))
            }
            Place::Bucket(bucket) => bucket.get(&location, range).await,
        }
    }

    async fn delete(&self, key: &ObjectKey) -> Result<(), StoreError> {
        let location = location(key)?;
        match &self.0 {
            Place::Disk(disk) => disk.run(move |disk| disk.delete(location.as_ref())).await,
            Place::Bucket(bucket) => bucket.delete(&location).await,
        }
    }

    async fn check(&self) -> Result<(), StoreError> {
        match &self.0 {
            Place::Disk(disk) => {
                let check = disk.run(|disk| disk.probe().map(drop).map_err(unavailable));
                within(CHECK_TIMEOUT, "", check).await
            }
            Place::Bucket(bucket) => bucket.check(CHECK_TIMEOUT).await,
        }
    }
}

fn location(key: &ObjectKey) -> Result<Path, StoreError> {
    Path::parse(key.as_str()).map_err(|error| StoreError::Internal(error.into()))
}
