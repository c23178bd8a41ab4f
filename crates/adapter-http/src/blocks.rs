use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that are hashed and written at once.
pub(crate) const BLOCK_SIZE: usize = 256 * 1024;
/// Blocks that are in memory at a time, over all uploads.
const COUNT: usize = 16;

/// Memory for bytes on their way to the spool, in blocks that are used again and again.
#[derive(Debug, Clone)]
pub(crate) struct Blocks {
    turns: Arc<Semaphore>,
    free: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(COUNT)), free: Arc::default() }
    }
}

impl Blocks {
    /// An empty block, once there is one. Who holds one waits for nothing but its being written:
    /// else all could wait for each other.
    pub(crate) async fn take(&self) -> io::Result<Block> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(io::Error::other)?;
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Ok(Block {
            bytes: free.unwrap_or_else(|| Vec::with_capacity(BLOCK_SIZE)),
            home: Arc::clone(&self.free),
            _turn: turn,
        })
    }
}

/// A block in use, which returns when it is dropped.
pub(crate) struct Block {
    pub(crate) bytes: Vec<u8>,
    home: Arc<Mutex<Vec<Vec<u8>>>>,
    _turn: OwnedSemaphorePermit,
}

impl Block {
    /// Bytes that it can still take.
    pub(crate) fn room(&self) -> usize {
        BLOCK_SIZE - self.bytes.len()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.bytes.clear();
        self.home
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn there_are_so_many_blocks_and_each_is_used_again() {
        let blocks = Blocks::default();
        let mut taken: Vec<Block> =
            (0..COUNT).map(|_| blocks.take().now_or_never().unwrap().unwrap()).collect();
        assert!(blocks.take().now_or_never().is_none());
        let mut last = taken.pop().unwrap();
        last.bytes.extend_from_slice(b"papers");
        let address = last.bytes.as_ptr();
        drop(last);
        let again = blocks.take().now_or_never().unwrap().unwrap();
        assert_eq!(
            (again.bytes.as_ptr(), again.bytes.len(), again.room()),
            (address, 0, BLOCK_SIZE)
        );
    }
}
