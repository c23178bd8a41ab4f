//! Use case: remove the objects of orders that were never created, because the process died or the
//! document store failed.

use std::sync::Arc;

use time::Duration;

use crate::{
    ports::{BlobStore, Clock, StoreError, UploadLedger},
    use_cases::{
        background::{Step, Worker},
        intake::remove_condemned,
    },
};

/// Maximum number of uploads that a step removes.
const BATCH: usize = 100;

/// Pause when no more uploads are abandoned, and after a failure.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(60);

/// Removes abandoned uploads. Any number of processes may do so at the same time.
#[derive(Clone)]
pub struct SweepUploads {
    /// Records the objects of orders that are not created yet.
    pub uploads: Arc<dyn UploadLedger>,
    /// Stores documents.
    pub blobs: Arc<dyn BlobStore>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

impl SweepUploads {
    /// Age at which an upload without an order is abandoned.
    pub const ABANDONED_AFTER: Duration = Duration::HOUR;

    async fn sweep(&self) -> Result<usize, StoreError> {
        let abandoned_before = self.clock.now() - Self::ABANDONED_AFTER;
        let condemned = self.uploads.condemn_recorded_before(abandoned_before, BATCH).await?;
        let count = condemned.len();
        let (left, result) = remove_condemned(&*self.blobs, &*self.uploads, condemned).await;
        result.map(|()| count - left.len())
    }
}

impl Worker for SweepUploads {
    type Done = usize;

    /// Removes a batch of abandoned uploads. Returns their number.
    async fn step(&mut self) -> Step<usize> {
        let result = self.sweep().await;
        let is_full = result.as_ref().is_ok_and(|&swept| swept == BATCH);
        Step { result, pause: if is_full { std::time::Duration::ZERO } else { PAUSE } }
    }
}

#[cfg(test)]
mod tests {
    use mockall::predicate::eq;
    use time::macros::datetime;

    use super::*;
    use crate::{
        document::ObjectKey,
        ports::{MockBlobStore, MockUploadLedger},
        test_support::{clock, down},
    };

    fn keys(count: usize) -> Vec<ObjectKey> {
        (0..count).map(|number| ObjectKey::from_stored(number.to_string())).collect()
    }

    /// Returns a ledger with this many abandoned uploads.
    fn ledger(count: usize) -> MockUploadLedger {
        let mut uploads = MockUploadLedger::new();
        uploads
            .expect_condemn_recorded_before()
            .with(eq(datetime!(2026-11-21 11:00 UTC)), eq(BATCH))
            .once()
            .returning(move |_, _| Ok(keys(count)));
        uploads
    }

    async fn step(uploads: MockUploadLedger, blobs: MockBlobStore) -> Step<usize> {
        let mut sweep = SweepUploads {
            uploads: Arc::new(uploads),
            blobs: Arc::new(blobs),
            clock: clock(datetime!(2026-11-21 12:00 UTC)),
        };
        sweep.step().await
    }

    #[tokio::test]
    async fn upload_is_swept_after_an_hour() {
        let mut uploads = ledger(2);
        uploads
            .expect_forget()
            .withf(|forgotten| forgotten == keys(2))
            .once()
            .returning(|_| Ok(()));
        let mut blobs = MockBlobStore::new();
        blobs.expect_delete().times(2).returning(|_| Ok(()));
        let step = step(uploads, blobs).await;
        assert_eq!((step.result.unwrap(), step.pause), (2, PAUSE));
    }

    #[tokio::test]
    async fn full_batch_is_followed_by_the_next_without_pause() {
        let mut uploads = ledger(BATCH);
        uploads.expect_forget().once().returning(|_| Ok(()));
        let mut blobs = MockBlobStore::new();
        blobs.expect_delete().times(BATCH).returning(|_| Ok(()));
        let step = step(uploads, blobs).await;
        assert_eq!((step.result.unwrap(), step.pause), (BATCH, std::time::Duration::ZERO));
    }

    #[tokio::test]
    async fn failed_deletion_keeps_the_key() {
        let mut uploads = ledger(2);
        uploads.expect_forget().withf(|gone| gone == &keys(2)[1..]).once().returning(|_| Ok(()));
        let mut blobs = MockBlobStore::new();
        blobs.expect_delete().returning(|deleted| {
            if *deleted == keys(1)[0] {
                return Err(down());
            }
            Ok(())
        });
        let step = step(uploads, blobs).await;
        assert!(matches!(step.result, Err(StoreError::Unavailable(_))));
        assert_eq!(step.pause, PAUSE);
    }
}
