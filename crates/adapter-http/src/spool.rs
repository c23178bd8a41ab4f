//! Stores uploads while they arrive, in a folder of this process under the spool directory.

use std::{
    io, mem,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use domain::{
    api_key::ApiKeyId,
    document::{Sha256Digest, SpooledFile},
};
use sha2::{Digest as _, Sha256};
use tempfile::TempPath;
use tokio::task::spawn_blocking;

use crate::{
    blocks::{Block, Blocks},
    budget::{Budget, Share, UsedUp},
    content::START,
    spool_file::{ALIGNMENT, SpoolFile},
    spool_folder::SpoolFolder,
};

/// Bytes that an upload may hold in memory while it waits for more, apart from the connection's
/// buffer. Smaller writes would wait for the disk too often.
const MAX_HELD: usize = 16 * 1024;

/// The last bytes of an upload go past the page cache if there are at least this many. Fewer bytes
/// are not worth a wait for the disk before the one that makes the file durable.
const MIN_DIRECT: usize = 256 * 1024;

/// The spool of one process. Dropping it removes its folder.
#[derive(Debug)]
pub struct Spool {
    folder: SpoolFolder,
    blocks: Blocks,
    disk: Arc<Budget>,
}

impl Spool {
    /// Opens a spool under `directory`, creating it if necessary, and removes the folders of dead
    /// processes. Entries that no process of the service made stay, and one warning names them. The
    /// files of the spool take their bytes from the budget `disk`.
    pub fn open(directory: &Path, disk: Arc<Budget>) -> io::Result<Self> {
        Ok(Self { folder: SpoolFolder::open(directory)?, blocks: Blocks::default(), disk })
    }

    /// Returns how many bytes of uploads in progress it holds.
    pub(crate) fn used(&self) -> u64 {
        self.disk.used()
    }

    /// Starts an upload of a key's client. Its file is created with the first block.
    pub(crate) fn create(&self, key: ApiKeyId) -> SpoolWriter {
        let sink = Sink {
            folder: self.folder.path().to_owned(),
            file: None,
            start: Vec::new(),
            hash: Sha256::new(),
        };
        SpoolWriter {
            sink: Some(sink),
            disk: self.disk.share(key),
            blocks: self.blocks.clone(),
            block: None,
            held: Vec::new(),
            size: 0,
        }
    }
}

/// Why an upload could not be stored.
#[derive(Debug)]
pub(crate) enum SpoolError {
    /// The spool has no bytes left for this client.
    Full,
    /// The disk failed or is full, or the process has no file descriptors left.
    Io(io::Error),
}

impl From<io::Error> for SpoolError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    // The panic hook has logged a panic. Its message may quote the file.
    spawn_blocking(work).await.map_err(|_| io::Error::other("writing the file panicked"))?
}

/// The file of an upload and the hash of its bytes so far.
struct Sink {
    folder: PathBuf,
    file: Option<SpoolFile>,
    /// The first bytes, for the check of the content.
    start: Vec<u8>,
    hash: Sha256,
}

/// A finished file, for the check of its content.
#[derive(Clone, Copy)]
pub(crate) struct Start<'a> {
    /// Its first bytes.
    pub(crate) bytes: &'a [u8],
    pub(crate) path: &'a Path,
}

impl Sink {
    /// Writes aligned bytes.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.digest(bytes);
        self.file()?.write_aligned(bytes)
    }

    fn write_last(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.digest(bytes);
        self.file()?.write_last(bytes)
    }

    fn digest(&mut self, bytes: &[u8]) {
        if self.start.len() < START {
            let missing = START - self.start.len();
            self.start.extend(bytes.iter().take(missing));
        }
        self.hash.update(bytes);
    }

    /// Returns the file, and creates it first.
    fn file(&mut self) -> io::Result<&mut SpoolFile> {
        let file = match self.file.take() {
            Some(file) => file,
            None => SpoolFile::create_in(&self.folder)?,
        };
        Ok(self.file.insert(file))
    }
}

/// Writes an upload. If it is dropped before it is finished, the file is removed.
pub(crate) struct SpoolWriter {
    /// `None` while a block is being written, and after a failed write.
    sink: Option<Sink>,
    disk: Share,
    blocks: Blocks,
    /// Held only while bytes arrive or are written, because other uploads need blocks, too.
    block: Option<Block>,
    /// Bytes that were too few for a write at a pause.
    held: Vec<u8>,
    size: u64,
}

impl SpoolWriter {
    /// Returns the number of bytes so far.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Adds bytes. Call [`SpoolWriter::pause`] before waiting for more.
    pub(crate) async fn write(&mut self, mut chunk: Bytes) -> Result<(), SpoolError> {
        self.disk.take(chunk.len()).map_err(|UsedUp| SpoolError::Full)?;
        self.size += chunk.len() as u64;
        while !chunk.is_empty() {
            let mut block = self.take_block(1).await?;
            let count = block.free_bytes().min(chunk.len());
            block.append(&chunk.split_to(count));
            self.block = Some(block);
        }
        Ok(())
    }

    /// Returns whether it has a block.
    pub(crate) fn has_block(&self) -> bool {
        self.block.is_some()
    }

    /// Puts the block of [`Self::take_block`] back. The caller has added so many bytes to it, and
    /// calls [`SpoolWriter::pause`] before it waits for more.
    pub(crate) fn put_back(&mut self, block: Block, added: usize) -> Result<(), SpoolError> {
        self.disk.take(added).map_err(|UsedUp| SpoolError::Full)?;
        self.size += added as u64;
        self.block = Some(block);
        Ok(())
    }

    /// Writes the bytes so far, unless they are few, and gives the block back.
    pub(crate) async fn pause(&mut self) -> Result<(), SpoolError> {
        match self.block.take() {
            Some(block) => Ok(self.give_back(block, MAX_HELD).await?),
            None => Ok(()),
        }
    }

    /// Takes the block out. It has place for at least `min_free` bytes: a full one is written first.
    /// Call this only when more bytes are to come, because [`Self::finish`] writes the last block
    /// and checks the content in one step.
    pub(crate) async fn take_block(&mut self, min_free: usize) -> io::Result<Block> {
        if let Some(block) = self.block.take() {
            if block.free_bytes() >= min_free {
                return Ok(block);
            }
            self.give_back(block, 0).await?;
        }
        let mut block = self.blocks.take().await?;
        block.append(&mem::take(&mut self.held));
        Ok(block)
    }

    /// Gives a block back. Writes its aligned bytes, unless they are fewer than `min`, and holds the
    /// others.
    async fn give_back(&mut self, block: Block, min: usize) -> io::Result<()> {
        let aligned = aligned(block.bytes().len(), min);
        self.held.extend_from_slice(&block.bytes()[aligned..]);
        if aligned == 0 {
            return Ok(());
        }
        let mut sink = self.sink.take().ok_or_else(failed_before)?;
        let write = move || sink.write(&block.bytes()[..aligned]).map(|()| sink);
        self.sink = Some(blocking(write).await?);
        Ok(())
    }

    /// Finishes the file, and checks its content.
    pub(crate) async fn finish<T: Send + 'static>(
        self,
        check: impl FnOnce(Start<'_>) -> io::Result<T> + Send + 'static,
    ) -> Result<Spooled<T>, SpoolError> {
        let Self { sink, disk, block, held, size, .. } = self;
        let mut sink = sink.ok_or_else(failed_before)?;
        let spooled = blocking(move || {
            let last = block.as_ref().map_or(&held[..], Block::bytes);
            let (direct, rest) = last.split_at(aligned(last.len(), MIN_DIRECT));
            if !direct.is_empty() {
                sink.write(direct)?;
            }
            sink.write_last(rest)?;
            // Others may need the block while the content is checked.
            drop(block);
            let Sink { file, start, hash, .. } = sink;
            let sha256 = Sha256Digest(hash.finalize().into());
            let path = file.ok_or_else(failed_before)?.into_path();
            let checked = check(Start { bytes: &start, path: &path })?;
            let file = SpooledFile { path: path.to_path_buf(), size, sha256 };
            Ok(Spooled { file, checked, guard: SpoolGuard { _path: path, _disk: disk } })
        });
        Ok(spooled.await?)
    }
}

/// Returns how many of so many bytes are written directly: none of fewer than `min`.
fn aligned(length: usize, min: usize) -> usize {
    if length < min { 0 } else { length - length % ALIGNMENT }
}

fn failed_before() -> io::Error {
    io::Error::other("an earlier write failed")
}

/// A finished file.
#[derive(Debug)]
pub(crate) struct Spooled<T> {
    pub(crate) file: SpooledFile,
    /// The outcome of the check of its content.
    pub(crate) checked: T,
    pub(crate) guard: SpoolGuard,
}

/// Removes a file from the spool when it is dropped, even if the blob store has moved or linked it.
#[derive(Debug)]
pub struct SpoolGuard {
    _path: TempPath,
    _disk: Share,
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{blocks::BLOCK_SIZE, spool_folder::tests::entries};

    fn open(directory: &Path) -> Spool {
        Spool::open(directory, Budget::new(u64::MAX)).unwrap()
    }

    async fn finish(writer: SpoolWriter) -> Result<Spooled<Vec<u8>>, SpoolError> {
        writer.finish(|start| Ok(start.bytes.to_vec())).await
    }

    #[actix_web::test]
    async fn file_is_hashed_and_removed_with_its_guard() {
        let directory = tempfile::tempdir().unwrap();
        let spool = open(directory.path());
        for size in [
            BLOCK_SIZE + MIN_DIRECT + 1,
            2 * BLOCK_SIZE + 7,
            2 * BLOCK_SIZE,
            BLOCK_SIZE,
            MIN_DIRECT + 1,
            MIN_DIRECT,
            MIN_DIRECT - 1,
        ] {
            let mut writer = spool.create(ApiKeyId(1));
            let content: Vec<u8> = (0..=250).cycle().take(size).collect();
            for chunk in content.chunks(1_000) {
                writer.write(Bytes::copy_from_slice(chunk)).await.unwrap();
            }
            let spooled = finish(writer).await.unwrap();
            assert_eq!(spooled.file.size, size as u64);
            assert_eq!(spooled.file.sha256.0, <[u8; 32]>::from(Sha256::digest(&content)));
            assert_eq!(fs::read(&spooled.file.path).unwrap(), content);
            assert_eq!(spooled.checked, content[..START]);
            drop(spooled);
            assert!(entries(spool.folder.path()).is_empty());
        }
    }

    #[actix_web::test]
    async fn pause_writes_large_remainders_only() {
        let directory = tempfile::tempdir().unwrap();
        let spool = open(directory.path());
        let written = || {
            entries(spool.folder.path())
                .iter()
                .map(|name| fs::metadata(spool.folder.path().join(name)).unwrap().len())
                .sum::<u64>()
        };
        for (size, expected) in [
            (MAX_HELD - 1, 0),
            (MAX_HELD, MAX_HELD),
            (BLOCK_SIZE - 1, BLOCK_SIZE - ALIGNMENT),
            (BLOCK_SIZE, BLOCK_SIZE),
        ] {
            let mut writer = spool.create(ApiKeyId(1));
            writer.write(Bytes::from(vec![7; size])).await.unwrap();
            assert_eq!((written(), writer.size()), (0, size as u64));
            writer.pause().await.unwrap();
            assert_eq!(written(), expected as u64, "{size}");
        }
    }

    #[actix_web::test]
    async fn full_block_is_written_when_more_bytes_arrive() {
        let directory = tempfile::tempdir().unwrap();
        let spool = open(directory.path());
        let mut writer = spool.create(ApiKeyId(1));
        writer.write(Bytes::from(vec![7; BLOCK_SIZE])).await.unwrap();
        assert!(entries(spool.folder.path()).is_empty());
        writer.write(Bytes::from_static(b"7")).await.unwrap();
        assert_eq!(entries(spool.folder.path()).len(), 1);
        assert_eq!(finish(writer).await.unwrap().file.size, BLOCK_SIZE as u64 + 1);
    }

    #[actix_web::test]
    async fn failed_write_fails_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let spool = open(directory.path());
        let mut writer = spool.create(ApiKeyId(1));
        fs::remove_dir_all(spool.folder.path()).unwrap();
        assert!(writer.write(Bytes::from(vec![0; BLOCK_SIZE + 1])).await.is_err());
        writer.write(Bytes::from_static(b"more")).await.unwrap();
        let Err(SpoolError::Io(error)) = finish(writer).await else { panic!("finished") };
        assert_eq!(error.to_string(), "an earlier write failed");
    }

    #[actix_web::test]
    async fn file_takes_its_bytes_from_the_budget_until_it_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::open(directory.path(), Budget::new(4_000)).unwrap();
        let bytes = |size| Bytes::from(vec![0; size]);
        let mut writer = spool.create(ApiKeyId(1));
        writer.write(bytes(2_000)).await.unwrap();
        assert!(matches!(writer.write(bytes(1)).await, Err(SpoolError::Full)));
        let spooled = finish(writer).await.unwrap();
        assert_eq!(spool.used(), 2_000);
        assert!(spool.create(ApiKeyId(1)).write(bytes(1)).await.is_err());
        assert!(spool.create(ApiKeyId(2)).write(bytes(1)).await.is_ok());
        drop(spooled);
        assert_eq!(spool.used(), 0);
        assert!(spool.create(ApiKeyId(1)).write(bytes(2_000)).await.is_ok());
    }

    #[actix_web::test]
    async fn pauses_do_not_change_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let spool = open(directory.path());
        for (size, total) in [
            (1, 2 * MIN_DIRECT + 7),
            (1_000, 2 * BLOCK_SIZE + 7),
            (MAX_HELD, 2 * BLOCK_SIZE + 7),
            (3 * MAX_HELD + 1, 2 * BLOCK_SIZE + 7),
            (BLOCK_SIZE, 2 * BLOCK_SIZE + 7),
        ] {
            let mut writer = spool.create(ApiKeyId(1));
            let content: Vec<u8> = (0..=250).cycle().take(total).collect();
            for chunk in content.chunks(size) {
                writer.write(Bytes::copy_from_slice(chunk)).await.unwrap();
                writer.pause().await.unwrap();
            }
            let spooled = finish(writer).await.unwrap();
            assert_eq!(spooled.file.sha256.0, <[u8; 32]>::from(Sha256::digest(&content)), "{size}");
            assert!(fs::read(&spooled.file.path).unwrap() == content, "{size}");
        }
    }

    #[actix_web::test]
    async fn paused_uploads_hold_no_block() {
        let directory = tempfile::tempdir().unwrap();
        let spool = open(directory.path());
        let mut paused = Vec::new();
        for _ in 0..100 {
            let mut writer = spool.create(ApiKeyId(1));
            writer.write(Bytes::from_static(b"%PDF")).await.unwrap();
            writer.pause().await.unwrap();
            paused.push(writer);
        }
        for writer in paused {
            assert_eq!(finish(writer).await.unwrap().file.size, 4);
        }
    }

    #[actix_web::test]
    async fn dropped_upload_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let spool = open(directory.path());
        let mut writer = spool.create(ApiKeyId(1));
        writer.write(Bytes::from(vec![0; BLOCK_SIZE + 1])).await.unwrap();
        drop(writer);
        assert!(entries(spool.folder.path()).is_empty());
    }
}
