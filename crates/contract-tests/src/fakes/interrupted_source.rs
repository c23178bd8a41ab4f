use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use domain::{
    api_key::{ApiKey, KeyEvent},
    delivery::Delivery,
    idempotency::IdempotencyKey,
    order::{FileNumber, OrderId, StoredOrder},
    ports::{
        RecordedUpload, RememberedRequest, StoreCounts, StoreError, StoreSource, UsedFileNumber,
    },
};
use futures_util::future::BoxFuture;

use super::InMemoryStore;

/// Which call of a source it is that something happens before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceCall {
    /// The name of the method.
    pub method: &'static str,
    /// How many calls of any method were before.
    pub number: usize,
}

type Interruption =
    Box<dyn Fn(SourceCall) -> BoxFuture<'static, Result<(), StoreError>> + Send + Sync>;

/// A store out of which things are taken, where something happens before each call, which may fail
/// it.
pub struct InterruptedSource {
    source: Arc<InMemoryStore>,
    calls: AtomicUsize,
    interruption: Interruption,
}

impl InterruptedSource {
    /// A source where `interruption` happens before each call.
    pub fn new(
        source: Arc<InMemoryStore>,
        interruption: impl Fn(SourceCall) -> BoxFuture<'static, Result<(), StoreError>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { source, calls: AtomicUsize::new(0), interruption: Box::new(interruption) }
    }

    async fn interrupt(&self, method: &'static str) -> Result<(), StoreError> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        (self.interruption)(SourceCall { method, number }).await
    }
}

#[async_trait]
impl StoreSource for InterruptedSource {
    async fn counts(&self) -> Result<StoreCounts, StoreError> {
        self.interrupt("counts").await?;
        self.source.counts().await
    }

    async fn orders(
        &self,
        after: Option<OrderId>,
        limit: usize,
    ) -> Result<Vec<StoredOrder>, StoreError> {
        self.interrupt("orders").await?;
        self.source.orders(after, limit).await
    }

    async fn file_numbers(
        &self,
        after: Option<FileNumber>,
        limit: usize,
    ) -> Result<Vec<UsedFileNumber>, StoreError> {
        self.interrupt("file_numbers").await?;
        self.source.file_numbers(after, limit).await
    }

    async fn uploads(&self) -> Result<Vec<RecordedUpload>, StoreError> {
        self.interrupt("uploads").await?;
        self.source.uploads().await
    }

    async fn deliveries(&self) -> Result<Vec<Delivery>, StoreError> {
        self.interrupt("deliveries").await?;
        self.source.deliveries().await
    }

    async fn api_keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.interrupt("api_keys").await?;
        self.source.api_keys().await
    }
    async fn key_events(&self) -> Result<Vec<KeyEvent>, StoreError> {
        self.interrupt("key_events").await?;
        self.source.key_events().await
    }

    async fn remembered(
        &self,
        after: Option<IdempotencyKey>,
        limit: usize,
    ) -> Result<Vec<RememberedRequest>, StoreError> {
        self.interrupt("remembered").await?;
        self.source.remembered(after, limit).await
    }
}
