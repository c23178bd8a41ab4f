use std::{
    fs::File,
    io::{self, Read as _},
};

use domain::{
    document::{Sha256Digest, SpooledFile},
    ports::StoreError,
};
use object_store::PutPayload;
use sha2::{Digest as _, Sha256};

use crate::blocks::Blocks;

/// Reads a spooled file in parts and keeps account of what it has read.
pub(crate) struct SpoolReader {
    file: File,
    /// Where the bytes of parts are kept.
    blocks: Blocks,
    /// Most bytes of a part.
    part: usize,
    /// Bytes that were in the file when it was opened.
    length: u64,
    read: u64,
    sha256: Sha256,
}

impl SpoolReader {
    /// Opens a spooled file and reads its first part, of at most that many bytes.
    pub(crate) async fn open(
        spooled: &SpooledFile,
        blocks: Blocks,
        part: usize,
    ) -> Result<(Self, PutPayload), StoreError> {
        let path = spooled.path.clone();
        blocking(move || {
            let file = File::open(path)?;
            let length = file.metadata()?.len();
            Self { file, blocks, part, length, read: 0, sha256: Sha256::new() }.read_part()
        })
        .await
    }

    /// Whether nothing is left to be read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.read >= self.length
    }

    /// The next part.
    pub(crate) async fn next_part(self) -> Result<(Self, PutPayload), StoreError> {
        blocking(move || self.read_part()).await
    }

    fn read_part(mut self) -> io::Result<(Self, PutPayload)> {
        let mut left = usize::try_from(self.length.saturating_sub(self.read))
            .map_or(self.part, |left| left.min(self.part));
        let mut part = Vec::new();
        while left > 0 {
            let mut block = self.blocks.take();
            let buffer = block.buffer();
            let size = left.min(buffer.len());
            self.file.read_exact(&mut buffer[..size])?;
            let bytes = block.filled(size);
            self.sha256.update(&bytes);
            part.push(bytes);
            left -= size;
            self.read += size as u64;
        }
        Ok((self, part.into_iter().collect()))
    }

    /// Whether what was read is the file that was meant.
    pub(crate) fn verify(self, spooled: &SpooledFile) -> Result<(), StoreError> {
        let sha256 = Sha256Digest(self.sha256.finalize().into());
        if self.read == spooled.size && sha256 == spooled.sha256 {
            Ok(())
        } else {
            Err(StoreError::Internal(NotTheFile.into()))
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the spooled file does not have the size and the SHA-256 that it had when it was received")]
pub(crate) struct NotTheFile;

/// What it means that a spooled file cannot be read: that it is gone or cut off is a bug, anything
/// else the disk's.
pub(crate) fn spool_error(error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => {
            StoreError::Internal(error.into())
        }
        _ => StoreError::Unavailable(error.into()),
    }
}

/// Work that panicked. Not what the panic says, which may quote what was worked on; its place is
/// told where panics are.
pub(crate) fn broke_off() -> StoreError {
    StoreError::Internal("the work on the file broke off".into())
}

/// Reads and hashes away from the threads that serve requests.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(spool_error),
        Err(_) => Err(broke_off()),
    }
}
