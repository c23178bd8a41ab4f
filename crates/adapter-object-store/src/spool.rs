use std::{
    fs::File,
    io::{self, Read as _},
};

use domain::{
    document::{Sha256Digest, SpooledFile},
    ports::StoreError,
};
use sha2::{Digest as _, Sha256};

/// Most bytes of a file that are in memory at a time.
pub(crate) const PART: usize = 128 * 1024;

/// Reads a spooled file in parts and keeps account of what it has read.
pub(crate) struct SpoolReader {
    file: File,
    size: u64,
    sha256: Sha256,
}

impl SpoolReader {
    /// Opens a spooled file and reads its first part.
    pub(crate) async fn open(spooled: &SpooledFile) -> Result<(Self, Vec<u8>), StoreError> {
        let path = spooled.path.clone();
        blocking(move || Self { file: File::open(path)?, size: 0, sha256: Sha256::new() }.read_part()).await
    }

    /// The next part; it is shorter than [`PART`] at the end of the file.
    pub(crate) async fn next_part(self) -> Result<(Self, Vec<u8>), StoreError> {
        blocking(move || self.read_part()).await
    }

    fn read_part(mut self) -> io::Result<(Self, Vec<u8>)> {
        let mut part = Vec::with_capacity(PART);
        self.file.by_ref().take(PART as u64).read_to_end(&mut part)?;
        self.size += part.len() as u64;
        self.sha256.update(&part);
        Ok((self, part))
    }

    /// Whether what was read is the file that was meant.
    pub(crate) fn verify(self, spooled: &SpooledFile) -> Result<(), StoreError> {
        let sha256 = Sha256Digest(self.sha256.finalize().into());
        if self.size == spooled.size && sha256 == spooled.sha256 { Ok(()) } else { Err(StoreError::Internal(NotTheFile.into())) }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the spooled file does not have the size and the SHA-256 that it had when it was received")]
struct NotTheFile;

/// Reads and hashes away from the threads that serve requests.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::Internal(error.into()),
            _ => StoreError::Unavailable(error.into()),
        }),
        Err(error) => Err(StoreError::Internal(error.into())),
    }
}
