//! Objects as files in a folder on local disk.

use std::{
    collections::HashSet,
    fs::{self, DirBuilder, File},
    io::{self, Read as _, Write as _},
    ops::Range,
    os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use bytes::Bytes;
use domain::{
    document::{Sha256Digest, SpooledFile},
    ports::{BlobStream, StoreError},
};
use futures_util::{StreamExt as _, stream};
use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;

use crate::{
    PROBE,
    spool::{blocking, check_size, file_changed, panicked, spool_error},
};

/// Bytes that are read at once. A reader whose client is slow holds as many, so they are few.
const BLOCK: usize = 64 * 1024;

/// A folder of objects. Its methods block, except [`Disk::run`].
#[derive(Clone)]
pub(crate) struct Disk {
    root: PathBuf,
    /// Folders below the root whose entries are durable.
    durable: Arc<Mutex<HashSet<PathBuf>>>,
    /// Creates a hard link; tests replace it to simulate a file system without links.
    link: fn(&Path, &Path) -> io::Result<()>,
}

impl Disk {
    /// Opens a folder. Creates a missing one durably, accessible to its owner only.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        for parent in missing.into_iter().filter_map(Path::parent) {
            sync(parent)?;
        }
        Ok(Self {
            root: fs::canonicalize(path)?,
            durable: Arc::default(),
            link: |file, object| fs::hard_link(file, object),
        })
    }

    /// Runs work on a thread for blocking work.
    pub(crate) async fn run<T: Send + 'static, E: From<StoreError> + Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let disk = self.clone();
        spawn_blocking(move || work(&disk)).await.unwrap_or_else(|_| Err(panicked().into()))
    }

    /// Makes a spooled file an object durably, by a hard link. Copies it if there can be no link:
    /// the spool is on another file system, the file system has no links, or the object exists.
    ///
    /// Links rather than moves, because the caller still needs the spooled file if the put fails.
    pub(crate) fn put(&self, object: &str, spooled: &SpooledFile) -> Result<(), StoreError> {
        let root = fs::metadata(&self.root).map_err(unavailable)?;
        let file = File::open(&spooled.path).map_err(spool_error)?;
        let metadata = file.metadata().map_err(spool_error)?;
        if metadata.len() != spooled.size {
            return Err(file_changed());
        }
        let object = self.root.join(object);
        let folder = self.folder_of(&object).map_err(unavailable)?;
        let mut linked = metadata.dev() == root.dev();
        if linked {
            // Before the link, so that the object is complete even after a power failure.
            file.sync_data().map_err(unavailable)?;
            linked = (self.link)(&spooled.path, &object).is_ok();
        }
        if !linked {
            let part = part_of(&object);
            let copied = copy(file, &part, spooled)
                .and_then(|()| fs::rename(&part, &object).map_err(unavailable));
            if copied.is_err() {
                // The caller gets the first error. A removal of the object removes the part, too.
                let _ = fs::remove_file(&part);
            }
            copied?;
        }
        sync(folder).map_err(unavailable)
    }

    /// Returns the folder of an object. Creates it, and makes it durable unless this process has
    /// done so before.
    fn folder_of<'a>(&self, object: &'a Path) -> io::Result<&'a Path> {
        let folder = object.parent().unwrap_or(object);
        let durable = || self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if !folder.is_dir() || !durable().contains(folder) {
            fs::create_dir_all(folder)?;
            let above = folder.ancestors().skip(1);
            above.take_while(|above| above.starts_with(&self.root)).try_for_each(sync)?;
            durable().insert(folder.to_owned());
        }
        Ok(folder)
    }

    /// Opens an object that has all bytes of a range; `None` if there is none.
    pub(crate) fn open_object(
        &self,
        object: &str,
        range: &Range<u64>,
    ) -> Result<Option<File>, StoreError> {
        let opened = File::open(self.root.join(object));
        let (size, file) = match opened.and_then(|file| Ok((file.metadata()?.len(), file))) {
            // Without the folder, nothing is known of its objects.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.root.exists() => {
                return Ok(None);
            }
            opened => opened.map_err(unavailable)?,
        };
        check_size(size, range)?;
        Ok(Some(file))
    }

    /// Removes an object durably, and what a killed process has copied of it.
    pub(crate) fn delete(&self, object: &str) -> Result<(), StoreError> {
        // The object may come back with a removed folder, so it would not count as deleted.
        fs::metadata(&self.root).map_err(unavailable)?;
        let object = self.root.join(object);
        if_present(fs::remove_file(&object)).map_err(unavailable)?;
        if_present(fs::remove_file(part_of(&object))).map_err(unavailable)?;
        if_present(object.parent().map_or(Ok(()), sync)).map_err(unavailable)
    }

    /// Checks that files can be written.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.write(PROBE)?;
        // Another check may have removed it.
        if_present(fs::remove_file(self.root.join(PROBE)))
    }

    /// Writes a file, reads and removes it. Returns its bytes, and when it was written.
    pub(crate) fn probe(&self, name: &str) -> io::Result<(Vec<u8>, SystemTime)> {
        let file = self.write(name)?;
        let path = self.root.join(name);
        let read = fs::read(&path);
        fs::remove_file(&path)?;
        Ok((read?, file.metadata()?.modified()?))
    }

    fn write(&self, name: &str) -> io::Result<File> {
        let mut file = File::create(self.root.join(name))?;
        file.write_all(PROBE.as_bytes())?;
        file.sync_all()?;
        Ok(file)
    }
}

/// Reads a range of a file. Each block is read when the stream is polled for it.
pub(crate) fn blocks(file: File, range: Range<u64>) -> BlobStream {
    let file = Arc::new(file);
    stream::try_unfold(range.start, move |at| {
        let file = Arc::clone(&file);
        async move {
            let left = usize::try_from(range.end - at).unwrap_or(usize::MAX);
            if left == 0 {
                return Ok(None);
            }
            let mut block = vec![0; left.min(BLOCK)];
            let read = move || file.read_exact_at(&mut block, at).map(|()| Bytes::from(block));
            let block = blocking(read).await?;
            let next = at + block.len() as u64;
            Ok(Some((block, next)))
        }
    })
    .boxed()
}

/// Returns the name of an unfinished copy of an object.
fn part_of(object: &Path) -> PathBuf {
    object.with_extension("part")
}

/// Copies a spooled file durably, if it has the bytes that were received.
fn copy(mut file: File, part: &Path, spooled: &SpooledFile) -> Result<(), StoreError> {
    let mut copy = File::create(part).map_err(unavailable)?;
    let (mut sha256, mut block) = (Sha256::new(), vec![0; BLOCK]);
    loop {
        let read = file.read(&mut block).map_err(spool_error)?;
        if read == 0 {
            break;
        }
        sha256.update(&block[..read]);
        copy.write_all(&block[..read]).map_err(unavailable)?;
    }
    if Sha256Digest(sha256.finalize().into()) != spooled.sha256 {
        return Err(file_changed());
    }
    copy.sync_data().map_err(unavailable)
}

pub(crate) fn unavailable(error: io::Error) -> StoreError {
    StoreError::Unavailable(error.into())
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
