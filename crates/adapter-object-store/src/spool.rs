//! Reads spooled files.

use std::{
    fs::File,
    io::{self, Read as _},
};

use domain::{
    document::{Sha256Digest, SpooledFile},
    ports::StoreError,
};
use sha2::{Digest as _, Sha256};

/// Reads a spooled file in parts and checks that it has the bytes that were received. Blocks.
pub(crate) struct SpoolReader {
    pub(crate) file: File,
    /// Bytes that were not read yet.
    pub(crate) left: u64,
    sha256: Sha256,
    expected: Sha256Digest,
}

impl SpoolReader {
    /// Opens a file, which must have the size that it was received with.
    pub(crate) fn open(spooled: &SpooledFile) -> Result<Self, StoreError> {
        let file = File::open(&spooled.path).map_err(unavailable)?;
        let left = file.metadata().map_err(unavailable)?.len();
        if left != spooled.size {
            return Err(file_changed());
        }
        Ok(Self { file, left, sha256: Sha256::new(), expected: spooled.sha256 })
    }

    /// Reads the next part, of at most `size` bytes. Fails instead of returning the last part if the
    /// file has another SHA-256.
    pub(crate) fn next_part(&mut self, size: usize) -> Result<Vec<u8>, StoreError> {
        let size = usize::try_from(self.left).map_or(size, |left| left.min(size));
        let mut part = vec![0; size];
        self.file.read_exact(&mut part).map_err(unavailable)?;
        self.sha256.update(&part);
        self.left -= size as u64;
        if self.left == 0 && Sha256Digest(self.sha256.finalize_reset().into()) != self.expected {
            return Err(file_changed());
        }
        Ok(part)
    }
}

/// Creates the error for a spooled file that has changed.
fn file_changed() -> StoreError {
    let cause = "the spooled file no longer has the size and the SHA-256 that it was received with";
    StoreError::Internal(cause.into())
}

pub(crate) fn unavailable(error: io::Error) -> StoreError {
    StoreError::Unavailable(error.into())
}

/// Runs work on a thread for blocking work. The message of a panic may quote personal data, so it is
/// not part of the error; the panic hook logs where it happened.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let panicked = |_| StoreError::Internal("the file operation panicked".into());
    tokio::task::spawn_blocking(work).await.map_err(panicked)?
}
