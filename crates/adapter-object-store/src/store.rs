use std::{
    fmt, io,
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
use object_store::{ObjectStore, path::Path};

use crate::{
    PROBE,
    bucket::Bucket,
    disk::{Disk, blocks, unavailable},
    failure::within,
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

    pub(crate) fn on_disk(path: &FilePath) -> io::Result<Self> {
        let disk = Disk::open(path)?;
        // A process that was killed during a check may have left the probe.
        disk.delete(PROBE).map_err(io::Error::other)?;
        Ok(Self::over_disk(disk))
    }

    pub(crate) fn over_disk(disk: Disk) -> Self {
        Self(Place::Disk(disk))
    }

    /// Puts a small object, reads and removes it. Returns when it was put, by the clock of the
    /// store.
    ///
    /// # Errors
    /// The store rejects one of the requests, does not answer in time, or returns other bytes.
    pub async fn probe(&self) -> Result<SystemTime, StoreError> {
        // Not the object of a check: a running service would remove it. Rules for versions of that
        // one select this one too, by their prefix.
        let name = format!("{PROBE}-{}", std::process::id());
        let (bytes, put_at) = match &self.0 {
            Place::Disk(disk) => {
                disk.run(move |disk| disk.probe(&name).map_err(unavailable)).await?
            }
            Place::Bucket(bucket) => bucket.probe(&name).await?,
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
                Ok(disk.run(open).await?.map(|file| blocks(file, range)))
            }
            Place::Bucket(bucket) => bucket.get(location, range).await,
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
                let check = disk.run(|disk| disk.check().map_err(unavailable));
                within(CHECK_TIMEOUT, "", check).await
            }
            Place::Bucket(bucket) => bucket.check(CHECK_TIMEOUT).await,
        }
    }
}

fn location(key: &ObjectKey) -> Result<Path, StoreError> {
    Path::parse(key.as_str()).map_err(|error| StoreError::Internal(error.into()))
}
