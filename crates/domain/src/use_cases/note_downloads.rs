//! Use case: store when documents were first downloaded.

use std::{sync::Arc, time::Duration};

use crate::{
    order::DocumentId,
    ports::{Download, OrderRepo},
    use_cases::background::{FirstFailure, Step, Unstored, lock, take},
};

/// Pause between two steps.
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of documents in a step, so that their statements take less than the time limit of a
/// call.
const BATCH: usize = 100;

/// The downloads that are not stored yet: the first of each document.
pub type Downloads = Arc<Unstored<DocumentId>>;

/// Stores the first downloads of documents, so that no download waits for the database.
pub struct NoteDownloads {
    orders: Arc<dyn OrderRepo>,
    downloads: Downloads,
    failure: FirstFailure,
}

impl NoteDownloads {
    /// Returns a worker that stores the downloads.
    pub fn new(orders: Arc<dyn OrderRepo>, downloads: Downloads) -> Self {
        Self { orders, downloads, failure: FirstFailure::default() }
    }

    /// Stores the downloads since the last step. After a failure, the next step stores them. Only the
    /// first of several failures in a row is an error.
    pub async fn step(&mut self) -> Step<()> {
        let (taken, has_more) = take(&self.downloads, BATCH);
        let downloads: Vec<_> =
            taken.iter().map(|&(document, at)| Download { document, at }).collect();
        let noted =
            if taken.is_empty() { Ok(()) } else { self.orders.note_downloads(&downloads).await };
        if noted.is_err() {
            lock(&self.downloads).extend(taken);
        }
        let pause = if has_more && noted.is_ok() { Duration::ZERO } else { PAUSE };
        Step { result: self.failure.report(noted), pause }
    }
}

#[cfg(test)]
mod tests {
    use ::time::{Duration as Span, OffsetDateTime, macros::datetime};

    use super::*;
    use crate::{
        document::DocumentKind,
        order::OrderId,
        ports::{MockOrderRepo, StoreError},
    };

    const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

    fn id(position: u32) -> DocumentId {
        DocumentId { order: OrderId(1), kind: DocumentKind::ToSign, position }
    }

    #[tokio::test]
    async fn failed_downloads_are_stored_later_and_reported_once() {
        let mut orders = MockOrderRepo::new();
        let mut replies = [false, false, true].into_iter();
        let download = Download { document: id(0), at: NOW };
        orders.expect_note_downloads().withf(move |noted| noted == [download]).times(3).returning(
            move |_| match replies.next() {
                Some(true) => Ok(()),
                _ => Err(StoreError::Unavailable("no database".into())),
            },
        );
        let downloads = Downloads::default();
        let mut worker = NoteDownloads::new(Arc::new(orders), downloads.clone());
        downloads.lock().unwrap().insert(id(0), NOW);
        for is_reported in [true, false, false] {
            assert_eq!(worker.step().await.result.is_err(), is_reported);
        }
        // Nothing is left.
        assert!(worker.step().await.result.is_ok());
    }

    #[tokio::test]
    async fn full_batch_is_followed_by_the_next_without_pause() {
        let mut orders = MockOrderRepo::new();
        let mut sizes = [BATCH, 1].into_iter();
        orders.expect_note_downloads().times(2).returning(move |noted| {
            assert_eq!(Some(noted.len()), sizes.next());
            Ok(())
        });
        let downloads = Downloads::default();
        let positions = 0..=u32::try_from(BATCH).unwrap();
        downloads.lock().unwrap().extend(positions.map(|it| (id(it), NOW + Span::SECOND)));
        let mut worker = NoteDownloads::new(Arc::new(orders), downloads);
        assert_eq!(worker.step().await.pause, Duration::ZERO);
        assert_eq!(worker.step().await.pause, PAUSE);
    }
}
