use async_trait::async_trait;
use domain::{
    api_key::{ApiKey, KeyEvent},
    delivery::Delivery,
    idempotency::IdempotencyKey,
    order::{FileNumber, OrderId, StoredOrder},
    ports::{
        MoveError, RecordedUpload, RememberedRequest, StoreCounts, StoreError, StoreSource,
        StoreTarget, UsedFileNumber,
    },
};

use super::{InMemoryStore, Queued, State, Upload};

/// What is taken out of a source at a time; little, so that a test has several pages.
const PAGE: usize = 7;

#[async_trait]
impl StoreSource for InMemoryStore {
    async fn counts(&self) -> Result<StoreCounts, StoreError> {
        Ok(self.state().counts())
    }

    async fn orders(
        &self,
        after: Option<OrderId>,
        limit: usize,
    ) -> Result<Vec<StoredOrder>, StoreError> {
        let state = self.state();
        let later =
            state.orders.values().filter(|order| after.is_none_or(|after| order.id > after));
        Ok(later.take(limit).cloned().collect())
    }

    async fn file_numbers(
        &self,
        after: Option<FileNumber>,
        limit: usize,
    ) -> Result<Vec<UsedFileNumber>, StoreError> {
        let state = self.state();
        let used = state.file_numbers.iter().map(|(file_number, &created_at)| UsedFileNumber {
            file_number: file_number.clone(),
            created_at,
        });
        let mut later: Vec<_> = used
            .filter(|used| {
                after.as_ref().is_none_or(|after| used.file_number.as_str() > after.as_str())
            })
            .collect();
        later.sort_by(|one, other| one.file_number.as_str().cmp(other.file_number.as_str()));
        later.truncate(limit);
        Ok(later)
    }

    async fn uploads(&self) -> Result<Vec<RecordedUpload>, StoreError> {
        let recorded = |(key, &Upload { recorded_at, condemned }): (&_, &_)| RecordedUpload {
            key: Clone::clone(key),
            recorded_at,
            condemned,
        };
        Ok(self.state().uploads.iter().map(recorded).collect())
    }

    async fn deliveries(&self) -> Result<Vec<Delivery>, StoreError> {
        Ok(self.state().deliveries.values().map(|queued| queued.delivery.clone()).collect())
    }

    async fn api_keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        Ok(self.state().keys.clone())
    }

    async fn key_events(&self) -> Result<Vec<KeyEvent>, StoreError> {
        Ok(self.state().key_events.clone())
    }

    async fn remembered(
        &self,
        after: Option<IdempotencyKey>,
        limit: usize,
    ) -> Result<Vec<RememberedRequest>, StoreError> {
        let later = |remembered: &RememberedRequest| {
            let key = (remembered.key.client, remembered.key.digest);
            after.as_ref().is_none_or(|after| key > (after.client, after.digest))
        };
        Ok(self.state().remembered().filter(later).take(limit).collect())
    }
}

#[async_trait]
impl StoreTarget for InMemoryStore {
    async fn take_over<'a>(&self, source: &'a dyn StoreSource) -> Result<StoreCounts, MoveError> {
        self.state().check_empty()?;
        let moved = State::taken_out_of(source).await.map_err(MoveError::Source)?;
        let (arrived, source_has) =
            (moved.counts(), source.counts().await.map_err(MoveError::Source)?);
        if arrived != source_has {
            return Err(MoveError::Differs {
                source_has: Box::new(source_has),
                arrived: Box::new(arrived),
            });
        }
        let mut state = self.state();
        // Asked again, because nobody was kept out in between.
        state.check_empty()?;
        *state = moved;
        Ok(arrived)
    }
}

impl State {
    fn counts(&self) -> StoreCounts {
        StoreCounts {
            orders: self.orders.len() as u64,
            documents: self.orders.values().map(|order| order.documents.len() as u64).sum(),
            file_numbers: self.file_numbers.len() as u64,
            uploads: self.uploads.len() as u64,
            deliveries: self.deliveries.len() as u64,
            api_keys: self.keys.len() as u64,
            key_events: self.key_events.len() as u64,
            idempotency_keys: self.remembered().count() as u64,
        }
    }

    fn check_empty(&self) -> Result<(), MoveError> {
        let there = self.counts();
        if there == StoreCounts::default() { Ok(()) } else { Err(MoveError::NotEmpty(there)) }
    }

    async fn taken_out_of(source: &dyn StoreSource) -> Result<Self, StoreError> {
        let mut state = Self {
            keys: source.api_keys().await?,
            key_events: source.key_events().await?,
            ..Self::default()
        };
        state.keys.sort_by_key(|key| key.id.0);
        let mut last: Option<OrderId> = None;
        loop {
            let page = source.orders(last, PAGE).await?;
            let Some(end) = page.last() else { break };
            last = Some(end.id);
            state.last_order = end.id.0;
            state.orders.extend(page.into_iter().map(|order| (order.id, order)));
        }
        let mut last: Option<FileNumber> = None;
        loop {
            let page = source.file_numbers(last.clone(), PAGE).await?;
            let Some(end) = page.last() else { break };
            last = Some(end.file_number.clone());
            state
                .file_numbers
                .extend(page.into_iter().map(|used| (used.file_number, used.created_at)));
        }
        let mut last: Option<IdempotencyKey> = None;
        loop {
            let page = source.remembered(last.clone(), PAGE).await?;
            let Some(end) = page.last() else { break };
            last = Some(end.key.clone());
            state.take_remembered(page);
        }
        let uploads = source.uploads().await?.into_iter();
        state.uploads = uploads
            .map(|RecordedUpload { key, recorded_at, condemned }| {
                (key, Upload { recorded_at, condemned })
            })
            .collect();
        let deliveries = source.deliveries().await?.into_iter();
        state.deliveries = deliveries
            .map(|delivery| (delivery.id, Queued { delivery, leased_until: None, token: 0 }))
            .collect();
        state.last_delivery = state.deliveries.keys().last().map_or(0, |id| id.0);
        Ok(state)
    }
}
