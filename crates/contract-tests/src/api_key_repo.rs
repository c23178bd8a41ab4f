//! The contract of `ApiKeyRepo`.

use domain::api_key::{ApiKey, ApiKeyId, ClientId, KeyChange, KeyEvent, NewApiKey};
use futures_util::future::join_all;
use time::Duration;

use crate::samples::{MICROSECOND, NOW, Storage, api_key};

/// Whoever changes keys here, with what SQL and JSON have to escape.
const BY: &str = "jane 'é\" \\%;";

/// Runs the contract of `ApiKeyRepo` on the `Storage` that an expression makes, anew for each
/// test.
#[macro_export]
macro_rules! api_key_repo_contract {
    ($storage:expr) => {
        $crate::obligations!(api_key_repo, $storage;
            a_key_is_found_as_it_was_added,
            a_key_without_optional_fields_is_found_as_it_was_added,
            further_key_of_a_client_is_found_with_its_client,
            a_lookup_part_that_is_not_there_is_not_found,
            a_lookup_part_is_used_once,
            keys_are_listed_oldest_first,
            a_revoked_key_is_found_as_revoked,
            a_key_revoked_again_stays_as_it_is,
            what_was_never_issued_is_not_revoked,
            the_first_key_is_added_once,
            a_revoked_key_was_issued_all_the_same,
            of_many_concurrent_first_keys_one_is_added,
            a_successor_is_good_at_once_and_the_key_until_then,
            a_key_that_expires_earlier_still_does,
            only_a_live_key_is_rotated,
            the_last_use_is_the_latest_that_was_noted,
            the_trail_tells_who_changed_which_key_when,
            concurrent_rotations_of_one_key_all_count,
        );
    };
}

async fn assert_found_as_added(storage: &Storage, key: NewApiKey) {
    let id = storage.keys.add(&key, BY).await.unwrap();
    assert!(id.0 > 0);
    assert_eq!(
        storage.keys.find(&key.lookup).await.unwrap(),
        Some(ApiKey { id, key, revoked_at: None, last_used_at: None })
    );
}

/// Round trip with every field.
pub async fn a_key_is_found_as_it_was_added(storage: &Storage) {
    assert_found_as_added(storage, api_key(NOW)).await;
}

/// Round trip with no optional field.
pub async fn a_key_without_optional_fields_is_found_as_it_was_added(storage: &Storage) {
    assert_found_as_added(
        storage,
        NewApiKey {
            signing_service: None,
            expires_at: None,
            is_test: false,
            rate: None,
            documents_rate: None,
            ..api_key(NOW)
        },
    )
    .await;
}

/// The first key of a client names no other.
pub async fn further_key_of_a_client_is_found_with_its_client(storage: &Storage) {
    let first = storage.keys.add(&api_key(NOW), BY).await.unwrap();
    let client = ClientId(first.0);
    assert_found_as_added(storage, NewApiKey { client: Some(client), ..api_key(NOW) }).await;
    for key in storage.keys.list().await.unwrap() {
        assert_eq!(key.client(), client);
    }
}

/// Nor is one that differs by letter case.
pub async fn a_lookup_part_that_is_not_there_is_not_found(storage: &Storage) {
    storage
        .keys
        .add(&NewApiKey { lookup: "00000000000000aa".to_owned(), ..api_key(NOW) }, BY)
        .await
        .unwrap();
    for unknown in ["", "00000000000000AA", "00000000000000a", "%"] {
        assert_eq!(storage.keys.find(unknown).await.unwrap(), None, "{unknown}");
    }
}

/// Else a key could hide another.
pub async fn a_lookup_part_is_used_once(storage: &Storage) {
    let key = api_key(NOW);
    storage.keys.add(&key, BY).await.unwrap();
    assert!(storage.keys.add(&NewApiKey { lookup: key.lookup, ..api_key(NOW) }, BY).await.is_err());
    assert_eq!(storage.keys.list().await.unwrap().len(), 1);
}

/// Revoked and expired ones included.
pub async fn keys_are_listed_oldest_first(storage: &Storage) {
    assert_eq!(storage.keys.list().await.unwrap(), []);
    let mut expected = Vec::new();
    for minutes in 0..5 {
        let issued_at = NOW + Duration::minutes(minutes);
        let key = NewApiKey { expires_at: Some(issued_at), ..api_key(issued_at) };
        expected.push(ApiKey {
            id: storage.keys.add(&key, BY).await.unwrap(),
            key,
            revoked_at: None,
            last_used_at: None,
        });
    }
    expected[2] = storage.keys.revoke(expected[2].id, NOW, BY).await.unwrap().unwrap();
    assert_eq!(storage.keys.list().await.unwrap(), expected);
}

/// And no other.
pub async fn a_revoked_key_is_found_as_revoked(storage: &Storage) {
    let (key, other) = (api_key(NOW), api_key(NOW));
    let id = storage.keys.add(&key, BY).await.unwrap();
    storage.keys.add(&other, BY).await.unwrap();
    let revoked = ApiKey { id, key: key.clone(), revoked_at: Some(NOW), last_used_at: None };
    assert_eq!(storage.keys.revoke(id, NOW, BY).await.unwrap(), Some(revoked.clone()));
    assert_eq!(storage.keys.find(&key.lookup).await.unwrap(), Some(revoked));
    assert_eq!(storage.keys.find(&other.lookup).await.unwrap().unwrap().revoked_at, None);
}

/// Since when it is revoked is when it was revoked first.
pub async fn a_key_revoked_again_stays_as_it_is(storage: &Storage) {
    let id = storage.keys.add(&api_key(NOW), BY).await.unwrap();
    let revoked = storage.keys.revoke(id, NOW, BY).await.unwrap();
    assert_eq!(storage.keys.revoke(id, NOW + Duration::HOUR, BY).await.unwrap(), revoked);
    assert_eq!(revoked.unwrap().revoked_at, Some(NOW));
}

/// It is told so.
pub async fn what_was_never_issued_is_not_revoked(storage: &Storage) {
    let id = storage.keys.add(&api_key(NOW), BY).await.unwrap();
    for unknown in [0, id.0 + 1, i64::MAX] {
        assert_eq!(storage.keys.revoke(ApiKeyId(unknown), NOW, BY).await.unwrap(), None);
    }
}

/// A second one is not.
pub async fn the_first_key_is_added_once(storage: &Storage) {
    let (first, second) = (api_key(NOW), api_key(NOW));
    let id = storage.keys.add_first(&first, BY).await.unwrap().unwrap();
    assert_eq!(storage.keys.add_first(&second, BY).await.unwrap(), None);
    assert_eq!(
        storage.keys.list().await.unwrap(),
        [ApiKey { id, key: first, revoked_at: None, last_used_at: None }]
    );
}

/// Whoever revoked the only key does not want another one to appear at the next start.
pub async fn a_revoked_key_was_issued_all_the_same(storage: &Storage) {
    let id = storage.keys.add(&api_key(NOW), BY).await.unwrap();
    storage.keys.revoke(id, NOW, BY).await.unwrap();
    assert_eq!(storage.keys.add_first(&api_key(NOW), BY).await.unwrap(), None);
}

/// Instances that start together issue one key.
pub async fn of_many_concurrent_first_keys_one_is_added(storage: &Storage) {
    let tasks = (0..20).map(|_| {
        let keys = storage.keys.clone();
        tokio::spawn(async move { keys.add_first(&api_key(NOW), BY).await.unwrap() })
    });
    let added: Vec<_> = join_all(tasks).await.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(
        storage.keys.list().await.unwrap().iter().map(|key| key.id).collect::<Vec<_>>(),
        added
    );
    assert_eq!(added.len(), 1);
}

/// And is found as it was added, with the client that it belongs to.
pub async fn a_successor_is_good_at_once_and_the_key_until_then(storage: &Storage) {
    let old = NewApiKey { expires_at: None, ..api_key(NOW) };
    let id = storage.keys.add(&old, BY).await.unwrap();
    let (rotated_at, until) = (NOW + Duration::DAY, NOW + Duration::DAY + Duration::HOUR);
    let successor = NewApiKey { client: Some(ClientId(id.0)), ..api_key(rotated_at) };
    let successor_id = storage.keys.rotate(id, &successor, until, BY).await.unwrap().unwrap();
    assert!(successor_id > id);
    assert_eq!(
        storage.keys.find(&old.lookup).await.unwrap().unwrap().key,
        NewApiKey { expires_at: Some(until), ..old }
    );
    let found = storage.keys.find(&successor.lookup).await.unwrap().unwrap();
    assert_eq!((found.id, found.client()), (successor_id, ClientId(id.0)));
    assert_eq!(found.key, successor);
}

/// Grace is no extension.
pub async fn a_key_that_expires_earlier_still_does(storage: &Storage) {
    let old = NewApiKey { expires_at: Some(NOW + Duration::MINUTE), ..api_key(NOW) };
    let id = storage.keys.add(&old, BY).await.unwrap();
    storage.keys.rotate(id, &api_key(NOW), NOW + Duration::HOUR, BY).await.unwrap().unwrap();
    assert_eq!(
        storage.keys.find(&old.lookup).await.unwrap().unwrap().key.expires_at,
        Some(NOW + Duration::MINUTE)
    );
}

/// Else who lost a key that was revoked would get another; nothing is written.
pub async fn only_a_live_key_is_rotated(storage: &Storage) {
    let expired =
        storage.keys.add(&NewApiKey { expires_at: Some(NOW), ..api_key(NOW) }, BY).await.unwrap();
    let revoked = storage.keys.add(&api_key(NOW), BY).await.unwrap();
    storage.keys.revoke(revoked, NOW, BY).await.unwrap();
    let (before, trail) = (storage.keys.list().await.unwrap(), storage.keys.trail().await.unwrap());
    for id in [expired, revoked, ApiKeyId(revoked.0 + 1)] {
        assert_eq!(
            storage.keys.rotate(id, &api_key(NOW), NOW + Duration::HOUR, BY).await.unwrap(),
            None
        );
    }
    assert_eq!(storage.keys.list().await.unwrap(), before);
    assert_eq!(storage.keys.trail().await.unwrap(), trail);
}

/// Whatever order instances note them in; of keys that are there.
pub async fn the_last_use_is_the_latest_that_was_noted(storage: &Storage) {
    let (one, other) = (
        storage.keys.add(&api_key(NOW), BY).await.unwrap(),
        storage.keys.add(&api_key(NOW), BY).await.unwrap(),
    );
    for at in [NOW, NOW + MICROSECOND, NOW - Duration::HOUR] {
        storage.keys.note_uses(&[(one, at), (ApiKeyId(other.0 + 1), NOW)]).await.unwrap();
    }
    storage.keys.note_uses(&[]).await.unwrap();
    let last_uses: Vec<_> =
        storage.keys.list().await.unwrap().into_iter().map(|key| key.last_used_at).collect();
    assert_eq!(last_uses, [Some(NOW + MICROSECOND), None]);
}

/// Every change once, the oldest first; what changed nothing leaves no line.
pub async fn the_trail_tells_who_changed_which_key_when(storage: &Storage) {
    assert_eq!(storage.keys.trail().await.unwrap(), []);
    let minute = |number| NOW + Duration::minutes(number);
    let first = storage
        .keys
        .add_first(&NewApiKey { expires_at: None, ..api_key(minute(0)) }, "first start")
        .await
        .unwrap()
        .unwrap();
    storage.keys.add_first(&api_key(minute(1)), "second start").await.unwrap();
    let other = storage.keys.add(&api_key(minute(2)), BY).await.unwrap();
    let successor =
        storage.keys.rotate(first, &api_key(minute(3)), minute(9), "rick").await.unwrap().unwrap();
    storage.keys.revoke(first, minute(4), BY).await.unwrap();
    storage.keys.revoke(first, minute(5), "too late").await.unwrap();
    let event =
        |key, change, at, by: &str| KeyEvent { key, change, at: minute(at), by: by.to_owned() };
    let expected = [
        event(first, KeyChange::Issued, 0, "first start"),
        event(other, KeyChange::Issued, 2, BY),
        event(successor, KeyChange::Issued, 3, "rick"),
        event(first, KeyChange::Rotated { successor }, 3, "rick"),
        event(first, KeyChange::Revoked, 4, BY),
    ];
    assert_eq!(storage.keys.trail().await.unwrap(), expected);
}

/// None is lost, and the key expires at the earliest end that was asked for.
pub async fn concurrent_rotations_of_one_key_all_count(storage: &Storage) {
    let old = NewApiKey { expires_at: None, ..api_key(NOW) };
    let id = storage.keys.add(&old, BY).await.unwrap();
    let tasks = (1..=10).map(|hours| {
        let keys = storage.keys.clone();
        tokio::spawn(async move {
            keys.rotate(id, &api_key(NOW), NOW + Duration::hours(hours), BY).await.unwrap().unwrap()
        })
    });
    for successor in join_all(tasks).await {
        successor.unwrap();
    }
    assert_eq!(storage.keys.list().await.unwrap().len(), 11);
    assert_eq!(storage.keys.trail().await.unwrap().len(), 21);
    assert_eq!(
        storage.keys.find(&old.lookup).await.unwrap().unwrap().key.expires_at,
        Some(NOW + Duration::HOUR)
    );
}
