//! Use case: remove the objects of orders that were never created, because the process died or the
//! document store failed.

use std::sync::Arc;

use time::Duration;

use crate::{
    document::ObjectKey,
    ports::{BlobStore, Clock, StoreError, UploadLedger},
    use_cases::{
        background::{Step, Worker},
        intake::remove_condemned,
    },
};

/// Maximum number of uploads that a step removes.
const BATCH: usize = 100;

/// Pause after the last uploads, and after a batch of which none could be removed.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(60);

/// Removes abandoned uploads in rounds, in the order of their keys: those that cannot be removed hold up no
/// other. Any number of processes may do so at the same time.
pub struct SweepUploads {
    uploads: Arc<dyn UploadLedger>,
    blobs: Arc<dyn BlobStore>,
    clock: Arc<dyn Clock>,
    /// The last key that the round has looked at.
    last: Option<ObjectKey>,
}

impl SweepUploads {
    /// Age at which an upload without an order is abandoned.
    pub const ABANDONED_AFTER: Duration = Duration::HOUR;

    /// Returns a worker at the beginning of a round.
    pub fn new(
        uploads: Arc<dyn UploadLedger>,
        blobs: Arc<dyn BlobStore>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { uploads, blobs, clock, last: None }
    }

    /// Returns how many uploads of the next batch were removed, and the first error of the others.
    async fn sweep(&mut self) -> (usize, Result<(), StoreError>) {
        // An order of now would lose its documents to a clock that is ahead.
        let Some(now) = self.clock.now_to_erase() else { return (0, Ok(())) };
        let abandoned_before = now - Self::ABANDONED_AFTER;
        let after = self.last.take();
        let condemned = self.uploads.condemn_recorded_before(abandoned_before, after, BATCH).await;
        let condemned = match condemned {
            Ok(condemned) => condemned,
            Err(error) => return (0, Err(error)),
        };
        let count = condemned.len();
        self.last = condemned.last().filter(|_| count == BATCH).cloned();
        let (left, result) = remove_condemned(&*self.blobs, &*self.uploads, condemned).await;
        (count - left.len(), result)
    }
}

impl Worker for SweepUploads {
    type Done = usize;

    /// Removes a batch of abandoned uploads. Returns their number.
    async fn step(&mut self) -> Step<usize> {
        let (swept, result) = self.sweep().await;
        let goes_on = self.last.is_some() && swept > 0;
        let pause = if goes_on { std::time::Duration::ZERO } else { PAUSE };
        Step { result: result.map(|()| swept), pause }
    }
}

#[cfg(test)]
mod tests {
    use mockall::predicate::eq;
    use time::macros::datetime;

    use super::*;
    use crate::{
        ports::{MockBlobStore, MockUploadLedger},
        test_support::{clock, doubtful_clock, down},
    };

    fn keys(count: usize) -> Vec<ObjectKey> {
        (0..count).map(|number| ObjectKey::from_stored(number.to_string())).collect()
    }

    /// Returns a ledger with this many abandoned uploads.
    fn ledger(count: usize) -> MockUploadLedger {
        let mut uploads = MockUploadLedger::new();
        uploads
            .expect_condemn_recorded_before()
            .with(eq(datetime!(2026-11-21 11:00 UTC)), eq(None), eq(BATCH))
            .once()
            .returning(move |_, _, _| Ok(keys(count)));
        uploads
    }

    fn sweep(uploads: MockUploadLedger, blobs: MockBlobStore) -> SweepUploads {
        let clock = clock(datetime!(2026-11-21 12:00 UTC));
        SweepUploads::new(Arc::new(uploads), Arc::new(blobs), clock)
    }

    async fn step(uploads: MockUploadLedger, blobs: MockBlobStore) -> Step<usize> {
        sweep(uploads, blobs).step().await
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
    async fn nothing_is_swept_while_the_clock_may_be_wrong() {
        let (uploads, blobs) = (MockUploadLedger::new(), MockBlobStore::new());
        let clock = doubtful_clock(datetime!(2036-11-21 12:00 UTC));
        let mut sweep = SweepUploads::new(Arc::new(uploads), Arc::new(blobs), clock);
        let step = sweep.step().await;
        assert_eq!((step.result.unwrap(), step.pause), (0, PAUSE));
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
    /// The first hundred keys stay in the ledger, and a round goes on behind them.
    #[tokio::test]
    async fn uploads_that_cannot_be_removed_hold_up_no_other() {
        let mut uploads = MockUploadLedger::new();
        let all: Vec<_> = (0..BATCH + 3).map(|number| format!("{number:03}")).collect();
        let stuck = ObjectKey::from_stored(all[BATCH].clone());
        uploads.expect_condemn_recorded_before().times(3).returning(move |_, after, limit| {
            let after = after.map(|key| key.as_str().to_owned()).unwrap_or_default();
            let found = all.iter().filter(|key| **key > after).take(limit);
            Ok(found.cloned().map(ObjectKey::from_stored).collect())
        });
        uploads.expect_forget().once().withf(|gone| gone.len() == 3).returning(|_| Ok(()));
        let mut blobs = MockBlobStore::new();
        blobs
            .expect_delete()
            .returning(move |key| if key.as_str() < stuck.as_str() { Err(down()) } else { Ok(()) });
        let mut sweep = sweep(uploads, blobs);
        for swept in [None, Some(3), None] {
            let step = sweep.step().await;
            assert_eq!((step.result.ok(), step.pause), (swept, PAUSE));
        }
    }
}
