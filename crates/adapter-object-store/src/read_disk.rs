//! Reads objects on local disk in blocks.

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt as _, sync::Arc};

use bytes::Bytes;
use domain::ports::{BlobStream, GetError, StoreError};
use futures_util::{StreamExt as _, stream};

use crate::{
    buffers::BufferPool,
    disk::{Disk, unavailable},
    spool::panicked,
};

/// Size of a block. A reader whose client is slow holds one, so it is small.
pub(crate) const BLOCK: usize = 32 * 1024;

impl Disk {
    /// Opens an object that has all bytes of a range.
    pub(crate) fn open_object(&self, object: &str, range: &Range<u64>) -> Result<File, GetError> {
        let opened = File::open(self.path(object)).and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = match opened {
            // Without the folder, nothing is known of its objects.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.check().is_ok() => {
                return Err(GetError::Missing);
            }
            opened => opened.map_err(unavailable)?,
        };
        check_size(metadata.len(), range)?;
        Ok(file)
    }
}

/// Checks that an object of `size` bytes has all bytes of a range.
pub(crate) fn check_size(size: u64, range: &Range<u64>) -> Result<(), GetError> {
    if range.end <= size {
        return Ok(());
    }
    let end = range.end;
    Err(GetError::Internal(
        format!("the object has {size} bytes, and {end} were to be read").into(),
    ))
}

/// Reads a range of a file. Each block is read when the stream is polled for it.
pub(crate) fn blocks(file: File, range: Range<u64>, buffers: BufferPool) -> BlobStream {
    let file = Arc::new(file);
    stream::try_unfold(range.start, move |at| {
        let (file, buffers) = (Arc::clone(&file), buffers.clone());
        async move {
            if at >= range.end {
                return Ok(None);
            }
            let read = move || read_block(&file, at..range.end, &buffers);
            let block = tokio::task::spawn_blocking(read).await.map_err(|_| panicked())?;
            let block = block.map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => StoreError::Internal(error.into()),
                _ => unavailable(error),
            })?;
            let next = at + block.len() as u64;
            Ok(Some((block, next)))
        }
    })
    .boxed()
}

fn read_block(file: &File, range: Range<u64>, buffers: &BufferPool) -> io::Result<Bytes> {
    let mut buffer = buffers.take();
    let left = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    let size = left.min(buffer.as_mut().len());
    file.read_exact_at(&mut buffer.as_mut()[..size], range.start)?;
    Ok(buffer.into_bytes(size))
}
