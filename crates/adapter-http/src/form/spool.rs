//! Stores uploads while they arrive, in a folder of this process under the spool directory.

use std::{
    fs::{File, Permissions},
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use domain::{
    api_key::Party,
    document::{Content, ReceivedDocument, Sha256Digest, SpooledFile},
};
use sha2::{Digest as _, Sha256};
use tempfile::{NamedTempFile, TempDir, TempPath};
use tokio::task::spawn_blocking;

use super::spool_folder::{self, UPLOAD};
use crate::admission::limits::{Share, Shares};

/// Bytes that are hashed and written at once. A slow upload holds up to as many in memory.
const BLOCK_SIZE: usize = 256 * 1024;

/// The spool of one process. Dropping it removes its folder.
#[derive(Debug)]
pub struct Spool {
    folder: TempDir,
    /// Locked while this process lives.
    _lock: File,
    /// The bytes of all uploads in progress. A client has at most half of them.
    disk: Shares,
}

impl Spool {
    /// Opens a spool under `directory`, creating it if necessary, and removes the folders of dead
    /// processes. Entries that no process of the service made stay, and one warning names them.
    /// The files of the spool have at most `limit` bytes together.
    pub fn open(directory: &Path, limit: u64) -> io::Result<Self> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let (folder, lock) = spool_folder::open(directory)?;
        Ok(Self { folder, _lock: lock, disk: Shares::new(limit, limit / 2) })
    }

    /// Returns how many bytes of uploads in progress it holds.
    pub(crate) fn used(&self) -> usize {
        self.disk.used()
    }

    /// Starts an upload of a client. Its file is created with the first block.
    pub(crate) fn create(&self, party: Party) -> SpoolWriter {
        let folder = self.folder.path().to_owned();
        SpoolWriter { folder, sink: None, disk: self.disk.of(party), block: Vec::new() }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    // The panic hook has logged a panic. Its message may quote the file.
    spawn_blocking(work).await.map_err(|_| io::Error::other("writing the file panicked"))?
}

/// The file of an upload and the hashes of its bytes so far.
struct Sink {
    file: NamedTempFile,
    hash: Sha256,
    crc32: crc32fast::Hasher,
}

/// Writes a block. Creates the file before the first one, with the permissions of a normal file,
/// because it may become the stored object; the folder keeps other users out.
fn written(sink: Option<Sink>, folder: &Path, block: &[u8]) -> io::Result<Sink> {
    let create = || {
        let permissions = Permissions::from_mode(0o666);
        tempfile::Builder::new().prefix(UPLOAD).permissions(permissions).tempfile_in(folder)
    };
    let mut sink = match sink {
        Some(sink) => sink,
        None => Sink { file: create()?, hash: Sha256::new(), crc32: crc32fast::Hasher::new() },
    };
    sink.hash.update(block);
    sink.crc32.update(block);
    sink.file.write_all(block)?;
    Ok(sink)
}

/// Writes an upload. If it is dropped before it is finished, the file is removed.
pub(crate) struct SpoolWriter {
    folder: PathBuf,
    sink: Option<Sink>,
    disk: Share,
    /// Bytes that are not written yet.
    block: Vec<u8>,
}

impl SpoolWriter {
    /// Returns the number of bytes so far.
    pub(crate) fn size(&self) -> u64 {
        self.disk.count() as u64
    }

    /// Reserves disk space, if the spool has so much. Call it before bytes are added.
    pub(crate) fn reserve(&mut self, bytes: usize) -> bool {
        self.disk.try_take(bytes)
    }

    /// Adds bytes that were reserved. After an error the file is removed.
    pub(crate) async fn write(mut self, chunk: Bytes) -> io::Result<Self> {
        if !self.block.is_empty() && self.block.len() + chunk.len() > BLOCK_SIZE {
            let write = move || {
                self.sink = Some(written(self.sink.take(), &self.folder, &self.block)?);
                self.block.clear();
                Ok(self)
            };
            self = blocking(write).await?;
        }
        if self.block.capacity() == 0 {
            // Not doubled as it grows: many slow uploads hold a block each.
            self.block.reserve_exact(BLOCK_SIZE);
        }
        self.block.extend_from_slice(&chunk);
        Ok(self)
    }

    /// Finishes the file of a document with this name, and checks its content.
    pub(crate) async fn finish(
        self,
        name_as_sent: String,
        check: fn(&str, &Path) -> io::Result<Content>,
    ) -> io::Result<(ReceivedDocument, SpoolGuard)> {
        let Self { folder, sink, disk, block } = self;
        let finish = move || {
            let Sink { file, hash, crc32 } = written(sink, &folder, &block)?;
            let path = file.into_temp_path();
            let content = check(&name_as_sent, &path)?;
            let sha256 = Sha256Digest(hash.finalize().into());
            let file = SpooledFile {
                path: path.to_path_buf(),
                size: disk.count() as u64,
                sha256,
                crc32: crc32.finalize(),
            };
            let document = ReceivedDocument { name_as_sent, file, content };
            Ok((document, SpoolGuard { _path: path, _disk: disk }))
        };
        blocking(finish).await
    }
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

    use domain::api_key::ClientId;

    use super::*;

    const CLIENT: Party = client(1);

    const fn client(number: i64) -> Party {
        Party::Client(ClientId(number))
    }

    fn open(directory: &Path) -> Spool {
        Spool::open(directory, u64::MAX).unwrap()
    }

    /// Returns the number of files of uploads.
    fn files(spool: &Spool) -> usize {
        fs::read_dir(spool.folder.path()).unwrap().count() - 1
    }

    /// Adds bytes; `None` if there is no disk space for them.
    async fn write(mut writer: SpoolWriter, bytes: impl Into<Bytes>) -> Option<SpoolWriter> {
        let bytes = bytes.into();
        if writer.reserve(bytes.len()) { Some(writer.write(bytes).await.unwrap()) } else { None }
    }

    async fn finish(writer: SpoolWriter) -> (ReceivedDocument, SpoolGuard) {
        let check = |_: &str, path: &Path| fs::read(path).map(|_| Content::Other(None));
        writer.finish("a.pdf".to_owned(), check).await.unwrap()
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
                writer = write(writer, chunk.to_vec()).await.unwrap();
                assert!(writer.block.len() <= BLOCK_SIZE.max(piece));
            }
            let (ReceivedDocument { file, .. }, guard) = finish(writer).await;
            assert_eq!(file.size, size as u64);
            assert_eq!(file.sha256.0, <[u8; 32]>::from(Sha256::digest(&content)));
            assert_eq!(file.crc32, crc32fast::hash(&content));
            assert!(fs::read(&file.path).unwrap() == content);
            drop(guard);
            assert_eq!(files(&spool), 0);
        }
    }

    #[actix_web::test]
    async fn file_takes_its_bytes_from_the_disk_space_until_it_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::open(directory.path(), 4_000).unwrap();
        let write = async |number, size| write(spool.create(client(number)), vec![0; size]).await;
        let [writer, _other] = [write(1, 2_000).await.unwrap(), write(2, 2_000).await.unwrap()];
        assert!(write(3, 1).await.is_none());
        let finished = finish(writer).await;
        assert_eq!(spool.used(), 4_000);
        drop(finished);
        assert_eq!(spool.used(), 2_000);
        assert!(write(3, 2_000).await.is_some());
    }

    #[actix_web::test]
    async fn client_has_at_most_half_of_the_disk_space() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::open(directory.path(), 4_000).unwrap();
        let mut writer = write(spool.create(CLIENT), vec![0; 2_000]).await.unwrap();
        assert!(!writer.reserve(1) && !spool.create(CLIENT).reserve(1));
        assert!(spool.create(client(2)).reserve(2_000));
    }

    #[actix_web::test]
    async fn dropped_upload_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let spool = open(directory.path());
        let mut writer = spool.create(CLIENT);
        for _ in 0..2 {
            writer = write(writer, vec![0; BLOCK_SIZE]).await.unwrap();
        }
        assert_eq!(files(&spool), 1);
        drop(writer);
        assert_eq!(files(&spool), 0);
        assert_eq!(spool.used(), 0);
    }
}
