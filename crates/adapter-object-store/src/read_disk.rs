//! Reads objects on local disk in blocks.

use std::{
    fs::File,
    io::{self, IoSliceMut},
    ops::Range,
    os::unix::fs::FileExt as _,
    sync::Arc,
};

use bytes::Bytes;
use domain::ports::{BlobStream, GetError, StoreError};
use futures_util::{StreamExt as _, stream};
use rustix::io::{ReadWriteFlags, preadv2};

use crate::{
    buffers::{Buffer, BufferPool},
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
            let buffer = buffers.take();
            let block = match cached_block(&file, at..range.end, buffer) {
                Ok(block) => block,
                Err(buffer) => {
                    let read = move || read_block(&file, at..range.end, buffer);
                    let block = tokio::task::spawn_blocking(read).await.map_err(|_| panicked())?;
                    block.map_err(|error| match error.kind() {
                        io::ErrorKind::UnexpectedEof => StoreError::Internal(error.into()),
                        _ => unavailable(error),
                    })?
                }
            };
            let next = at + block.len() as u64;
            Ok(Some((block, next)))
        }
    })
    .boxed()
}

/// Reads a block that the kernel has in memory; gives the buffer back if it has not. Such a block
/// is read faster than another thread is woken.
fn cached_block(file: &File, range: Range<u64>, mut buffer: Buffer) -> Result<Bytes, Buffer> {
    let size = size_of_block(&range, &mut buffer);
    let slices = &mut [IoSliceMut::new(&mut buffer.as_mut()[..size])];
    match preadv2(file, slices, range.start, ReadWriteFlags::NOWAIT) {
        Ok(read) if read == size => Ok(buffer.into_bytes(size)),
        _ => Err(buffer),
    }
}

fn read_block(file: &File, range: Range<u64>, mut buffer: Buffer) -> io::Result<Bytes> {
    let size = size_of_block(&range, &mut buffer);
    file.read_exact_at(&mut buffer.as_mut()[..size], range.start)?;
    Ok(buffer.into_bytes(size))
}

fn size_of_block(range: &Range<u64>, buffer: &mut Buffer) -> usize {
    let left = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    left.min(buffer.as_mut().len())
}
