//! Objects as streams of bytes.

use std::{ops::Range, time::Duration};

use bytes::Bytes;
use domain::ports::{BlobStream, StoreError};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::time::timeout;

/// Time limit for the next bytes.
const BLOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks that an object of `size` bytes has all bytes of a range.
pub(crate) fn check_size(size: u64, range: &Range<u64>) -> Result<(), StoreError> {
    if range.end <= size {
        return Ok(());
    }
    let end = range.end;
    Err(StoreError::Internal(
        format!("the object has {size} bytes, and {end} were to be read").into(),
    ))
}

/// Largest block that a reader gets. A reader whose client is slow holds as many bytes, so they are
/// few. A client of HTTP may have read more ahead.
pub(crate) const BLOCK: usize = 64 * 1024;

/// Returns a stream of a known number of bytes, which ends with an error if there are others.
pub(crate) fn exactly(
    size: u64,
    body: stream::BoxStream<'static, Result<Bytes, StoreError>>,
) -> BlobStream {
    stream::try_unfold((body, size, Bytes::new()), |(mut body, mut left, mut ahead)| async move {
        let unavailable = |cause: &str| StoreError::Unavailable(cause.into());
        if ahead.is_empty() {
            let next = timeout(BLOCK_TIMEOUT, body.try_next()).await;
            match next.map_err(|_| unavailable("no bytes within 10 seconds"))?? {
                Some(bytes) => ahead = bytes,
                None if left == 0 => return Ok(None),
                None => return Err(unavailable("the object ended early")),
            }
            let longer = || StoreError::Internal("the object is longer than the range".into());
            left = left.checked_sub(ahead.len() as u64).ok_or_else(longer)?;
        }
        let block = ahead.split_to(BLOCK.min(ahead.len()));
        Ok(Some((block, (body, left, ahead))))
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads ten bytes from a body of these parts.
    async fn read_ten(parts: Vec<&'static [u8]>) -> Result<Vec<u8>, StoreError> {
        let body = stream::iter(parts).map(|part| Ok(Bytes::from_static(part))).boxed();
        Ok(exactly(10, body).try_collect::<Vec<_>>().await?.concat())
    }

    #[tokio::test]
    async fn body_of_another_length_is_an_error() {
        assert_eq!(read_ten(vec![b"0123", b"456789"]).await.unwrap(), b"0123456789");
        for parts in [vec![], vec![&b"0123"[..]]] {
            let short = read_ten(parts).await;
            assert!(matches!(short, Err(StoreError::Unavailable(_))), "{short:?}");
        }
        let long = read_ten(vec![b"0123456789", b"more"]).await;
        assert!(matches!(long, Err(StoreError::Internal(_))), "{long:?}");
    }

    #[tokio::test]
    async fn large_chunk_is_read_in_blocks() {
        static CHUNK: [u8; 2 * BLOCK + 1] = [7; 2 * BLOCK + 1];
        let body = stream::iter([Ok(Bytes::from_static(&CHUNK))]).boxed();
        let blocks: Vec<_> = exactly(CHUNK.len() as u64, body).try_collect().await.unwrap();
        assert_eq!(blocks.iter().map(Bytes::len).collect::<Vec<_>>(), [BLOCK, BLOCK, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn silent_body_times_out() {
        let failed = exactly(10, stream::pending().boxed()).try_next().await;
        assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    }
}
