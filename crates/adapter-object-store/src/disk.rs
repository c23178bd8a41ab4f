//! Objects as files in a folder on local disk.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Write as _},
    ops::Range,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use async_trait::async_trait;
use bytes::Bytes;
use domain::{
    document::{ObjectKey, SpooledFile},
    ports::{BlobStore, BlobStream, StoreError},
};
use futures_util::{StreamExt as _, stream::try_unfold};
use tracing::Instrument as _;

use crate::{
    TimeLimits,
    failure::within,
    spool::{SpoolReader, blocking, unavailable},
    store::{DocumentStore, PROBE, compare, location, step},
    stream::{BLOCK, check_size, exactly},
};

/// A folder of objects. The methods that are not those of a port block.
#[derive(Clone)]
pub(crate) struct Disk {
    root: PathBuf,
    /// Folders below the root whose entries are durable.
    durable: Arc<Mutex<HashSet<PathBuf>>>,
    limits: TimeLimits,
}

impl Disk {
    pub(crate) fn new(folder: &Path, limits: TimeLimits) -> Self {
        Self { root: folder.to_owned(), durable: Arc::default(), limits }
    }

    /// Runs work on a thread for blocking work.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let disk = self.clone();
        blocking(move || work(&disk)).await
    }

    /// Returns the path of an object. Fails if its key would leave the folder.
    fn path(&self, key: &ObjectKey) -> Result<PathBuf, StoreError> {
        Ok(self.root.join(location(key)?.as_ref()))
    }

    /// Makes a spooled file an object durably, by a hard link. Copies it if there can be no link: the
    /// spool is on another file system, or the file system has no links.
    ///
    /// Links rather than moves, because the caller still needs the spooled file if the put fails.
    fn link(&self, object: &Path, spooled: &SpooledFile) -> Result<(), StoreError> {
        let reader = SpoolReader::open(spooled)?;
        let folder = object.parent().unwrap_or(object);
        self.make_folder(folder).map_err(unavailable)?;
        if fs::hard_link(&spooled.path, object).is_ok() {
            // After the link, because one commit of the file system's journal then has both.
            reader.file.sync_data().map_err(unavailable)?;
        } else {
            let part = part_of(object);
            let copied =
                copy(reader, &part).and_then(|()| fs::rename(&part, object).map_err(unavailable));
            if copied.is_err() {
                // The caller gets the first error. A removal of the object removes the part, too.
                let _ = fs::remove_file(&part);
            }
            copied?;
        }
        sync(folder).map_err(unavailable)
    }

    /// Creates a folder below the root durably, unless this process has done so before. Does not
    /// create the root again, which may be on a disk that is gone.
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        let durable = || self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if durable().contains(folder) && folder.is_dir() {
            return Ok(());
        }
        match fs::create_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => created?,
        }
        sync(&self.root)?;
        durable().insert(folder.to_owned());
        Ok(())
    }

    /// Returns whether an object exists. Fails if it lacks bytes of a range, or cannot be read.
    fn has_object(&self, object: &Path, range: &Range<u64>) -> Result<bool, StoreError> {
        let size = match File::open(object).and_then(|file| Ok(file.metadata()?.len())) {
            // Without the folder, nothing is known of its objects.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.root.exists() => {
                return Ok(false);
            }
            size => size.map_err(unavailable)?,
        };
        check_size(size, range).map(|()| true)
    }

    /// Removes an object durably, and what a killed process has copied of it.
    fn remove(&self, object: &Path) -> io::Result<()> {
        // The object may come back with a removed folder, so it would not count as deleted.
        fs::metadata(&self.root)?;
        if_present(fs::remove_file(object))?;
        if_present(fs::remove_file(part_of(object)))?;
        if_present(object.parent().map_or(Ok(()), sync))
    }

    /// Writes and reads a file without a name. Returns its bytes, and when it was written.
    fn write_and_read(&self) -> io::Result<(Vec<u8>, SystemTime)> {
        let mut file = tempfile::tempfile_in(&self.root)?;
        file.write_all(PROBE.as_bytes())?;
        file.sync_all()?;
        let mut bytes = vec![0; PROBE.len()];
        file.read_exact_at(&mut bytes, 0)?;
        Ok((bytes, file.metadata()?.modified()?))
    }
}

#[async_trait]
impl BlobStore for Disk {
    async fn put(&self, key: &ObjectKey, file: &SpooledFile) -> Result<(), StoreError> {
        let (object, step, file) = (self.path(key)?, step(file), file.clone());
        self.run(move |disk| disk.link(&object, &file)).instrument(step).await
    }

    async fn get(
        &self,
        key: &ObjectKey,
        range: Range<u64>,
    ) -> Result<Option<BlobStream>, StoreError> {
        let object: Arc<Path> = self.path(key)?.into();
        let (found, wanted) = (Arc::clone(&object), range.clone());
        if !self.run(move |disk| disk.has_object(&found, &wanted)).await? {
            return Ok(None);
        }
        let size = range.end - range.start;
        let blocks = try_unfold(range.start, move |at| {
            let (object, end) =
                (Arc::clone(&object), range.end.min(at.saturating_add(BLOCK as u64)));
            async move {
                if at == end {
                    return Ok(None);
                }
                let block = blocking(move || read(&object, at..end).map_err(unavailable)).await?;
                Ok(Some((block, end)))
            }
        });
        Ok(Some(exactly(size, blocks.boxed())))
    }

    async fn delete(&self, key: &ObjectKey) -> Result<(), StoreError> {
        let object = self.path(key)?;
        self.run(move |disk| disk.remove(&object).map_err(unavailable)).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        within(self.limits.check, "", self.probe()).await.map(drop)
    }
}

#[async_trait]
impl DocumentStore for Disk {
    async fn probe(&self) -> Result<SystemTime, StoreError> {
        let (bytes, put_at) = self.run(|disk| disk.write_and_read().map_err(unavailable)).await?;
        compare(&bytes).map(|()| put_at)
    }
}

/// Reads a block of an object. The file is open no longer: a client that does not read its download must not
/// keep the bytes of an erased document on the disk.
fn read(object: &Path, range: Range<u64>) -> io::Result<Bytes> {
    let mut block = vec![0; usize::try_from(range.end - range.start).unwrap_or(BLOCK)];
    File::open(object)?.read_exact_at(&mut block, range.start)?;
    Ok(block.into())
}

/// Returns the name of an unfinished copy of an object.
fn part_of(object: &Path) -> PathBuf {
    object.with_extension("part")
}

/// Copies a spooled file durably, if it has the bytes that were received.
fn copy(mut reader: SpoolReader, part: &Path) -> Result<(), StoreError> {
    let mut copy = File::create(part).map_err(unavailable)?;
    while reader.left > 0 {
        copy.write_all(&reader.next_part(BLOCK)?).map_err(unavailable)?;
    }
    copy.sync_data().map_err(unavailable)
}

fn if_present(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
