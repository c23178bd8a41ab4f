//! Use case: remove the objects of orders that were never placed because the process died half way.

use std::sync::Arc;

use time::Duration;

use crate::{
    create_order::remove_condemned,
    ports::{BlobStore, Clock, StoreError, UploadLedger},
};

/// Removes abandoned uploads.
#[derive(Clone)]
pub struct SweepUploads {
    /// Where intended objects are remembered.
    pub uploads: Arc<dyn UploadLedger>,
    /// Where documents are kept.
    pub blobs: Arc<dyn BlobStore>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Age from which an upload that no order adopted is abandoned.
    pub abandoned_after: Duration,
}

impl SweepUploads {
    /// Age from which an upload is abandoned unless a setting says otherwise.
    pub const ABANDONED_AFTER: Duration = Duration::HOUR;

    /// Removes up to `limit` abandoned uploads and answers how many are gone. Any number of
    /// processes may do so at the same time.
    pub async fn run_once(&self, limit: usize) -> Result<usize, StoreError> {
        let condemned = self
            .uploads
            .condemn_recorded_before(self.clock.now() - self.abandoned_after, limit)
            .await?;
        remove_condemned(&*self.blobs, &*self.uploads, condemned).await
    }
}

#[cfg(test)]
mod tests {
    use mockall::predicate::eq;
    use time::macros::datetime;

    use super::*;
    use crate::{
        document::ObjectKey,
        ports::{MockBlobStore, MockClock, MockUploadLedger},
    };

    fn key(name: &str) -> ObjectKey {
        ObjectKey::from_stored(name.to_owned())
    }

    fn sweeper(uploads: MockUploadLedger, blobs: MockBlobStore) -> SweepUploads {
        let mut clock = MockClock::new();
        clock.expect_now().return_const(datetime!(2026-11-21 12:00 UTC));
        SweepUploads {
            uploads: Arc::new(uploads),
            blobs: Arc::new(blobs),
            clock: Arc::new(clock),
            abandoned_after: SweepUploads::ABANDONED_AFTER,
        }
    }

    #[tokio::test]
    async fn an_upload_is_abandoned_after_an_hour() {
        let mut uploads = MockUploadLedger::new();
        uploads
            .expect_condemn_recorded_before()
            .with(eq(datetime!(2026-11-21 11:00 UTC)), eq(10))
            .once()
            .returning(|_, _| Ok(vec![key("a"), key("b")]));
        uploads.expect_forget().withf(|keys| keys.len() == 2).once().returning(|_| Ok(()));
        let mut blobs = MockBlobStore::new();
        blobs.expect_delete().times(2).returning(|_| Ok(()));
        assert_eq!(sweeper(uploads, blobs).run_once(10).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn what_could_not_be_deleted_is_not_forgotten() {
        let mut uploads = MockUploadLedger::new();
        uploads.expect_condemn_recorded_before().returning(|_, _| Ok(vec![key("a"), key("b")]));
        uploads.expect_forget().withf(|keys| keys == [key("b")]).once().returning(|_| Ok(()));
        let mut blobs = MockBlobStore::new();
        blobs.expect_delete().returning(|deleted| {
            if *deleted == key("a") { Err(StoreError::Unavailable("down".into())) } else { Ok(()) }
        });
        assert!(matches!(
            sweeper(uploads, blobs).run_once(10).await,
            Err(StoreError::Unavailable(_))
        ));
    }

    #[tokio::test]
    async fn nothing_abandoned_is_nothing_done() {
        let mut uploads = MockUploadLedger::new();
        uploads.expect_condemn_recorded_before().returning(|_, _| Ok(vec![]));
        assert_eq!(sweeper(uploads, MockBlobStore::new()).run_once(10).await.unwrap(), 0);
    }
}
