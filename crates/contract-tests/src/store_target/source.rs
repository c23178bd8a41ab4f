use std::sync::Arc;

use domain::ports::NewOrder;

use super::StoreTargetFixture;
use crate::{contents::Contents, fakes::InMemoryStore, samples::Storage};

/// An in-memory store to be moved.
pub(super) struct Source {
    pub(super) store: Arc<InMemoryStore>,
    pub(super) storage: Storage,
    pub(super) contents: Contents,
}

impl Source {
    pub(super) fn empty() -> Self {
        let store = Arc::new(InMemoryStore::default());
        Self { storage: Storage::new(store.clone(), ()), store, contents: Contents::default() }
    }

    pub(super) async fn full() -> Self {
        let mut source = Self::empty();
        source.contents = Contents::fill(&source.storage).await;
        source
    }

    /// A store with these orders.
    pub(super) async fn with(orders: impl IntoIterator<Item = NewOrder>) -> Self {
        let mut source = Self::empty();
        for order in orders {
            source.contents.create(&source.storage, order).await;
        }
        source.contents.read_back(&source.storage).await;
        source
    }

    /// Moves everything, and nothing is in the way.
    pub(super) async fn move_to(&self, fixture: &StoreTargetFixture) {
        assert_eq!(fixture.target.take_over(&*self.store).await.unwrap(), self.contents.counts());
    }

    pub(super) async fn assert_moved_to(&self, fixture: &StoreTargetFixture) {
        self.move_to(fixture).await;
        self.contents.assert_shown_by(&fixture.storage).await;
    }

    /// That nothing of it is there.
    pub(super) async fn assert_left_nothing_in(&self, storage: &Storage) {
        for order in &self.contents.orders {
            assert_eq!(storage.orders.find(order.id).await.unwrap(), None);
        }
        let keys: Vec<_> = self.contents.uploads.iter().map(|upload| upload.key.clone()).collect();
        assert_eq!(storage.uploads.condemn(&keys).await.unwrap(), []);
        assert_eq!(storage.keys.list().await.unwrap(), []);
        assert_eq!(storage.queue.list(false, 10).await.unwrap(), []);
        assert_eq!(storage.queue.list(true, 10).await.unwrap(), []);
    }
}
