use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard},
};

use async_trait::async_trait;
use domain::{
    api_key::{ApiKey, ApiKeyId, ClientId, KeyChange, KeyEvent, NewApiKey},
    delivery::{Delivery, DeliveryId},
    document::ObjectKey,
    duplicate_window::DuplicateWindow,
    order::{FileNumber, OrderId, StoredOrder},
    ports::{
        ApiKeyRepo, CreateError, DeliveryQueue, Lease, NewOrder, OrderRepo, QueueStats, Settlement,
        StoreError, UploadLedger,
    },
};
use time::{Duration, OffsetDateTime};

use crate::samples;

mod idempotency;

/// Keeps orders, uploads, idempotency keys, API keys and follow-ups in memory, and moves them to
/// and from other stores.
#[derive(Default)]
pub struct InMemoryStore(Mutex<State>);

#[derive(Default)]
struct State {
    orders: BTreeMap<OrderId, StoredOrder>,
    last_order: i64,
    file_numbers: HashMap<FileNumber, OffsetDateTime>,
    test_file_numbers: HashMap<FileNumber, OffsetDateTime>,
    idempotency_keys: BTreeMap<(ClientId, [u8; 32]), idempotency::Kept>,
    uploads: BTreeMap<ObjectKey, Upload>,
    keys: Vec<ApiKey>,
    key_events: Vec<KeyEvent>,
    deliveries: BTreeMap<DeliveryId, Queued>,
    last_delivery: i64,
}

#[derive(Clone, Copy)]
struct Upload {
    recorded_at: OffsetDateTime,
    condemned: bool,
}

struct Queued {
    delivery: Delivery,
    leased_until: Option<OffsetDateTime>,
    token: i64,
}

impl InMemoryStore {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nothing panics while it holds the state")
    }

    /// Removes an order that has neither documents nor follow-ups.
    pub fn remove_order(&self, id: OrderId) {
        self.state().orders.remove(&id);
    }

    /// Gives an order to a notary.
    pub fn assign_notary(&self, id: OrderId, notary_id: i64, at: OffsetDateTime) {
        let mut state = self.state();
        let order = state.orders.get_mut(&id).expect("the order was placed");
        (order.notary_id, order.updated_at) = (Some(notary_id), at);
    }
}

impl State {
    fn add_key(&mut self, key: &NewApiKey) -> ApiKeyId {
        let id = ApiKeyId(self.keys.last().map_or(0, |key| key.id.0) + 1);
        self.keys.push(ApiKey { id, key: key.clone(), revoked_at: None, last_used_at: None });
        id
    }
}

#[async_trait]
impl OrderRepo for InMemoryStore {
    async fn create(
        &self,
        new: &NewOrder,
        window: DuplicateWindow,
    ) -> Result<OrderId, CreateError> {
        let mut state = self.state();
        if let Some(remembrance) = &new.remembrance
            && let Some(taken) = state.key_use(&remembrance.attempt.claim, new.created_at)
        {
            return Err(CreateError::KeyTaken(taken));
        }
        let file_numbers = if new.is_test { &state.test_file_numbers } else { &state.file_numbers };
        if let Some(&created_at) = file_numbers.get(&new.order.file_number)
            && window.covers(created_at, new.created_at)
        {
            return Err(CreateError::Duplicate { created_at });
        }
        if new
            .documents
            .iter()
            .any(|document| state.uploads.get(&document.key).is_none_or(|upload| upload.condemned))
        {
            return Err(CreateError::UploadSwept);
        }
        state.uploads.retain(|key, _| new.documents.iter().all(|document| document.key != *key));
        let file_numbers =
            if new.is_test { &mut state.test_file_numbers } else { &mut state.file_numbers };
        file_numbers.insert(new.order.file_number.clone(), new.created_at);
        state.last_order += 1;
        let order_id = OrderId(state.last_order);
        state.orders.insert(order_id, samples::stored(order_id, new));
        for task in new.deliveries.iter().cloned() {
            state.last_delivery += 1;
            let id = DeliveryId(state.last_delivery);
            let (created_at, due_at) = (new.created_at, new.created_at);
            let delivery = Delivery {
                id,
                order_id,
                task,
                attempts: 0,
                created_at,
                due_at,
                failed_at: None,
                last_error: None,
            };
            state.deliveries.insert(id, Queued { delivery, leased_until: None, token: 0 });
        }
        state.remember(new, order_id);
        Ok(order_id)
    }

    async fn find(&self, id: OrderId) -> Result<Option<StoredOrder>, StoreError> {
        Ok(self.state().orders.get(&id).cloned())
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl UploadLedger for InMemoryStore {
    async fn record(&self, keys: &[ObjectKey], at: OffsetDateTime) -> Result<(), StoreError> {
        let mut state = self.state();
        if keys.iter().any(|key| state.uploads.contains_key(key)) {
            return Err(StoreError::Internal("a key is recorded already".into()));
        }
        state.uploads.extend(
            keys.iter().map(|key| (key.clone(), Upload { recorded_at: at, condemned: false })),
        );
        Ok(())
    }

    async fn condemn(&self, keys: &[ObjectKey]) -> Result<Vec<ObjectKey>, StoreError> {
        let mut state = self.state();
        let mut condemn = |key: &&ObjectKey| {
            state.uploads.get_mut(key).map(|upload| upload.condemned = true).is_some()
        };
        Ok(keys.iter().filter(&mut condemn).cloned().collect())
    }

    async fn condemn_recorded_before(
        &self,
        instant: OffsetDateTime,
        limit: usize,
    ) -> Result<Vec<ObjectKey>, StoreError> {
        let mut state = self.state();
        let swept = state
            .uploads
            .iter_mut()
            .filter(|(_, upload)| upload.condemned || upload.recorded_at < instant)
            .take(limit);
        let condemn = |(key, upload): (&ObjectKey, &mut Upload)| {
            upload.condemned = true;
            key.clone()
        };
        Ok(swept.map(condemn).collect())
    }

    async fn forget(&self, keys: &[ObjectKey]) -> Result<(), StoreError> {
        self.state().uploads.retain(|key, upload| !(upload.condemned && keys.contains(key)));
        Ok(())
    }
}

#[async_trait]
impl ApiKeyRepo for InMemoryStore {
    async fn add(&self, key: &NewApiKey, by: &str) -> Result<ApiKeyId, StoreError> {
        let mut state = self.state();
        if state.keys.iter().any(|known| known.key.lookup == key.lookup) {
            return Err(StoreError::Internal(
                "a key with this lookup part is there already".into(),
            ));
        }
        let id = state.add_key(key);
        state.key_events.push(KeyEvent {
            key: id,
            change: KeyChange::Issued,
            at: key.issued_at,
            by: by.to_owned(),
        });
        Ok(id)
    }

    async fn add_first(&self, key: &NewApiKey, by: &str) -> Result<Option<ApiKeyId>, StoreError> {
        let mut state = self.state();
        if !state.keys.is_empty() {
            return Ok(None);
        }
        let id = state.add_key(key);
        state.key_events.push(KeyEvent {
            key: id,
            change: KeyChange::Issued,
            at: key.issued_at,
            by: by.to_owned(),
        });
        Ok(Some(id))
    }

    async fn rotate(
        &self,
        id: ApiKeyId,
        successor: &NewApiKey,
        until: OffsetDateTime,
        by: &str,
    ) -> Result<Option<ApiKeyId>, StoreError> {
        let (mut state, at) = (self.state(), successor.issued_at);
        let Some(old) = state.keys.iter_mut().find(|key| key.id == id && key.is_live(at)) else {
            return Ok(None);
        };
        old.key.expires_at = Some(old.key.expires_at.map_or(until, |end| end.min(until)));
        let issued_at = successor.issued_at;
        let successor = state.add_key(successor);
        state.key_events.push(KeyEvent {
            key: successor,
            change: KeyChange::Issued,
            at: issued_at,
            by: by.to_owned(),
        });
        state.key_events.push(KeyEvent {
            key: id,
            change: KeyChange::Rotated { successor },
            at,
            by: by.to_owned(),
        });
        Ok(Some(successor))
    }

    async fn find(&self, lookup: &str) -> Result<Option<ApiKey>, StoreError> {
        Ok(self.state().keys.iter().find(|key| key.key.lookup == lookup).cloned())
    }

    async fn list(&self) -> Result<Vec<ApiKey>, StoreError> {
        Ok(self.state().keys.clone())
    }

    async fn revoke(
        &self,
        id: ApiKeyId,
        at: OffsetDateTime,
        by: &str,
    ) -> Result<Option<ApiKey>, StoreError> {
        let mut state = self.state();
        let Some(key) = state.keys.iter_mut().find(|key| key.id == id) else { return Ok(None) };
        let revoked = key.revoked_at.is_none();
        key.revoked_at.get_or_insert(at);
        let key = key.clone();
        if revoked {
            state.key_events.push(KeyEvent {
                key: id,
                change: KeyChange::Revoked,
                at,
                by: by.to_owned(),
            });
        }
        Ok(Some(key))
    }

    async fn note_uses(&self, uses: &[(ApiKeyId, OffsetDateTime)]) -> Result<(), StoreError> {
        let mut state = self.state();
        for (id, at) in uses {
            if let Some(key) = state.keys.iter_mut().find(|key| key.id == *id) {
                key.last_used_at = key.last_used_at.max(Some(*at));
            }
        }
        Ok(())
    }

    async fn trail(&self) -> Result<Vec<KeyEvent>, StoreError> {
        Ok(self.state().key_events.clone())
    }
}

#[async_trait]
impl DeliveryQueue for InMemoryStore {
    async fn lease(
        &self,
        now: OffsetDateTime,
        lease_for: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, StoreError> {
        let mut state = self.state();
        let free = |queued: &&mut Queued| {
            queued.delivery.failed_at.is_none()
                && queued.delivery.due_at <= now
                && queued.leased_until.is_none_or(|until| until <= now)
        };
        let mut due: Vec<&mut Queued> = state.deliveries.values_mut().filter(free).collect();
        due.sort_by_key(|queued| queued.delivery.due_at);
        let lease = |queued: &mut Queued| {
            queued.leased_until = Some(now + lease_for);
            queued.token += 1;
            Lease { delivery: queued.delivery.clone(), token: queued.token }
        };
        Ok(due.into_iter().take(limit).map(lease).collect())
    }

    async fn settle(
        &self,
        id: DeliveryId,
        token: i64,
        settlement: &Settlement,
    ) -> Result<bool, StoreError> {
        let mut state = self.state();
        let Some(queued) = state
            .deliveries
            .get_mut(&id)
            .filter(|queued| queued.token == token && queued.leased_until.is_some())
        else {
            return Ok(false);
        };
        queued.leased_until = None;
        queued.delivery.attempts += u32::from(!matches!(settlement, Settlement::Postpone { .. }));
        match settlement {
            Settlement::Done => {
                state.deliveries.remove(&id);
            }
            Settlement::RetryAt { due_at, error } | Settlement::Postpone { due_at, error } => {
                queued.delivery.due_at = *due_at;
                queued.delivery.last_error = Some(error.clone());
            }
            Settlement::Fail { at, error } => {
                queued.delivery.failed_at = Some(*at);
                queued.delivery.last_error = Some(error.clone());
            }
        }
        Ok(true)
    }

    async fn list(&self, failed: bool, limit: usize) -> Result<Vec<Delivery>, StoreError> {
        let state = self.state();
        let mut listed: Vec<&Delivery> =
            state.deliveries.values().map(|queued| &queued.delivery).collect();
        listed.retain(|delivery| delivery.failed_at.is_some() == failed);
        listed.sort_by_key(|delivery| delivery.created_at);
        Ok(listed.into_iter().take(limit).cloned().collect())
    }

    async fn retry(&self, id: DeliveryId, now: OffsetDateTime) -> Result<bool, StoreError> {
        let mut state = self.state();
        let Some(queued) = state.deliveries.get_mut(&id) else { return Ok(false) };
        let anew = Delivery {
            attempts: 0,
            created_at: now,
            due_at: now,
            failed_at: None,
            ..queued.delivery.clone()
        };
        queued.delivery = anew;
        Ok(true)
    }

    async fn stats(&self) -> Result<QueueStats, StoreError> {
        let state = self.state();
        let (failed, pending): (Vec<_>, Vec<_>) = state
            .deliveries
            .values()
            .map(|queued| &queued.delivery)
            .partition(|one| one.failed_at.is_some());
        let oldest_created_at = pending.iter().map(|delivery| delivery.created_at).min();
        Ok(QueueStats {
            pending: pending.len() as u64,
            failed: failed.len() as u64,
            oldest_created_at,
        })
    }
}
