//! Everything that a store keeps, to be compared with what is moved.

use std::slice::from_ref;

use domain::{
    api_key::{ApiKey, KeyEvent, NewApiKey},
    delivery::Delivery,
    document::ObjectKey,
    idempotency::{Answered, KeyUse, Remembrance},
    order::StoredOrder,
    ports::{
        ClaimError, CreateError, Lease, NewOrder, RecordedUpload, RememberedRequest, Settlement,
        StoreCounts, StoreSource, UsedFileNumber,
    },
};
use futures_util::stream::{self, StreamExt as _};
use time::{Duration, OffsetDateTime};

use crate::samples::{
    MICROSECOND, NOW, Storage, WINDOW, api_key, attempt, claim, delivery, document,
    idempotency_key, maximal_order, minimal_order, new_order, object_key, unlike_orders,
};

/// Everything, in orders that do not depend on the store.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// By identifier.
    pub orders: Vec<StoredOrder>,
    /// By their text.
    pub file_numbers: Vec<UsedFileNumber>,
    /// By key.
    pub uploads: Vec<RecordedUpload>,
    /// By identifier.
    pub deliveries: Vec<Delivery>,
    /// By identifier.
    pub api_keys: Vec<ApiKey>,
    /// In their order.
    pub key_events: Vec<KeyEvent>,
    /// By client and digest.
    pub remembered: Vec<RememberedRequest>,
}

/// Questions that a store is asked at the same time.
const AT_ONCE: usize = 8;

/// How long the follow-ups are leased.
pub const LEASE: Duration = Duration::minutes(2);

/// When the order was placed of whose follow-ups there is one in every state.
pub const EARLIER: OffsetDateTime = NOW.saturating_sub(Duration::HOUR);

/// Of that order, whose follow-up is leased.
pub const LEASED: usize = 4;

impl Contents {
    /// Puts something of every kind and in every state into an empty store, and answers what its
    /// ports show then.
    pub async fn fill(storage: &Storage) -> Self {
        let mut contents = Self { uploads: fill_ledger(storage).await, ..Self::default() };
        fill_queue(storage, &mut contents).await;
        fill_orders(storage, &mut contents).await;
        fill_keys(storage).await;
        contents.read_back(storage).await;
        contents
    }

    /// Places an order, whose documents need not be in the ledger.
    pub async fn create(&mut self, storage: &Storage, new: NewOrder) {
        let keys: Vec<ObjectKey> =
            new.documents.iter().map(|document| document.key.clone()).collect();
        storage.uploads.record(&keys, new.created_at).await.unwrap();
        let id = storage.orders.create(&new, WINDOW).await.unwrap();
        self.orders.push(storage.orders.find(id).await.unwrap().unwrap());
        if let Some(Remembrance { attempt, kept_until }) = new.remembrance {
            let answered = Answered { fingerprint: attempt.fingerprint, order_id: id };
            self.remembered.push(RememberedRequest {
                key: attempt.claim.key,
                answered,
                taken_at: new.created_at,
                kept_until,
            });
        }
        if new.is_test {
            return;
        }
        let used =
            UsedFileNumber { file_number: new.order.file_number, created_at: new.created_at };
        self.file_numbers.retain(|known| known.file_number != used.file_number);
        self.file_numbers.push(used);
    }

    /// Takes up what the ports list.
    pub async fn read_back(&mut self, storage: &Storage) {
        self.deliveries = storage.queue.list(false, usize::MAX).await.unwrap();
        self.deliveries.extend(storage.queue.list(true, usize::MAX).await.unwrap());
        self.api_keys = storage.keys.list().await.unwrap();
        self.key_events = storage.keys.trail().await.unwrap();
        self.sort();
    }

    /// What comes out of a source, up to `limit` at a time.
    pub async fn of(source: &dyn StoreSource, limit: usize) -> Self {
        let mut contents = Self::default();
        loop {
            let after = contents.orders.last().map(|order| order.id);
            let page = source.orders(after, limit).await.unwrap();
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= limit);
            let ids = after.into_iter().chain(page.iter().map(|order| order.id));
            assert!(
                ids.is_sorted_by(|one, next| one < next),
                "they come in the order of their identifiers, each once"
            );
            contents.orders.extend(page);
        }
        loop {
            let page = source
                .file_numbers(
                    contents.file_numbers.last().map(|used| used.file_number.clone()),
                    limit,
                )
                .await
                .unwrap();
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= limit);
            assert!(
                page.iter().all(|used| !contents.file_numbers.contains(used)),
                "each comes once"
            );
            contents.file_numbers.extend(page);
        }
        contents.uploads = source.uploads().await.unwrap();
        contents.deliveries = source.deliveries().await.unwrap();
        contents.api_keys = source.api_keys().await.unwrap();
        contents.key_events = source.key_events().await.unwrap();
        loop {
            let page = source
                .remembered(
                    contents.remembered.last().map(|remembered| remembered.key.clone()),
                    limit,
                )
                .await
                .unwrap();
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= limit);
            assert!(
                page.iter().all(|remembered| !contents.remembered.contains(remembered)),
                "each comes once"
            );
            contents.remembered.extend(page);
        }
        contents.sort();
        contents
    }

    /// How much it is.
    pub fn counts(&self) -> StoreCounts {
        StoreCounts {
            orders: self.orders.len() as u64,
            documents: self.orders.iter().map(|order| order.documents.len() as u64).sum(),
            file_numbers: self.file_numbers.len() as u64,
            uploads: self.uploads.len() as u64,
            deliveries: self.deliveries.len() as u64,
            api_keys: self.api_keys.len() as u64,
            key_events: self.key_events.len() as u64,
            idempotency_keys: self.remembered.len() as u64,
        }
    }

    /// That the ports show all of it and no more, as far as can be asked without changing
    /// something.
    pub async fn assert_shown_by(&self, storage: &Storage) {
        let found = self.orders.iter().map(|order| storage.orders.find(order.id));
        let found: Vec<_> = stream::iter(found).buffered(AT_ONCE).collect().await;
        let adopted: Vec<ObjectKey> = self
            .orders
            .iter()
            .flat_map(|order| &order.documents)
            .map(|document| document.key.clone())
            .collect();
        assert_eq!(storage.uploads.condemn(&adopted).await.unwrap(), [], "they belong to orders");
        let last_use = self.file_numbers.iter().map(|used| last_use(storage, used));
        let file_numbers = stream::iter(last_use).buffered(AT_ONCE).collect().await;
        for key in &self.api_keys {
            assert_eq!(storage.keys.find(&key.key.lookup).await.unwrap().as_ref(), Some(key));
        }
        let orders = found.into_iter().filter_map(Result::unwrap).collect();
        for remembered in &self.remembered {
            let taken = storage
                .idempotency
                .claim(
                    &claim(&remembered.key),
                    remembered.kept_until - MICROSECOND,
                    remembered.kept_until,
                )
                .await;
            assert!(
                matches!(taken, Err(ClaimError::Taken(KeyUse::Answered(answered))) if answered == remembered.answered),
                "{taken:?}"
            );
        }
        let (uploads, remembered) = (self.uploads.clone(), self.remembered.clone());
        let mut shown = Self { orders, file_numbers, uploads, remembered, ..Self::default() };
        shown.read_back(storage).await;
        assert_eq!(&shown, self);
    }

    fn sort(&mut self) {
        self.orders.sort_by_key(|order| order.id);
        self.file_numbers
            .sort_by(|one, other| one.file_number.as_str().cmp(other.file_number.as_str()));
        self.uploads.sort_by(|one, other| one.key.as_str().cmp(other.key.as_str()));
        self.deliveries.sort_by_key(|delivery| delivery.id);
        self.api_keys.sort_by_key(|key| key.id.0);
        self.remembered.sort_by_key(|remembered| (remembered.key.client, remembered.key.digest));
    }
}

/// What makes an order a duplicate.
async fn last_use(storage: &Storage, used: &UsedFileNumber) -> UsedFileNumber {
    let again = new_order(used.file_number.as_str(), used.created_at);
    match storage.orders.create(&again, WINDOW).await {
        Err(CreateError::Duplicate { created_at }) => UsedFileNumber { created_at, ..used.clone() },
        other => panic!("{:?}: {other:?}", used.file_number),
    }
}

/// Old and new, condemned and not; and one that was forgotten.
async fn fill_ledger(storage: &Storage) -> Vec<RecordedUpload> {
    let mut uploads = Vec::new();
    for (recorded_at, condemned) in
        [(NOW, false), (EARLIER, false), (EARLIER + MICROSECOND, true), (NOW, true)]
    {
        let key = object_key();
        storage.uploads.record(from_ref(&key), recorded_at).await.unwrap();
        if condemned {
            storage.uploads.condemn(from_ref(&key)).await.unwrap();
        }
        uploads.push(RecordedUpload { key, recorded_at, condemned });
    }
    let forgotten = [object_key()];
    storage.uploads.record(&forgotten, EARLIER).await.unwrap();
    storage.uploads.condemn(&forgotten).await.unwrap();
    storage.uploads.forget(&forgotten).await.unwrap();
    uploads
}

/// Of one order: done, retried, buried, buried and retried by hand, leased, retried twice.
async fn fill_queue(storage: &Storage, contents: &mut Contents) {
    contents
        .create(
            storage,
            NewOrder { deliveries: (0..6).map(delivery).collect(), ..new_order("mails", EARLIER) },
        )
        .await;
    let error = "450 « bîte »\r\n%'\"\\".to_owned();
    let retry_at = |due_at| Settlement::RetryAt { due_at, error: error.clone() };
    let fail = || Settlement::Fail { at: EARLIER + Duration::SECOND, error: error.clone() };
    let leases = storage.queue.lease(EARLIER, LEASE, 10).await.unwrap();
    let soon = EARLIER + Duration::SECOND;
    settle(storage, &leases[0], Settlement::Done).await;
    settle(storage, &leases[1], retry_at(NOW + Duration::DAY + MICROSECOND)).await;
    settle(storage, &leases[2], fail()).await;
    settle(storage, &leases[3], fail()).await;
    assert!(storage.queue.retry(leases[3].delivery.id, EARLIER + Duration::MINUTE).await.unwrap());
    assert_eq!(leases[LEASED].delivery.task.recipient, crate::samples::recipient(LEASED));
    settle(storage, &leases[5], retry_at(soon)).await;
    let again = storage.queue.lease(soon, LEASE, 10).await.unwrap();
    assert_eq!(again.len(), 1, "the others are leased, or not due");
    settle(storage, &again[0], retry_at(soon + LEASE)).await;
}

async fn settle(storage: &Storage, lease: &Lease, settlement: Settlement) {
    assert!(storage.queue.settle(lease.delivery.id, lease.token, &settlement).await.unwrap());
}

/// Of every kind, with no documents, some, or as many as can be; file numbers that differ by
/// little, and one used twice.
async fn fill_orders(storage: &Storage, contents: &mut Contents) {
    for created_at in [EARLIER, NOW] {
        contents.create(storage, new_order("again", created_at)).await;
    }
    for file_number in ["Fé-1", "fé-1", "FÉ-1", "Fe-1", "Fe\u{301}-1", "Fé-1.", "Fé-10", "%", "𝕏"]
    {
        contents
            .create(storage, NewOrder { deliveries: vec![], ..new_order(file_number, NOW) })
            .await;
    }
    for (number, mut order) in unlike_orders().into_iter().chain([minimal_order()]).enumerate() {
        order.file_number = format!("kind {number}").try_into().unwrap();
        let mut documents: Vec<_> = (0..number % 4).map(|_| document()).collect();
        documents.reverse();
        let created_at = NOW + Duration::microseconds(number.try_into().unwrap());
        contents
            .create(
                storage,
                NewOrder {
                    order,
                    documents,
                    deliveries: (0..number % 3).map(delivery).collect(),
                    ..new_order("replaced", created_at)
                },
            )
            .await;
    }
    let documents = (0..20).map(|_| document()).collect();
    contents
        .create(
            storage,
            NewOrder { order: maximal_order(), documents, ..new_order("maximal", NOW) },
        )
        .await;
    fill_remembered(storage, contents).await;
}

/// Live ones with every field and with none, one that has expired, one that is revoked.
async fn fill_keys(storage: &Storage) {
    let bare = NewApiKey { signing_service: None, expires_at: None, ..api_key(EARLIER) };
    let expired = NewApiKey { expires_at: Some(NOW - MICROSECOND), ..api_key(EARLIER) };
    for key in [api_key(EARLIER), bare, expired] {
        storage.keys.add(&key, "jane").await.unwrap();
    }
    let revoked = storage.keys.add(&api_key(NOW), "jane").await.unwrap();
    let successor = NewApiKey { first: Some(revoked), ..api_key(NOW) };
    let successor = storage
        .keys
        .rotate(revoked, &successor, NOW + Duration::HOUR, "rick")
        .await
        .unwrap()
        .unwrap();
    storage.keys.revoke(revoked, NOW + MICROSECOND, "jane").await.unwrap();
    storage.keys.note_uses(&[(successor, NOW + MICROSECOND)]).await.unwrap();
}

/// Test orders and others, of two clients; and a key in flight, which is of no consequence
/// elsewhere.
async fn fill_remembered(storage: &Storage, contents: &mut Contents) {
    for number in 0..9 {
        let key = idempotency_key(1 + number % 2, &format!("key {number}"));
        let remembrance = Remembrance {
            attempt: attempt(&key, 7),
            kept_until: NOW + Duration::hours(number) + MICROSECOND,
        };
        let order = new_order(&format!("remembered {number}"), NOW);
        contents
            .create(
                storage,
                NewOrder { is_test: number % 3 == 0, remembrance: Some(remembrance), ..order },
            )
            .await;
    }
    storage
        .idempotency
        .claim(&claim(&idempotency_key(1, "in flight")), NOW, NOW + Duration::HOUR)
        .await
        .unwrap();
}
