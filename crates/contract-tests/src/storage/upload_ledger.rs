//! The contract of `UploadLedger`.

use std::{collections::HashSet, slice::from_ref};

use domain::{
    document::{ObjectKey, StoredDocument},
    ports::{NewOrder, WriteError},
};
use time::{Duration, OffsetDateTime};

use crate::samples::{MICROSECOND, NOW, Storage, WINDOW, document, key_of, new_order, object_key};

async fn recorded<const N: usize>(storage: &Storage) -> [ObjectKey; N] {
    let keys = std::array::from_fn(|_| object_key());
    storage.record(&keys).await;
    keys
}

/// Returns the keys without their order.
fn set(keys: impl IntoIterator<Item = ObjectKey>) -> HashSet<ObjectKey> {
    keys.into_iter().collect()
}

/// Sweeps keys recorded before an instant.
async fn swept(storage: &Storage, instant: OffsetDateTime, limit: usize) -> Vec<ObjectKey> {
    storage.uploads.condemn_recorded_before(instant, None, limit).await.unwrap()
}

/// Condemns only the given keys, and of these only those in the ledger. They are returned until they
/// are forgotten: the process that condemned them may have died before it deleted the objects.
pub async fn recorded_keys_are_condemned(storage: &Storage) {
    let [one, two, three] = recorded(storage).await;
    for _ in 0..2 {
        let condemned = storage.condemn(&[one.clone(), object_key(), three.clone()]).await;
        assert_eq!(set(condemned), set([one.clone(), three.clone()]));
    }
    let documents = vec![StoredDocument { key: Some(two), ..document() }];
    storage.create(&NewOrder { documents, ..new_order("F-1", NOW) }).await;
}

/// Records all keys or none.
pub async fn recording_a_known_key_records_nothing(storage: &Storage) {
    let [old] = recorded(storage).await;
    let new = object_key();
    assert!(storage.uploads.record(&[new.clone(), old], NOW).await.is_err());
    assert_eq!(storage.condemn(&[new]).await, []);
}

/// Keys recorded at the instant itself are not condemned. Those of before are not forgotten yet.
pub async fn keys_recorded_before_an_instant_are_condemned(storage: &Storage) {
    let [earlier, same] = [object_key(), object_key()];
    storage.uploads.record(from_ref(&earlier), NOW - MICROSECOND).await.unwrap();
    storage.record(from_ref(&same)).await;
    for _ in 0..2 {
        assert_eq!(swept(storage, NOW, 10).await, from_ref(&earlier));
    }
    assert_eq!(set(swept(storage, NOW + MICROSECOND, 10).await), set([earlier, same]));
    let [ahead, recent] = [object_key(), object_key()];
    storage.uploads.record(from_ref(&ahead), NOW + Duration::days(365)).await.unwrap();
    storage.uploads.record(from_ref(&recent), NOW + Duration::hours(2)).await.unwrap();
    assert!(swept(storage, NOW, 10).await.contains(&ahead));
    assert!(!swept(storage, NOW, 10).await.contains(&recent));
}

/// A request condemned them and could not delete their objects.
pub async fn condemned_keys_are_swept_at_any_age(storage: &Storage) {
    let [condemned, _live] = recorded(storage).await;
    storage.condemn(from_ref(&condemned)).await;
    assert_eq!(swept(storage, NOW, 10).await, [condemned]);
}

/// The next sweep returns other keys, once the first are forgotten.
pub async fn sweep_has_a_limit(storage: &Storage) {
    let keys: [_; 5] = recorded(storage).await;
    let mut all = HashSet::new();
    for expected in [2, 2, 1, 0] {
        let condemned = swept(storage, NOW + MICROSECOND, 2).await;
        assert_eq!(condemned.len(), expected);
        storage.uploads.forget(&condemned).await.unwrap();
        all.extend(condemned);
    }
    assert_eq!(all, set(keys));
}

/// So keys whose objects cannot be deleted hold up no other.
pub async fn sweep_goes_on_behind_a_key(storage: &Storage) {
    let mut keys: [_; 5] = recorded(storage).await;
    keys.sort_unstable();
    storage.condemn(&keys[..2]).await;
    let sweep = async |after: Option<&ObjectKey>, limit| {
        let instant = NOW + MICROSECOND;
        storage.uploads.condemn_recorded_before(instant, after.cloned(), limit).await.unwrap()
    };
    assert_eq!(sweep(None, 2).await, keys[..2]);
    assert_eq!(sweep(Some(&keys[1]), 2).await, keys[2..4]);
    assert_eq!(sweep(Some(&keys[3]), 2).await, keys[4..]);
    assert_eq!(sweep(Some(&keys[4]), 2).await, []);
    assert_eq!(sweep(None, 10).await, keys);
}

/// Forgetting an unknown key is no error. An order may still adopt those that are not condemned.
pub async fn only_condemned_keys_are_forgotten(storage: &Storage) {
    let [forgotten, condemned, live] = recorded(storage).await;
    storage.condemn(&[forgotten.clone(), condemned.clone()]).await;
    for _ in 0..2 {
        storage.uploads.forget(&[forgotten.clone(), live.clone()]).await.unwrap();
    }
    let left = storage.condemn(&[forgotten, condemned.clone(), live.clone()]).await;
    assert_eq!(set(left), set([condemned, live]));
}

/// Covers condemned and forgotten keys.
pub async fn swept_key_is_never_adopted(storage: &Storage) {
    let document = document();
    storage.record(&[key_of(&document)]).await;
    let order = NewOrder { documents: vec![document.clone()], ..new_order("F-1", NOW) };
    swept(storage, NOW + MICROSECOND, 1).await;
    for _ in 0..2 {
        let outcome = storage.orders.create(&order, WINDOW).await;
        assert!(matches!(outcome, Err(WriteError::UploadSwept)), "{outcome:?}");
        storage.uploads.forget(&[key_of(&document)]).await.unwrap();
    }
}

/// Runs the order and the sweeper at the same time.
pub async fn key_is_adopted_or_condemned_never_both(storage: &Storage) {
    for round in 0..40 {
        let document = document();
        let key = key_of(&document);
        storage.record(from_ref(&key)).await;
        let order = NewOrder { documents: vec![document], ..new_order(&format!("F-{round}"), NOW) };
        let (orders, uploads) = (storage.orders.clone(), storage.uploads.clone());
        let creating = async move { orders.create(&order, WINDOW).await };
        let sweeping = async move { uploads.condemn(from_ref(&key)).await.unwrap() };
        // The task that is spawned first tends to win, so the order alternates.
        let (creating, sweeping) = if round % 2 == 0 {
            (tokio::spawn(creating), tokio::spawn(sweeping))
        } else {
            let sweeping = tokio::spawn(sweeping);
            (tokio::spawn(creating), sweeping)
        };
        match creating.await.unwrap() {
            Ok(_) => assert_eq!(sweeping.await.unwrap(), []),
            Err(WriteError::UploadSwept) => assert_eq!(sweeping.await.unwrap().len(), 1),
            Err(error) => panic!("{error}"),
        }
    }
}

/// An order without documents has no keys.
pub async fn empty_lists_of_keys_are_accepted(storage: &Storage) {
    storage.record(&[]).await;
    assert_eq!(storage.condemn(&[]).await, []);
    assert_eq!(storage.uploads.condemn_recorded_before(NOW, None, 0).await.unwrap(), []);
    storage.uploads.forget(&[]).await.unwrap();
}
