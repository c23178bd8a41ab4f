//! Reads spooled files.

use std::{
    fs::File,
    io::{self, Read as _},
    ops::Range,
};

use domain::{
    document::{Sha256Digest, SpooledFile},
    ports::StoreError,
};
use object_store::PutPayload;
use sha2::{Digest as _, Sha256};

/// Reads a spooled file in parts and hashes it.
pub(crate) struct SpoolReader {
    file: File,
    left: u64,
    sha256: Sha256,
}

impl SpoolReader {
    /// Opens a spooled file, which must have the size that it was received with.
    pub(crate) async fn open(spooled: &SpooledFile) -> Result<Self, StoreError> {
        let path = spooled.path.clone();
        let open = move || {
            let file = File::open(path)?;
            Ok(Self { left: file.metadata()?.len(), file, sha256: Sha256::new() })
        };
        let reader = blocking(open).await?;
        if reader.left == spooled.size { Ok(reader) } else { Err(file_changed()) }
    }

    /// Returns whether the whole file was read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.left == 0
    }

    /// Reads the next part, of at most `size` bytes.
    pub(crate) async fn next_part(mut self, size: usize) -> Result<(Self, PutPayload), StoreError> {
        let size = usize::try_from(self.left).map_or(size, |left| left.min(size));
        let mut part = vec![0; size];
        let read = move || {
            self.file.read_exact(&mut part)?;
            self.sha256.update(&part);
            self.left -= size as u64;
            Ok((self, part.into()))
        };
        blocking(read).await
    }

    /// Checks that the bytes read have the SHA-256 of the received file.
    pub(crate) fn verify(self, spooled: &SpooledFile) -> Result<(), StoreError> {
        let sha256 = Sha256Digest(self.sha256.finalize().into());
        if sha256 == spooled.sha256 { Ok(()) } else { Err(file_changed()) }
    }
}

/// Checks that an object of `size` bytes has all bytes of a range.
pub(crate) fn check_size(size: u64, range: &Range<u64>) -> Result<(), StoreError> {
    if range.end <= size {
        return Ok(());
    }
    let end = range.end;
    Err(StoreError::Internal(
        format!("the object has {size} bytes, and {end} were to be read").into(),
    ))
}

/// Creates the error for a spooled file that has changed.
pub(crate) fn file_changed() -> StoreError {
    let cause = "the spooled file no longer has the size and the SHA-256 that it was received with";
    StoreError::Internal(cause.into())
}

/// Classifies an error of reading a file. A missing or truncated file is a bug; any other error is
/// the disk's.
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

/// Reads a file on a thread for blocking work.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(spool_error),
        Err(_) => Err(panicked()),
    }
}
