//! Where uploads lie while they arrive: a folder of this process alone, under the spool directory.

use std::{
    fs::{self, File, Permissions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use domain::document::{Sha256Digest, SpooledFile};
use sha2::{Digest as _, Sha256};
use tempfile::{NamedTempFile, TempDir, TempPath};
use tokio::task::spawn_blocking;

use crate::blocks::{Block, Blocks};

/// What an upload holds in memory, beside the parser's buffers, while it waits for more bytes.
const REST: usize = 16 * 1024;

const LOCK: &str = "lock";

/// The spool of one process. Its folder goes when it is dropped; what a killed process left is
/// removed by the next that opens the same directory.
#[derive(Debug)]
pub struct Spool {
    folder: TempDir,
    blocks: Blocks,
    _lock: File,
}

impl Spool {
    /// Opens a spool under `directory`, which is created if need be, and removes what dead
    /// processes left there. A folder belongs to a living process as long as somebody holds the
    /// lock on the file in it.
    pub fn open(directory: &Path) -> io::Result<Self> {
        create_private(directory)?;
        // One process at a time looks, so that none takes the folder of another that is about to
        // lock it.
        let entrance = File::create(directory.join(LOCK))?;
        entrance.lock()?;
        for entry in fs::read_dir(directory)? {
            let folder = entry?.path();
            if folder.is_dir() && File::create(folder.join(LOCK))?.try_lock().is_ok() {
                fs::remove_dir_all(&folder)?;
            }
        }
        let folder = tempfile::Builder::new()
            .prefix("uploads-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(directory)?;
        let lock = File::create(folder.path().join(LOCK))?;
        lock.lock()?;
        Ok(Self { folder, blocks: Blocks::default(), _lock: lock })
    }

    /// Begins a file, which is made with its first block.
    pub(crate) fn create(&self) -> SpoolWriter {
        let sink = Sink { folder: self.folder.path().to_owned(), file: None, hash: Sha256::new() };
        SpoolWriter {
            sink: Some(sink),
            blocks: self.blocks.clone(),
            block: None,
            rest: Vec::new(),
            size: 0,
        }
    }
}

fn create_private(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    // Not what a panic says, which the panic hook has told of.
    spawn_blocking(work).await.map_err(|_| io::Error::other("the work on the file broke off"))?
}

/// Where blocks go.
struct Sink {
    folder: PathBuf,
    file: Option<NamedTempFile>,
    hash: Sha256,
}

impl Sink {
    fn write(&mut self, block: &[u8]) -> io::Result<()> {
        self.hash.update(block);
        self.file()?.write_all(block)
    }

    /// The file, in a folder that nobody else may enter. Its own permissions are those of any file,
    /// because it may become the stored object.
    fn file(&mut self) -> io::Result<&mut NamedTempFile> {
        let file = match self.file.take() {
            Some(file) => file,
            None => tempfile::Builder::new()
                .permissions(Permissions::from_mode(0o666))
                .tempfile_in(&self.folder)?,
        };
        Ok(self.file.insert(file))
    }
}

/// A file that arrives. Dropped before it is finished, it is removed.
pub(crate) struct SpoolWriter {
    /// Away only while a block is being written; a write that failed takes it along.
    sink: Option<Sink>,
    blocks: Blocks,
    /// Held only while bytes come or are written, because others wait for it.
    block: Option<Block>,
    /// Fewer bytes than are worth a write.
    rest: Vec<u8>,
    size: u64,
}

impl SpoolWriter {
    /// Bytes so far.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Adds bytes. Who has no more at once calls [`SpoolWriter::pause`] before it waits for them.
    pub(crate) async fn write(&mut self, mut chunk: Bytes) -> io::Result<()> {
        self.size += chunk.len() as u64;
        while !chunk.is_empty() {
            let mut block = self.take_block().await?;
            let room = block.room().min(chunk.len());
            block.bytes.extend_from_slice(&chunk.split_to(room));
            if block.room() == 0 {
                self.flush(block).await?;
            } else {
                self.block = Some(block);
            }
        }
        Ok(())
    }

    /// Writes what has come, unless it is little, and leaves the block to others.
    pub(crate) async fn pause(&mut self) -> io::Result<()> {
        match self.block.take() {
            Some(block) if block.bytes.len() >= REST => self.flush(block).await,
            Some(block) => {
                self.rest.extend_from_slice(&block.bytes);
                Ok(())
            }
            None => Ok(()),
        }
    }

    async fn take_block(&mut self) -> io::Result<Block> {
        if let Some(block) = self.block.take() {
            return Ok(block);
        }
        let mut block = self.blocks.take().await?;
        block.bytes.append(&mut self.rest);
        Ok(block)
    }

    async fn flush(&mut self, block: Block) -> io::Result<()> {
        let mut sink = self.sink.take().ok_or_else(failed_before)?;
        self.sink = Some(blocking(move || sink.write(&block.bytes).map(|()| sink)).await?);
        Ok(())
    }

    /// Ends the file.
    pub(crate) async fn finish(self) -> io::Result<Spooled> {
        let Self { sink, block, rest, size, .. } = self;
        let mut sink = sink.ok_or_else(failed_before)?;
        blocking(move || {
            sink.write(block.as_ref().map_or(&rest, |block| &block.bytes))?;
            let Sink { file, hash, .. } = sink;
            let sha256 = Sha256Digest(hash.finalize().into());
            // Closed, because nobody writes to it any more.
            let guard = file.ok_or_else(failed_before)?.into_temp_path();
            Ok(Spooled { file: SpooledFile { path: guard.to_path_buf(), size, sha256 }, guard })
        })
        .await
    }
}

fn failed_before() -> io::Error {
    io::Error::other("an earlier write failed")
}

/// A file that has arrived. Its name in the spool is removed with its guard, whatever the blob
/// store has made of it.
#[derive(Debug)]
pub(crate) struct Spooled {
    pub(crate) file: SpooledFile,
    pub(crate) guard: TempPath,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::BLOCK_SIZE;

    fn entries(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != LOCK)
            .collect();
        names.sort();
        names
    }

    #[actix_web::test]
    async fn a_file_is_hashed_counted_and_removed_with_its_guard() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::open(directory.path()).unwrap();
        let mut writer = spool.create();
        let content: Vec<u8> = (0..=250).cycle().take(BLOCK_SIZE * 2 + 7).collect();
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

    #[test]
    fn nobody_else_may_enter_the_folder_wherever_it_is() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
        let spool = Spool::open(directory.path()).unwrap();
        assert_eq!(fs::metadata(spool.folder.path()).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn the_directory_is_made_for_nobody_else() {
        let directory = tempfile::tempdir().unwrap();
        let spool = directory.path().join("data/spool");
        drop(Spool::open(&spool).unwrap());
        for made in [&spool, spool.parent().unwrap()] {
            assert_eq!(fs::metadata(made).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }

    #[actix_web::test]
    async fn what_is_worth_a_write_is_written_before_a_pause() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::open(directory.path()).unwrap();
        let written = || {
            entries(spool.folder.path())
                .iter()
                .map(|name| fs::metadata(spool.folder.path().join(name)).unwrap().len())
                .sum::<u64>()
        };
        for (size, expected) in
            [(16 * 1024 - 1, 0), (16 * 1024, 16 * 1024), (BLOCK_SIZE - 1, BLOCK_SIZE - 1)]
        {
            let mut writer = spool.create();
            writer.write(Bytes::from(vec![7; size])).await.unwrap();
            assert_eq!((written(), writer.size()), (0, size as u64));
            writer.pause().await.unwrap();
            assert_eq!(written(), expected as u64, "{size}");
        }
    }

    #[actix_web::test]
    async fn a_file_whose_block_could_not_be_written_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::open(directory.path()).unwrap();
        let mut writer = spool.create();
        fs::remove_dir_all(spool.folder.path()).unwrap();
        assert!(writer.write(Bytes::from(vec![0; BLOCK_SIZE])).await.is_err());
        writer.write(Bytes::from_static(b"more")).await.unwrap();
        assert_eq!(writer.finish().await.unwrap_err().to_string(), "an earlier write failed");
    }

    #[actix_web::test]
    async fn pauses_change_nothing_of_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::open(directory.path()).unwrap();
        for size in [1, 1_000, REST, 3 * REST + 1] {
            let mut writer = spool.create();
            let content: Vec<u8> = (0..=250).cycle().take(2 * BLOCK_SIZE + 7).collect();
            for chunk in content.chunks(size) {
                writer.write(Bytes::copy_from_slice(chunk)).await.unwrap();
                writer.pause().await.unwrap();
            }
            let spooled = writer.finish().await.unwrap();
            assert_eq!(spooled.file.sha256.0, <[u8; 32]>::from(Sha256::digest(&content)), "{size}");
            assert!(fs::read(&spooled.file.path).unwrap() == content, "{size}");
        }
    }

    #[actix_web::test]
    async fn however_many_uploads_pause_another_finds_a_block() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::open(directory.path()).unwrap();
        let mut paused = Vec::new();
        for _ in 0..100 {
            let mut writer = spool.create();
            writer.write(Bytes::from_static(b"%PDF")).await.unwrap();
            writer.pause().await.unwrap();
            paused.push(writer);
        }
        for writer in paused {
            assert_eq!(writer.finish().await.unwrap().file.size, 4);
        }
    }

    #[actix_web::test]
    async fn an_upload_that_breaks_off_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::open(directory.path()).unwrap();
        let mut writer = spool.create();
        writer.write(Bytes::from(vec![0; BLOCK_SIZE])).await.unwrap();
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
