use std::time::SystemTime;

use async_trait::async_trait;
use domain::{
    document::{ObjectKey, SpooledFile},
    ports::{BlobStore, StoreError},
    trace_context::STEPS,
};
use object_store::path::Path;
use tracing::Span;

/// The key and the bytes of the object that a check puts and deletes.
pub(crate) const PROBE: &str = "readiness-probe";

/// A blob store whose rights and clock an operator can examine.
#[async_trait]
pub trait DocumentStore: BlobStore {
    /// Puts a small object, reads and removes it. Returns when it was put, by the clock of the
    /// store.
    ///
    /// # Errors
    /// The store rejects one of the requests, does not answer in time, or returns other bytes.
    async fn probe(&self) -> Result<SystemTime, StoreError>;
}

/// Returns the span of a put, for the trace of its request.
pub(crate) fn step(file: &SpooledFile) -> Span {
    // An unsigned number would become a text.
    tracing::info_span!(target: STEPS, "store document", size = file.size.cast_signed())
}

/// Checks the bytes of a probe.
pub(crate) fn compare(bytes: &[u8]) -> Result<(), StoreError> {
    if bytes == PROBE.as_bytes() {
        return Ok(());
    }
    Err(StoreError::Internal("the store returns other bytes than were put".into()))
}

pub(crate) fn location(key: &ObjectKey) -> Result<Path, StoreError> {
    Path::parse(key.as_str()).map_err(|error| StoreError::Internal(error.into()))
}
