//! The contract of `UploadLedger`.

use std::{collections::HashSet, slice::from_ref};

use domain::{
    document::ObjectKey,
    ports::{CreateError, NewOrder},
};

use crate::samples::{MICROSECOND, NOW, Storage, WINDOW, document, new_order, object_key};

/// Runs the contract of `UploadLedger`. The expression makes the `Storage` of each test.
#[macro_export]
macro_rules! upload_ledger_contract {
    ($storage:expr) => {
        $crate::obligations!(upload_ledger, $storage;
            recorded_keys_are_condemned,
            condemned_keys_are_returned_until_forgotten,
            recording_a_known_key_records_nothing,
            keys_recorded_before_an_instant_are_condemned,
            condemned_keys_are_swept_at_any_age,
            sweep_has_a_limit,
            condemned_keys_are_forgotten,
            only_condemned_keys_are_forgotten,
            swept_key_is_never_adopted,
            key_is_adopted_or_condemned_never_both,
            empty_lists_of_keys_are_accepted,
        );
    };
}

async fn recorded<const N: usize>(storage: &Storage) -> [ObjectKey; N] {
    let keys = std::array::from_fn(|_| object_key());
    storage.uploads.record(&keys, NOW).await.unwrap();
    keys
}

/// Returns the keys without their order.
fn set(keys: impl IntoIterator<Item = ObjectKey>) -> HashSet<ObjectKey> {
    keys.into_iter().collect()
}

/// Condemns only the given keys, and of these only those in the ledger.
pub async fn recorded_keys_are_condemned(storage: &Storage) {
    let [one, two, three] = recorded(storage).await;
    let condemned =
        storage.uploads.condemn(&[one.clone(), object_key(), three.clone()]).await.unwrap();
    assert_eq!(set(condemned), set([one, three]));
    let order = NewOrder {
        documents: vec![domain::document::StoredDocument { key: two, ..document() }],
        ..new_order("F-1", NOW)
    };
    storage.orders.create(&order, WINDOW).await.unwrap();
}

/// The process that condemned them may have died before it deleted the objects.
pub async fn condemned_keys_are_returned_until_forgotten(storage: &Storage) {
    let keys: [_; 2] = recorded(storage).await;
    for _ in 0..2 {
        assert_eq!(set(storage.uploads.condemn(&keys).await.unwrap()), set(keys.clone()));
    }
}

/// Records all keys or none.
pub async fn recording_a_known_key_records_nothing(storage: &Storage) {
    let [old] = recorded(storage).await;
    let new = object_key();
    assert!(storage.uploads.record(&[new.clone(), old], NOW).await.is_err());
    assert_eq!(storage.uploads.condemn(&[new]).await.unwrap(), []);
}

/// Keys recorded at the instant itself are not condemned.
pub async fn keys_recorded_before_an_instant_are_condemned(storage: &Storage) {
    let [earlier, same] = [object_key(), object_key()];
    storage.uploads.record(from_ref(&earlier), NOW - MICROSECOND).await.unwrap();
    storage.uploads.record(from_ref(&same), NOW).await.unwrap();
    assert_eq!(storage.uploads.condemn_recorded_before(NOW, 10).await.unwrap(), from_ref(&earlier));
    assert_eq!(
        storage.uploads.condemn_recorded_before(NOW, 10).await.unwrap(),
        from_ref(&earlier),
        "it is not forgotten yet"
    );
    assert_eq!(
        set(storage.uploads.condemn_recorded_before(NOW + MICROSECOND, 10).await.unwrap()),
        set([earlier, same])
    );
}

/// A request condemned them and could not delete their objects.
pub async fn condemned_keys_are_swept_at_any_age(storage: &Storage) {
    let [condemned, _live] = recorded(storage).await;
    storage.uploads.condemn(from_ref(&condemned)).await.unwrap();
    assert_eq!(storage.uploads.condemn_recorded_before(NOW, 10).await.unwrap(), [condemned]);
}

/// The next sweep returns other keys, once the first are forgotten.
pub async fn sweep_has_a_limit(storage: &Storage) {
    let keys: [_; 5] = recorded(storage).await;
    let mut swept = HashSet::new();
    for expected in [2, 2, 1, 0] {
        let condemned =
            storage.uploads.condemn_recorded_before(NOW + MICROSECOND, 2).await.unwrap();
        assert_eq!(condemned.len(), expected);
        storage.uploads.forget(&condemned).await.unwrap();
        swept.extend(condemned);
    }
    assert_eq!(swept, set(keys));
}

/// Forgetting an unknown key is no error.
pub async fn condemned_keys_are_forgotten(storage: &Storage) {
    let [forgotten, condemned] = recorded(storage).await;
    storage.uploads.condemn(&[forgotten.clone(), condemned.clone()]).await.unwrap();
    for _ in 0..2 {
        storage.uploads.forget(from_ref(&forgotten)).await.unwrap();
        assert_eq!(
            storage.uploads.condemn(&[forgotten.clone(), condemned.clone()]).await.unwrap(),
            from_ref(&condemned)
        );
    }
}

/// An order may still adopt the others.
pub async fn only_condemned_keys_are_forgotten(storage: &Storage) {
    let [live] = recorded(storage).await;
    storage.uploads.forget(from_ref(&live)).await.unwrap();
    assert_eq!(storage.uploads.condemn(from_ref(&live)).await.unwrap(), [live]);
}

/// Covers condemned and forgotten keys.
pub async fn swept_key_is_never_adopted(storage: &Storage) {
    let document = document();
    storage.uploads.record(from_ref(&document.key), NOW).await.unwrap();
    let order = NewOrder { documents: vec![document.clone()], ..new_order("F-1", NOW) };
    storage.uploads.condemn_recorded_before(NOW + MICROSECOND, 1).await.unwrap();
    assert!(matches!(storage.orders.create(&order, WINDOW).await, Err(CreateError::UploadSwept)));
    storage.uploads.forget(&[document.key]).await.unwrap();
    assert!(matches!(storage.orders.create(&order, WINDOW).await, Err(CreateError::UploadSwept)));
}

/// Runs the order and the sweeper at the same time.
pub async fn key_is_adopted_or_condemned_never_both(storage: &Storage) {
    for round in 0..40 {
        let document = document();
        let key = document.key.clone();
        storage.uploads.record(from_ref(&key), NOW).await.unwrap();
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
            Err(CreateError::UploadSwept) => assert_eq!(sweeping.await.unwrap().len(), 1),
            Err(error) => panic!("{error}"),
        }
    }
}

/// An order without documents has no keys.
pub async fn empty_lists_of_keys_are_accepted(storage: &Storage) {
    storage.uploads.record(&[], NOW).await.unwrap();
    assert_eq!(storage.uploads.condemn(&[]).await.unwrap(), []);
    assert_eq!(storage.uploads.condemn_recorded_before(NOW, 0).await.unwrap(), []);
    storage.uploads.forget(&[]).await.unwrap();
}
