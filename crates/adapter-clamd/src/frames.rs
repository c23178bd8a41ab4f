//! The blocks of a file, as `INSTREAM` frames them.

use std::{
    fs::File,
    io::{self, Read as _},
};

use domain::document::SpooledFile;
use tokio::task::spawn_blocking;

use crate::failure::Failure;

/// Bytes of a file that are read and sent at a time.
const BLOCK: usize = 128 * 1024;
/// Bytes before a block, with its length.
const HEAD: usize = 4;

/// Reads a file block by block.
pub(crate) struct Frames {
    file: File,
    frame: Vec<u8>,
    /// Bytes of the file that were not read yet.
    left: u64,
}

impl Frames {
    pub(crate) async fn open(spooled: &SpooledFile) -> Result<Self, Failure> {
        let (path, size) = (spooled.path.clone(), spooled.size);
        blocking(move || {
            let file = File::open(path)?;
            Ok(Self { file, frame: Vec::with_capacity(HEAD + BLOCK), left: size })
        })
        .await
    }

    /// Reads the next block. The frame after the last block is empty, and marks the end for clamd;
    /// a file of another size does not get there.
    pub(crate) async fn next(mut self) -> Result<Self, Failure> {
        self = blocking(move || self.read()).await?;
        let read = (self.frame.len() - HEAD) as u64;
        if read > self.left || read == 0 && self.left > 0 {
            return Err(Failure::FileChanged);
        }
        self.left -= read;
        Ok(self)
    }

    fn read(mut self) -> io::Result<Self> {
        self.frame.clear();
        self.frame.extend([0; HEAD]);
        let read = (&self.file).take(BLOCK as u64).read_to_end(&mut self.frame)?;
        let length = u32::try_from(read).map_err(io::Error::other)?;
        self.frame[..HEAD].copy_from_slice(&length.to_be_bytes());
        Ok(self)
    }

    /// Returns the block with its length before it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.frame
    }

    /// Returns whether the frame is the mark of the end.
    pub(crate) fn is_end(&self) -> bool {
        self.frame.len() == HEAD
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    match spawn_blocking(work).await {
        Ok(done) => done.map_err(Failure::File),
        Err(_) => Err(Failure::Panicked),
    }
}
