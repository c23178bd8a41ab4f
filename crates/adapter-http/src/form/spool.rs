//! Stores uploads while they arrive, in a folder of this process under the spool directory.

use std::{
    fs::Permissions,
    io::{self, Write as _},
    mem,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use domain::{
    api_key::ClientId,
    document::{Content, Sha256Digest, SpooledFile},
};
use sha2::{Digest as _, Sha256};
use tempfile::{NamedTempFile, TempPath};
use tokio::task::spawn_blocking;

use super::spool_folder::{SpoolFolder, UPLOAD};
use crate::access::limits::{Share, Shares};

/// Bytes that are hashed and written at once. A slow upload holds up to as many in memory.
const BLOCK_SIZE: usize = 256 * 1024;

/// The spool of one process. Dropping it removes its folder.
#[derive(Debug)]
pub struct Spool {
    folder: SpoolFolder,
    /// The bytes of all uploads in progress. A client has at most half of them.
    disk: Shares,
}

impl Spool {
    /// Opens a spool under `directory`, creating it if necessary, and removes the folders of dead
    /// processes. Entries that no process of the service made stay, and one warning names them.
    /// The files of the spool have at most `limit` bytes together.
    pub fn open(directory: &Path, limit: u64) -> io::Result<Self> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(Self { folder: SpoolFolder::open(directory)?, disk: Shares::new(limit, limit / 2) })
    }

    /// Returns how many bytes of uploads in progress it holds.
    pub(crate) fn used(&self) -> usize {
        self.disk.used()
    }

    /// Starts an upload of a client. Its file is created with the first block.
    pub(crate) fn create(&self, client: ClientId) -> SpoolWriter {
        let sink = Sink { folder: self.folder.path().to_owned(), file: None, hash: Sha256::new() };
        SpoolWriter { sink: Some(sink), disk: self.disk.of(client), block: Vec::new() }
    }
}

/// The reason why an upload could not be stored.
#[derive(Debug)]
pub(crate) enum SpoolError {
    /// The spool has no bytes left.
    Full,
    /// The disk failed or is full, or the process has no file descriptors left.
    Io(io::Error),
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
    file: Option<NamedTempFile>,
    hash: Sha256,
}

impl Sink {
    /// Writes a block. Creates the file before the first one, with the permissions of a normal file,
    /// because it may become the stored object; the folder keeps other users out.
    fn write(&mut self, block: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(
                tempfile::Builder::new()
                    .prefix(UPLOAD)
                    .permissions(Permissions::from_mode(0o666))
                    .tempfile_in(&self.folder)?,
            ),
        };
        self.hash.update(block);
        file.as_file_mut().write_all(block)
    }
}

/// Writes an upload. If it is dropped before it is finished, the file is removed.
pub(crate) struct SpoolWriter {
    /// `None` while a block is being written, and after a failed write.
    sink: Option<Sink>,
    disk: Share,
    /// Bytes that are not written yet.
    block: Vec<u8>,
}

impl SpoolWriter {
    /// Returns the number of bytes so far.
    pub(crate) fn size(&self) -> u64 {
        self.disk.count as u64
    }

    /// Adds bytes.
    pub(crate) async fn write(&mut self, chunk: Bytes) -> Result<(), SpoolError> {
        if !self.disk.try_take(chunk.len()) {
            return Err(SpoolError::Full);
        }
        if !self.block.is_empty() && self.block.len() + chunk.len() > BLOCK_SIZE {
            let mut sink = self.sink.take().ok_or_else(failed_before).map_err(SpoolError::Io)?;
            let mut block = mem::take(&mut self.block);
            let write = move || {
                sink.write(&block)?;
                block.clear();
                Ok((sink, block))
            };
            let (sink, block) = blocking(write).await.map_err(SpoolError::Io)?;
            (self.sink, self.block) = (Some(sink), block);
        }
        if self.block.capacity() == 0 {
            // Not doubled as it grows: many slow uploads hold a block each.
            self.block.reserve_exact(BLOCK_SIZE);
        }
        self.block.extend_from_slice(&chunk);
        Ok(())
    }

    /// Finishes the file, and checks its content.
    pub(crate) async fn finish(
        self,
        check: impl FnOnce(&Path) -> io::Result<Content> + Send + 'static,
    ) -> Result<Spooled, SpoolError> {
        let Self { sink, disk, block } = self;
        let spooled = blocking(move || {
            let mut sink = sink.ok_or_else(failed_before)?;
            sink.write(&block)?;
            let path = sink.file.ok_or_else(failed_before)?.into_temp_path();
            let content = check(&path)?;
            let sha256 = Sha256Digest(sink.hash.finalize().into());
            let file = SpooledFile { path: path.to_path_buf(), size: disk.count as u64, sha256 };
            Ok(Spooled { file, content, guard: SpoolGuard { _path: path, _disk: disk } })
        });
        spooled.await.map_err(SpoolError::Io)
    }
}

fn failed_before() -> io::Error {
    io::Error::other("an earlier write failed")
}

/// A finished file.
#[derive(Debug)]
pub(crate) struct Spooled {
    pub(crate) file: SpooledFile,
    pub(crate) content: Content,
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

    const CLIENT: ClientId = ClientId(1);

    fn open(directory: &Path) -> Spool {
        Spool::open(directory, u64::MAX).unwrap()
    }

    /// Returns the number of files of uploads.
    fn files(spool: &Spool) -> usize {
        fs::read_dir(spool.folder.path()).unwrap().count() - 1
    }

    async fn finish(writer: SpoolWriter) -> Result<Spooled, SpoolError> {
        writer.finish(|path| fs::read(path).map(|_| Content::Other(None))).await
    }

    #[actix_web::test]
    async fn file_is_hashed_checked_and_removed_with_its_guard() {
        let directory = tempfile::tempdir().unwrap();
        let spool = open(directory.path());
        let sizes = [0, 1, BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 1, 2 * BLOCK_SIZE + 7];
        for (size, piece) in sizes.into_iter().flat_map(|size| [(size, 1_000), (size, 300_000)]) {
            let mut writer = spool.create(CLIENT);
            let content: Vec<u8> = (0..=250).cycle().take(size).collect();
            for chunk in content.chunks(piece) {
                writer.write(Bytes::copy_from_slice(chunk)).await.unwrap();
                assert!(writer.block.len() <= BLOCK_SIZE.max(piece));
            }
            let spooled = finish(writer).await.unwrap();
            assert_eq!(spooled.file.size, size as u64);
            assert_eq!(spooled.file.sha256.0, <[u8; 32]>::from(Sha256::digest(&content)));
            assert!(fs::read(&spooled.file.path).unwrap() == content);
            drop(spooled);
            assert_eq!(files(&spool), 0);
        }
    }

    #[actix_web::test]
    async fn failed_write_fails_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let spool = open(directory.path());
        let mut writer = spool.create(CLIENT);
        fs::remove_dir_all(spool.folder.path()).unwrap();
        writer.write(Bytes::from(vec![0; BLOCK_SIZE])).await.unwrap();
        assert!(writer.write(Bytes::from_static(b"more")).await.is_err());
        writer.write(Bytes::from_static(b"more")).await.unwrap();
        let Err(SpoolError::Io(error)) = finish(writer).await else { panic!("finished") };
        assert_eq!(error.to_string(), "an earlier write failed");
    }

    #[actix_web::test]
    async fn file_takes_its_bytes_from_the_disk_space_until_it_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::open(directory.path(), 4_000).unwrap();
        let bytes = |size| Bytes::from(vec![0; size]);
        let mut writers = [1, 2].map(|client| spool.create(ClientId(client)));
        for writer in &mut writers {
            writer.write(bytes(2_000)).await.unwrap();
        }
        assert!(matches!(spool.create(ClientId(3)).write(bytes(1)).await, Err(SpoolError::Full)));
        let [writer, _other] = writers;
        let spooled = finish(writer).await.unwrap();
        assert_eq!(spool.used(), 4_000);
        drop(spooled);
        assert_eq!(spool.used(), 2_000);
        assert!(spool.create(ClientId(3)).write(bytes(2_000)).await.is_ok());
    }

    #[actix_web::test]
    async fn client_has_at_most_half_of_the_disk_space() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::open(directory.path(), 4_000).unwrap();
        let mut writer = spool.create(CLIENT);
        writer.write(Bytes::from(vec![0; 2_000])).await.unwrap();
        for other in [&mut writer, &mut spool.create(CLIENT)] {
            let more = other.write(Bytes::from_static(b"1")).await;
            assert!(matches!(more, Err(SpoolError::Full)));
        }
        assert!(spool.create(ClientId(2)).write(Bytes::from(vec![0; 2_000])).await.is_ok());
    }

    #[actix_web::test]
    async fn dropped_upload_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let spool = open(directory.path());
        let mut writer = spool.create(CLIENT);
        for _ in 0..2 {
            writer.write(Bytes::from(vec![0; BLOCK_SIZE])).await.unwrap();
        }
        assert_eq!(files(&spool), 1);
        drop(writer);
        assert_eq!(files(&spool), 0);
        assert_eq!(spool.used(), 0);
    }
}
