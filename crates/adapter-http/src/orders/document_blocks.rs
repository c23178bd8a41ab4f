//! The bytes of a document while they are sent.

use bytes::Bytes;
use domain::ports::{BlobStream, Cause};
use futures_util::StreamExt as _;

use crate::orders::erasure::Look;

/// The reason why a document ends before its end.
pub(super) enum Cut {
    /// The order is erased, the document withdrawn, or the key revoked.
    Gone,
    /// The store failed, or its object has another size than the document.
    Broken(Cause),
}

/// The next bytes of a document, block by block.
pub(super) struct DocumentBlocks {
    pub(super) blocks: BlobStream,
    /// The number of bytes that are not sent yet.
    pub(super) left: u64,
    pub(super) look: Look,
}

impl DocumentBlocks {
    /// Returns the next block; `None` after the last one.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Cut> {
        if self.left == 0 {
            return Ok(None);
        }
        if self.look.is_gone().await {
            return Err(Cut::Gone);
        }
        let broken = |error: &str| Cut::Broken(error.into());
        let block = self.blocks.next().await;
        let block = block.ok_or_else(|| broken("the object is shorter than the document"))?;
        let block = block.map_err(|error| Cut::Broken(error.into()))?;
        let left = self.left.checked_sub(block.len() as u64);
        self.left = left.ok_or_else(|| broken("the object is longer than the document"))?;
        Ok(Some(block))
    }
}
