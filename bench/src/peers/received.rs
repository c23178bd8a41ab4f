//! The bytes that a connection receives, in memory that can be written to a file directly.

use std::io::Read;

use memchr::memmem::{self, Finder};

/// Bytes of a direct write.
const BLOCK: usize = 256 * 1024;
/// Direct writes need this alignment.
const ALIGNMENT: usize = 4096;
/// A block, and a delimiter that may begin in it.
const CAPACITY: usize = BLOCK + 128;

/// Takes the bytes of a document.
pub trait Sink {
    /// Takes a block of [`BLOCK`] bytes at an aligned address.
    fn block(&mut self, block: &[u8]);
    /// Takes the bytes after the last block.
    fn last(&mut self, bytes: &[u8]);
}

/// Received bytes.
pub struct Received<R> {
    from: R,
    memory: Vec<u8>,
    /// The first aligned byte.
    first: usize,
    /// Unused bytes begin so far after it.
    used: usize,
    /// Received bytes end so far after it.
    end: usize,
}

impl<R: Read> Received<R> {
    pub fn new(from: R) -> Self {
        let memory = vec![0; ALIGNMENT + CAPACITY];
        let first = memory.as_ptr().align_offset(ALIGNMENT);
        Self { from, memory, first, used: 0, end: 0 }
    }

    fn unused(&self) -> &[u8] {
        &self.memory[self.first..][self.used..self.end]
    }

    /// Moves the unused bytes to the aligned address.
    fn align(&mut self) {
        self.memory.copy_within(self.first + self.used..self.first + self.end, self.first);
        self.end -= self.used;
        self.used = 0;
    }

    /// Receives more bytes. Returns `false` if none will come.
    fn receive(&mut self) -> bool {
        if self.end == CAPACITY {
            self.align();
        }
        let count = self.from.read(&mut self.memory[self.first..][self.end..CAPACITY]).unwrap();
        self.end += count;
        count > 0
    }

    /// Returns the bytes before this text, and continues after it. Returns `None` at the end of the
    /// connection.
    ///
    /// # Panics
    /// If the connection ends elsewhere, or the text does not come.
    pub fn until(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = memmem::find(self.unused(), text) {
                let before = self.unused()[..at].to_vec();
                self.used += at + text.len();
                return Some(before);
            }
            if !self.receive() {
                assert!(self.unused().is_empty(), "the connection ended in a request");
                return None;
            }
        }
    }

    /// Passes on the bytes before a delimiter, and continues after it.
    ///
    /// # Panics
    /// If the connection ends before it.
    pub fn document(&mut self, delimiter: &Finder<'_>, sink: &mut impl Sink) {
        self.align();
        let (length, mut searched) = (delimiter.needle().len(), 0);
        loop {
            if let Some(at) = delimiter.find(&self.unused()[searched..]) {
                sink.last(&self.unused()[..searched + at]);
                self.used += searched + at + length;
                return;
            }
            if self.end == CAPACITY {
                sink.block(&self.unused()[..BLOCK]);
                self.used = BLOCK;
                self.align();
            }
            searched = self.end.saturating_sub(length - 1);
            assert!(self.receive(), "the connection ended in a document");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns this many bytes at once.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let most = self.1.min(buffer.len());
            self.0.read(&mut buffer[..most])
        }
    }

    #[derive(Default)]
    struct Kept(Vec<u8>);

    impl Sink for Kept {
        fn block(&mut self, block: &[u8]) {
            assert_eq!((block.len(), block.as_ptr().align_offset(ALIGNMENT)), (BLOCK, 0));
            self.0.extend(block);
        }

        fn last(&mut self, bytes: &[u8]) {
            self.0.extend(bytes);
        }
    }

    #[test]
    fn document_ends_before_its_delimiter_at_any_length() {
        let delimiter = b"\r\n--b";
        for length in [0, 1, BLOCK - 3, BLOCK, CAPACITY - 6, CAPACITY - 3, CAPACITY, 3 * BLOCK + 7]
        {
            // Carriage returns look like the beginning of a delimiter.
            let content = vec![b'\r'; length];
            let form = [b"head\r\n", &content[..], delimiter, b"next\r\n"].concat();
            for piece in [CAPACITY, 65_536, 4093] {
                let mut received = Received::new(Pieces(&form, piece));
                let mut kept = Kept::default();
                assert_eq!(received.until(b"\r\n").unwrap(), b"head");
                received.document(&Finder::new(delimiter), &mut kept);
                assert!(kept.0 == content, "{length} bytes in pieces of {piece}");
                assert_eq!(received.until(b"\r\n").unwrap(), b"next");
                assert_eq!(received.until(b"\r\n"), None);
            }
        }
    }
}
