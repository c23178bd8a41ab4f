//! Use case: store when documents were first downloaded.

use std::{sync::Arc, time::Duration};

use time::OffsetDateTime;

use crate::{
    order::DocumentId,
    ports::{Download, OrderRepo, StoreError},
    use_cases::store_waiting::{Instants, WaitingFacts, lock, take},
};

/// The downloads that are not stored yet: the first of each document.
pub type Downloads = Arc<Instants<DocumentId>>;

/// The first downloads of documents that wait, and the store of orders.
pub struct NoteDownloads {
    /// Stores them.
    pub orders: Arc<dyn OrderRepo>,
    /// Downloads that are not stored yet.
    pub downloads: Downloads,
}

impl WaitingFacts for NoteDownloads {
    type Fact = (DocumentId, OffsetDateTime);

    const BATCH: usize = 100;
    const PAUSE: Duration = Duration::from_secs(1);

    fn take(&self, limit: usize) -> (Vec<Self::Fact>, bool) {
        take(&self.downloads, limit)
    }

    /// Replaces later downloads.
    fn put_back(&self, facts: Vec<Self::Fact>) {
        lock(&self.downloads).extend(facts);
    }

    async fn store(&self, facts: &[Self::Fact]) -> Result<(), StoreError> {
        let downloads = facts.iter().map(|&(document, at)| Download { document, at });
        self.orders.note_downloads(&downloads.collect::<Vec<_>>()).await
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::{document::DocumentKind, order::OrderId, ports::MockOrderRepo, test_support::down};

    const FIRST: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);
    const NOW: OffsetDateTime = datetime!(2026-11-21 12:01 UTC);
    const ID: DocumentId =
        DocumentId { order: OrderId(1), kind: DocumentKind::ToSign, position: 0 };

    #[tokio::test]
    async fn failed_download_stays_the_first() {
        let mut orders = MockOrderRepo::new();
        let downloads = Downloads::default();
        let later = downloads.clone();
        orders.expect_note_downloads().once().returning(move |stored| {
            assert_eq!(stored, [Download { document: ID, at: FIRST }]);
            // Another request meanwhile.
            lock(&later).insert(ID, NOW);
            Err(down())
        });
        lock(&downloads).insert(ID, FIRST);
        let noting = NoteDownloads { orders: Arc::new(orders), downloads };
        assert!(noting.store_batch().await.is_err());
        let waiting: Vec<_> = lock(&noting.downloads).clone().into_iter().collect();
        assert_eq!(waiting, [(ID, FIRST)]);
    }
}
