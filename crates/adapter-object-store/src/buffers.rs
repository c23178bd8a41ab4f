use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// A pool of buffers of one size. Most allocators return little of the memory that several threads
/// allocate and free in large pieces, so buffers are reused instead.
#[derive(Clone)]
pub(crate) struct BufferPool {
    size: usize,
    /// Most free buffers that the pool keeps.
    max_free: usize,
    free: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl BufferPool {
    pub(crate) fn new(size: usize, max_free: usize) -> Self {
        Self { size, max_free, free: Arc::default() }
    }

    pub(crate) fn take(&self) -> Buffer {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Buffer { bytes: free.unwrap_or_else(|| vec![0; self.size]), filled: 0, pool: self.clone() }
    }
}

/// A buffer in use. Returns to its pool when it is dropped.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    filled: usize,
    pool: BufferPool,
}

impl Buffer {
    /// Returns the whole buffer, to be filled from its start.
    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Converts the first `filled` bytes; dropping the last clone releases the buffer.
    pub(crate) fn into_bytes(mut self, filled: usize) -> Bytes {
        self.filled = filled;
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut free = self.pool.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < self.pool.max_free {
            free.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_is_reused_after_its_last_clone() {
        let pool = BufferPool::new(4, 1);
        let mut buffer = pool.take();
        buffer.as_mut()[..2].copy_from_slice(b"ab");
        let address = buffer.as_mut().as_ptr();
        let bytes = buffer.into_bytes(2);
        drop(bytes.clone());
        assert_eq!(bytes, "ab");
        let mut other = pool.take();
        assert_ne!(other.as_mut().as_ptr(), address);
        drop(bytes);
        assert_eq!(pool.take().as_mut().as_ptr(), address);
        drop(other);
        assert_eq!(pool.free.lock().unwrap().len(), 1, "no more than max_free");
    }
}
