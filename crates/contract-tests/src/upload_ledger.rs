//! The contract of `UploadLedger`.

use std::{collections::HashSet, slice::from_ref};

use domain::{
    document::ObjectKey,
    ports::{CreateError, NewOrder},
};

use crate::samples::{MICROSECOND, NOW, Storage, WINDOW, document, new_order, object_key};

/// Runs the contract of `UploadLedger` on the [`Storage`] that an expression makes, anew for each
/// test.
#[macro_export]
macro_rules! upload_ledger_contract {
    ($storage:expr) => {
        $crate::obligations!(upload_ledger, $storage;
            recorded_keys_are_condemned,
            condemned_keys_are_returned_again,
            of_keys_that_are_recorded_already_none_is_recorded,
            keys_recorded_before_an_instant_are_condemned,
            keys_condemned_earlier_are_swept_whenever_they_were_recorded,
            a_sweep_has_a_limit,
            condemned_keys_are_forgotten,
            keys_that_are_not_condemned_are_not_forgotten,
            a_swept_key_is_never_adopted,
            a_key_is_adopted_or_condemned_but_never_both,
            nothing_may_be_asked_of_no_keys,
        );
    };
}

async fn recorded<const N: usize>(storage: &Storage) -> [ObjectKey; N] {
    let keys = std::array::from_fn(|_| object_key());
    storage.uploads.record(&keys, NOW).await.unwrap();
    keys
}

/// In any order.
fn set(keys: impl IntoIterator<Item = ObjectKey>) -> HashSet<ObjectKey> {
    keys.into_iter().collect()
}

/// Only those asked for, and of them only those in the ledger.
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

/// Until they are forgotten: who asked first may have died before it deleted the objects.
pub async fn condemned_keys_are_returned_again(storage: &Storage) {
    let keys: [_; 2] = recorded(storage).await;
    for _ in 0..2 {
        assert_eq!(set(storage.uploads.condemn(&keys).await.unwrap()), set(keys.clone()));
    }
}

/// All or none.
pub async fn of_keys_that_are_recorded_already_none_is_recorded(storage: &Storage) {
    let [known] = recorded(storage).await;
    let new = object_key();
    assert!(storage.uploads.record(&[new.clone(), known], NOW).await.is_err());
    assert_eq!(storage.uploads.condemn(&[new]).await.unwrap(), []);
}

/// Those recorded at the instant itself are not.
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

/// What a request condemned and then could not delete is left to the sweeper at once.
pub async fn keys_condemned_earlier_are_swept_whenever_they_were_recorded(storage: &Storage) {
    let [condemned, _live] = recorded(storage).await;
    storage.uploads.condemn(from_ref(&condemned)).await.unwrap();
    assert_eq!(storage.uploads.condemn_recorded_before(NOW, 10).await.unwrap(), [condemned]);
}

/// Each sweep goes on where the last one ended, once that has forgotten what it swept.
pub async fn a_sweep_has_a_limit(storage: &Storage) {
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

/// That a key is not there is no error.
pub async fn condemned_keys_are_forgotten(storage: &Storage) {
    let [gone, kept] = recorded(storage).await;
    storage.uploads.condemn(&[gone.clone(), kept.clone()]).await.unwrap();
    for _ in 0..2 {
        storage.uploads.forget(from_ref(&gone)).await.unwrap();
        assert_eq!(
            storage.uploads.condemn(&[gone.clone(), kept.clone()]).await.unwrap(),
            from_ref(&kept)
        );
    }
}

/// Their objects may yet be adopted.
pub async fn keys_that_are_not_condemned_are_not_forgotten(storage: &Storage) {
    let [live] = recorded(storage).await;
    storage.uploads.forget(from_ref(&live)).await.unwrap();
    assert_eq!(storage.uploads.condemn(from_ref(&live)).await.unwrap(), [live]);
}

/// Neither before it is forgotten nor after.
pub async fn a_swept_key_is_never_adopted(storage: &Storage) {
    let document = document();
    storage.uploads.record(from_ref(&document.key), NOW).await.unwrap();
    let order = NewOrder { documents: vec![document.clone()], ..new_order("F-1", NOW) };
    storage.uploads.condemn_recorded_before(NOW + MICROSECOND, 1).await.unwrap();
    assert!(matches!(storage.orders.create(&order, WINDOW).await, Err(CreateError::UploadSwept)));
    storage.uploads.forget(&[document.key]).await.unwrap();
    assert!(matches!(storage.orders.create(&order, WINDOW).await, Err(CreateError::UploadSwept)));
}

/// However close the order and the sweeper come to each other.
pub async fn a_key_is_adopted_or_condemned_but_never_both(storage: &Storage) {
    for round in 0..40 {
        let document = document();
        let key = document.key.clone();
        storage.uploads.record(from_ref(&key), NOW).await.unwrap();
        let order = NewOrder { documents: vec![document], ..new_order(&format!("F-{round}"), NOW) };
        let (orders, uploads) = (storage.orders.clone(), storage.uploads.clone());
        let placing = async move { orders.create(&order, WINDOW).await };
        let sweeping = async move { uploads.condemn(from_ref(&key)).await.unwrap() };
        // Whichever is spawned first tends to win, so they take turns.
        let (placing, sweeping) = if round % 2 == 0 {
            (tokio::spawn(placing), tokio::spawn(sweeping))
        } else {
            let sweeping = tokio::spawn(sweeping);
            (tokio::spawn(placing), sweeping)
        };
        match placing.await.unwrap() {
            Ok(_) => assert_eq!(sweeping.await.unwrap(), []),
            Err(CreateError::UploadSwept) => assert_eq!(sweeping.await.unwrap().len(), 1),
            Err(error) => panic!("{error}"),
        }
    }
}

/// An order without documents has none.
pub async fn nothing_may_be_asked_of_no_keys(storage: &Storage) {
    storage.uploads.record(&[], NOW).await.unwrap();
    assert_eq!(storage.uploads.condemn(&[]).await.unwrap(), []);
    assert_eq!(storage.uploads.condemn_recorded_before(NOW, 0).await.unwrap(), []);
    storage.uploads.forget(&[]).await.unwrap();
}
