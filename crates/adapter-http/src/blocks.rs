//! Memory blocks for uploads on their way to the spool.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::spool_file::ALIGNMENT;

/// Size of a block: the bytes that are hashed and written at once. A document that fits needs
/// another thread once.
pub(crate) const BLOCK_SIZE: usize = 1024 * 1024;
/// Number of blocks, shared by all uploads. On two cores, 8 were no faster, and 4 were slower.
const COUNT: usize = 6;
/// Longest wait for a block. The disk is broken then, or too slow for the uploads in progress.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// A fixed number of reused blocks.
#[derive(Debug, Clone)]
pub(crate) struct Blocks {
    permits: Arc<Semaphore>,
    free: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(COUNT)), free: Arc::default() }
    }
}

impl Blocks {
    /// Returns an empty block, and waits until one is free, for at most [`MAX_WAIT`]. Its holder
    /// must wait for nothing but a thread and the disk; otherwise all holders could wait for each
    /// other.
    pub(crate) async fn take(&self) -> io::Result<Block> {
        let permit = timeout(MAX_WAIT, Arc::clone(&self.permits).acquire_owned())
            .await?
            .map_err(io::Error::other)?;
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let memory = free.unwrap_or_else(|| vec![0; BLOCK_SIZE + ALIGNMENT]);
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        let free_blocks = Arc::clone(&self.free);
        Ok(Block { memory, start, length: 0, free_blocks, _permit: permit })
    }
}

/// A block in use. It becomes free when it is dropped.
pub(crate) struct Block {
    /// Is never grown, so that the bytes stay where they are.
    memory: Vec<u8>,
    /// Where the bytes start, which are aligned for direct writes.
    start: usize,
    length: usize,
    free_blocks: Arc<Mutex<Vec<Vec<u8>>>>,
    _permit: OwnedSemaphorePermit,
}

impl Block {
    /// Returns how many bytes still fit.
    pub(crate) fn free_bytes(&self) -> usize {
        BLOCK_SIZE - self.length
    }

    /// Returns the bytes in it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..][..self.length]
    }

    /// Adds bytes, which must fit.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.unfilled()[..bytes.len()].copy_from_slice(bytes);
        self.resize(self.length + bytes.len());
    }

    /// Returns the memory behind its bytes.
    pub(crate) fn unfilled(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][self.length..BLOCK_SIZE]
    }

    /// Drops its last bytes, or adds the first bytes of [`Self::unfilled`].
    pub(crate) fn resize(&mut self, length: usize) {
        debug_assert!(length <= BLOCK_SIZE);
        self.length = length;
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.free_blocks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(std::mem::take(&mut self.memory));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn wait_for_a_block_is_limited() {
        let blocks = Blocks::default();
        let taken = futures_util::future::join_all((0..COUNT).map(|_| blocks.take())).await;
        let error = blocks.take().await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(taken);
        assert!(blocks.take().await.is_ok());
    }

    #[tokio::test]
    async fn blocks_are_limited_and_reused() {
        let blocks = Blocks::default();
        let mut taken: Vec<Block> =
            (0..COUNT).map(|_| blocks.take().now_or_never().unwrap().unwrap()).collect();
        assert!(blocks.take().now_or_never().is_none());
        let mut last = taken.pop().unwrap();
        last.append(b"papers");
        let address = last.bytes().as_ptr();
        assert_eq!(address.align_offset(ALIGNMENT), 0);
        drop(last);
        let again = blocks.take().now_or_never().unwrap().unwrap();
        assert_eq!(
            (again.bytes().as_ptr(), again.bytes().len(), again.free_bytes()),
            (address, 0, BLOCK_SIZE)
        );
    }
}
