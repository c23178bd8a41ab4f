//! Where uploads lie while they arrive: a folder of this process alone, under the spool directory.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::Path,
};

use bytes::Bytes;
use domain::document::{Sha256Digest, SpooledFile};
use sha2::{Digest as _, Sha256};
use tempfile::{NamedTempFile, TempDir, TempPath};
use tokio::task::spawn_blocking;

/// Bytes that are hashed and written at once, off the event loop. Together with the parser's buffers it is what an
/// upload holds in memory.
const BLOCK: usize = 32 * 1024;

const LOCK: &str = "lock";

/// The spool of one process. Its folder goes when it is dropped; what a killed process left is removed by the next
/// that opens the same directory.
#[derive(Debug)]
pub struct Spool {
    folder: TempDir,
    _lock: File,
}

impl Spool {
    /// Opens a spool under `directory`, which is created if need be, and removes what dead processes left there. A
    /// folder belongs to a living process as long as somebody holds the lock on the file in it.
    pub fn open(directory: &Path) -> io::Result<Self> {
        create_private(directory)?;
        // One process at a time looks, so that none takes the folder of another that is about to lock it.
        let entrance = File::create(directory.join(LOCK))?;
        entrance.lock()?;
        for entry in fs::read_dir(directory)? {
            let folder = entry?.path();
            if folder.is_dir() && File::create(folder.join(LOCK))?.try_lock().is_ok() {
                fs::remove_dir_all(&folder)?;
            }
        }
        let folder = tempfile::Builder::new().prefix("uploads-").tempdir_in(directory)?;
        let lock = File::create(folder.path().join(LOCK))?;
        lock.lock()?;
        Ok(Self { folder, _lock: lock })
    }

    /// Begins a file.
    pub(crate) async fn create(&self) -> io::Result<SpoolWriter> {
        let folder = self.folder.path().to_owned();
        let (file, path) = blocking(move || NamedTempFile::new_in(folder)).await?.into_parts();
        Ok(SpoolWriter { sink: Some(Sink { file, hash: Sha256::new() }), path, pending: Vec::with_capacity(BLOCK), size: 0 })
    }
}

fn create_private(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}

struct Sink {
    file: File,
    hash: Sha256,
}

/// A file that arrives. Dropped before it is finished, it is removed.
pub(crate) struct SpoolWriter {
    /// Away only while a block is being written; a write that failed takes it along.
    sink: Option<Sink>,
    path: TempPath,
    pending: Vec<u8>,
    size: u64,
}

impl SpoolWriter {
    /// Bytes so far.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Adds bytes.
    pub(crate) async fn write(&mut self, mut chunk: Bytes) -> io::Result<()> {
        self.size += chunk.len() as u64;
        while !chunk.is_empty() {
            let room = BLOCK - self.pending.len();
            self.pending.extend_from_slice(&chunk.split_to(room.min(chunk.len())));
            if self.pending.len() == BLOCK {
                self.flush().await?;
            }
        }
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        let mut sink = self.sink.take().ok_or_else(|| io::Error::other("an earlier write failed"))?;
        let mut block = std::mem::take(&mut self.pending);
        (self.sink, self.pending) = blocking(move || {
            sink.hash.update(&block);
            sink.file.write_all(&block)?;
            block.clear();
            Ok((Some(sink), block))
        })
        .await?;
        Ok(())
    }

    /// Ends the file.
    pub(crate) async fn finish(mut self) -> io::Result<Spooled> {
        self.flush().await?;
        let sink = self.sink.ok_or_else(|| io::Error::other("an earlier write failed"))?;
        let sha256 = Sha256Digest(sink.hash.finalize().into());
        Ok(Spooled { file: SpooledFile { path: self.path.to_path_buf(), size: self.size, sha256 }, guard: self.path })
    }
}

/// A file that has arrived. It is removed with its guard, unless the blob store has moved it away.
#[derive(Debug)]
pub(crate) struct Spooled {
    pub(crate) file: SpooledFile,
    pub(crate) guard: TempPath,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).filter(|name| name != LOCK).collect();
        names.sort();
        names
    }

    #[actix_web::test]
    async fn a_file_is_hashed_counted_and_removed_with_its_guard() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::open(directory.path()).unwrap();
        let mut writer = spool.create().await.unwrap();
        let content: Vec<u8> = (0..=250).cycle().take(BLOCK * 2 + 7).collect();
        for chunk in content.chunks(1_000) {
            writer.write(Bytes::copy_from_slice(chunk)).await.unwrap();
        }
        let spooled = writer.finish().await.unwrap();
        assert_eq!(spooled.file.size, content.len() as u64);
        assert_eq!(spooled.file.sha256.0, <[u8; 32]>::from(Sha256::digest(&content)));
        assert_eq!(fs::read(&spooled.file.path).unwrap(), content);
        drop(spooled);
        assert!(entries(spool.folder.path()).is_empty());
    }

    #[actix_web::test]
    async fn an_upload_that_breaks_off_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::open(directory.path()).unwrap();
        let mut writer = spool.create().await.unwrap();
        writer.write(Bytes::from(vec![0; BLOCK])).await.unwrap();
        drop(writer);
        assert!(entries(spool.folder.path()).is_empty());
    }

    #[test]
    fn the_folder_of_a_dead_process_is_removed_and_that_of_a_living_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let living = Spool::open(directory.path()).unwrap();
        let dead = directory.path().join("uploads-dead");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        fs::write(dead.join("upload"), "papers").unwrap();
        let second = Spool::open(directory.path()).unwrap();
        assert!(!dead.exists());
        assert_eq!(entries(directory.path()).len(), 2);
        drop((living, second));
        assert!(entries(directory.path()).is_empty());
    }
}
