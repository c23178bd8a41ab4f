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

use crate::buffers::BufferPool;

/// Reads a spooled file in parts and hashes it.
pub(crate) struct SpoolReader {
    file: File,
    buffers: BufferPool,
    part_size: usize,
    /// Size of the file when it was opened.
    length: u64,
    read: u64,
    sha256: Sha256,
}

impl SpoolReader {
    /// Opens a spooled file and reads its first part.
    pub(crate) async fn open(
        spooled: &SpooledFile,
        buffers: BufferPool,
        part_size: usize,
    ) -> Result<(Self, PutPayload), StoreError> {
        let path = spooled.path.clone();
        blocking(move || {
            let file = File::open(path)?;
            let length = file.metadata()?.len();
            Self { file, buffers, part_size, length, read: 0, sha256: Sha256::new() }.read_part()
        })
        .await
    }

    /// Returns whether the whole file was read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.read >= self.length
    }

    /// Reads the next part.
    pub(crate) async fn next_part(self) -> Result<(Self, PutPayload), StoreError> {
        blocking(move || self.read_part()).await
    }

    fn read_part(mut self) -> io::Result<(Self, PutPayload)> {
        let mut left = usize::try_from(self.length.saturating_sub(self.read))
            .map_or(self.part_size, |left| left.min(self.part_size));
        let mut part = Vec::new();
        while left > 0 {
            let mut buffer = self.buffers.take();
            let size = left.min(buffer.as_mut().len());
            self.file.read_exact(&mut buffer.as_mut()[..size])?;
            let bytes = buffer.into_bytes(size);
            self.sha256.update(&bytes);
            part.push(bytes);
            left -= size;
            self.read += size as u64;
        }
        Ok((self, part.into_iter().collect()))
    }

    /// Checks that the bytes read have the size and the SHA-256 of the received file.
    pub(crate) fn verify(self, spooled: &SpooledFile) -> Result<(), StoreError> {
        let sha256 = Sha256Digest(self.sha256.finalize().into());
        if self.read == spooled.size && sha256 == spooled.sha256 {
            Ok(())
        } else {
            Err(file_changed())
        }
    }
}

/// Creates the error for a spooled file that has changed.
pub(crate) fn file_changed() -> StoreError {
    let cause = "the spooled file no longer has the size and the SHA-256 that it was received with";
    StoreError::Internal(cause.into())
}

/// Classifies an error of reading a spooled file. A missing or truncated file is a bug; any other
/// error is the disk's.
pub(crate) fn spool_error(error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => {
            StoreError::Internal(error.into())
        }
        _ => StoreError::Unavailable(error.into()),
    }
}

/// Creates the error for a file operation that panicked. The message of the panic may quote
/// personal data, so it is not included; the panic hook logs where it happened.
pub(crate) fn panicked() -> StoreError {
    StoreError::Internal("the file operation panicked".into())
}

/// Reads and hashes on a thread for blocking work.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(spool_error),
        Err(_) => Err(panicked()),
    }
}
