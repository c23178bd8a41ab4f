use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Memory for the bytes of files, in blocks of one size that are used again and again: most
/// allocators give back little of the large pieces that threads take and return in turns.
#[derive(Clone)]
pub(crate) struct Blocks {
    size: usize,
    /// Most blocks that are kept.
    count: usize,
    free: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Blocks {
    pub(crate) fn new(size: usize, count: usize) -> Self {
        Self { size, count, free: Arc::default() }
    }

    pub(crate) fn take(&self) -> Block {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Block { bytes: free.unwrap_or_else(|| vec![0; self.size]), filled: 0, home: self.clone() }
    }
}

/// A block in use, which returns when it is dropped.
pub(crate) struct Block {
    bytes: Vec<u8>,
    filled: usize,
    home: Blocks,
}

impl Block {
    /// The whole block, to be filled from its beginning.
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The first bytes of it, for as long as somebody holds them.
    pub(crate) fn filled(mut self, bytes: usize) -> Bytes {
        self.filled = bytes;
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut free = self.home.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < self.home.count {
            free.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_used_again_once_nobody_holds_its_bytes() {
        let blocks = Blocks::new(4, 1);
        let mut block = blocks.take();
        block.buffer()[..2].copy_from_slice(b"ab");
        let address = block.buffer().as_ptr();
        let bytes = block.filled(2);
        drop(bytes.clone());
        assert_eq!(bytes, "ab");
        let mut other = blocks.take();
        assert_ne!(other.buffer().as_ptr(), address);
        drop(bytes);
        assert_eq!(blocks.take().buffer().as_ptr(), address);
        // No more are kept than were meant.
        drop(other);
        assert_eq!(blocks.free.lock().unwrap().len(), 1);
    }
}
