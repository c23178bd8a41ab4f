//! The contract of `ApiKeyRepo`.

use domain::api_key::{ApiKey, ApiKeyId, ClientId, KeyChange, KeyEvent, NewApiKey, Scope, Scopes};
use futures_util::future::join_all;
use time::Duration;

use crate::samples::{MICROSECOND, NOW, Storage, api_key};

/// The operator of the samples, with characters that SQL and JSON escape.
const BY: &str = "jane 'é\" \\%;";

/// Runs the contract of `ApiKeyRepo`. The expression makes the `Storage` of each test.
#[macro_export]
macro_rules! api_key_repo_contract {
    ($storage:expr) => {
        $crate::obligations!(api_key_repo, $storage;
            key_is_found_as_added,
            minimal_key_is_found_as_added,
            key_has_the_scopes_it_was_added_with,
            further_key_is_found_with_its_client,
            unknown_lookup_is_not_found,
            lookup_is_unique,
            keys_are_listed_oldest_first,
            revoked_key_is_found_as_revoked,
            second_revocation_changes_nothing,
            unknown_key_is_not_revoked,
            first_key_is_added_once,
            revoked_key_counts_as_first_key,
            one_of_concurrent_first_keys_is_added,
            rotation_adds_successor_and_sets_expiry,
            rotation_does_not_extend_a_key,
            only_a_valid_key_is_rotated,
            last_use_is_the_latest_noted,
            history_has_every_change_once,
            concurrent_rotations_all_count,
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

/// Stores and reads a key with every field.
pub async fn key_is_found_as_added(storage: &Storage) {
    assert_found_as_added(storage, api_key(NOW)).await;
}

/// Stores and reads a key with no optional field.
pub async fn minimal_key_is_found_as_added(storage: &Storage) {
    assert_found_as_added(
        storage,
        NewApiKey {
            signing_service: None,
            scopes: Scopes::from_iter([]),
            expires_at: None,
            is_test: false,
            rate: None,
            documents_rate: None,
            ..api_key(NOW)
        },
    )
    .await;
}

/// Any set of scopes, also in the list.
pub async fn key_has_the_scopes_it_was_added_with(storage: &Storage) {
    let mut added = vec![Scopes::default()];
    added.extend(Scope::ALL.map(|scope| Scopes::from_iter([scope])));
    for scopes in &added {
        assert_found_as_added(storage, NewApiKey { scopes: scopes.clone(), ..api_key(NOW) }).await;
    }
    let listed = storage.keys.list().await.unwrap().into_iter().map(|key| key.key.scopes);
    assert_eq!(listed.collect::<Vec<_>>(), added);
}

/// The first key of a client names no other.
pub async fn further_key_is_found_with_its_client(storage: &Storage) {
    let first = storage.keys.add(&api_key(NOW), BY).await.unwrap();
    let client = ClientId(first.0);
    assert_found_as_added(storage, NewApiKey { client: Some(client), ..api_key(NOW) }).await;
    for key in storage.keys.list().await.unwrap() {
        assert_eq!(key.client(), client);
    }
}

/// Lookups are compared exactly.
pub async fn unknown_lookup_is_not_found(storage: &Storage) {
    storage
        .keys
        .add(&NewApiKey { lookup: "00000000000000aa".to_owned(), ..api_key(NOW) }, BY)
        .await
        .unwrap();
    for unknown in ["", "00000000000000AA", "00000000000000a", "%"] {
        assert_eq!(storage.keys.find(unknown).await.unwrap(), None, "{unknown}");
    }
}

/// A second key with the lookup would hide the first.
pub async fn lookup_is_unique(storage: &Storage) {
    let key = api_key(NOW);
    storage.keys.add(&key, BY).await.unwrap();
    assert!(storage.keys.add(&NewApiKey { lookup: key.lookup, ..api_key(NOW) }, BY).await.is_err());
    assert_eq!(storage.keys.list().await.unwrap().len(), 1);
}

/// The list has revoked and expired keys, too.
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

/// Other keys are not affected.
pub async fn revoked_key_is_found_as_revoked(storage: &Storage) {
    let (key, other) = (api_key(NOW), api_key(NOW));
    let id = storage.keys.add(&key, BY).await.unwrap();
    storage.keys.add(&other, BY).await.unwrap();
    let revoked = ApiKey { id, key: key.clone(), revoked_at: Some(NOW), last_used_at: None };
    assert_eq!(storage.keys.revoke(id, NOW, BY).await.unwrap(), Some(revoked.clone()));
    assert_eq!(storage.keys.find(&key.lookup).await.unwrap(), Some(revoked));
    assert_eq!(storage.keys.find(&other.lookup).await.unwrap().unwrap().revoked_at, None);
}

/// The key keeps the instant of its first revocation.
pub async fn second_revocation_changes_nothing(storage: &Storage) {
    let id = storage.keys.add(&api_key(NOW), BY).await.unwrap();
    let revoked = storage.keys.revoke(id, NOW, BY).await.unwrap();
    assert_eq!(storage.keys.revoke(id, NOW + Duration::HOUR, BY).await.unwrap(), revoked);
    assert_eq!(revoked.unwrap().revoked_at, Some(NOW));
}

/// Returns `None`.
pub async fn unknown_key_is_not_revoked(storage: &Storage) {
    let id = storage.keys.add(&api_key(NOW), BY).await.unwrap();
    for unknown in [0, id.0 + 1, i64::MAX] {
        assert_eq!(storage.keys.revoke(ApiKeyId(unknown), NOW, BY).await.unwrap(), None);
    }
}

/// A second one is not added.
pub async fn first_key_is_added_once(storage: &Storage) {
    let (first, second) = (api_key(NOW), api_key(NOW));
    let id = storage.keys.add_first(&first, BY).await.unwrap().unwrap();
    assert_eq!(storage.keys.add_first(&second, BY).await.unwrap(), None);
    assert_eq!(
        storage.keys.list().await.unwrap(),
        [ApiKey { id, key: first, revoked_at: None, last_used_at: None }]
    );
}

/// An operator who revokes the only key does not get another one at the next start.
pub async fn revoked_key_counts_as_first_key(storage: &Storage) {
    let id = storage.keys.add(&api_key(NOW), BY).await.unwrap();
    storage.keys.revoke(id, NOW, BY).await.unwrap();
    assert_eq!(storage.keys.add_first(&api_key(NOW), BY).await.unwrap(), None);
}

/// Instances that start together issue one key.
pub async fn one_of_concurrent_first_keys_is_added(storage: &Storage) {
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

/// The successor is found as it was added, with its client.
pub async fn rotation_adds_successor_and_sets_expiry(storage: &Storage) {
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

/// A key that expires earlier keeps its expiry.
pub async fn rotation_does_not_extend_a_key(storage: &Storage) {
    let old = NewApiKey { expires_at: Some(NOW + Duration::MINUTE), ..api_key(NOW) };
    let id = storage.keys.add(&old, BY).await.unwrap();
    storage.keys.rotate(id, &api_key(NOW), NOW + Duration::HOUR, BY).await.unwrap().unwrap();
    assert_eq!(
        storage.keys.find(&old.lookup).await.unwrap().unwrap().key.expires_at,
        Some(NOW + Duration::MINUTE)
    );
}

/// Otherwise the holder of a revoked key would get another. Nothing is written.
pub async fn only_a_valid_key_is_rotated(storage: &Storage) {
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

/// Instances note uses in any order. Unknown keys are ignored.
pub async fn last_use_is_the_latest_noted(storage: &Storage) {
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

/// Oldest first. Calls that change nothing leave no entry.
pub async fn history_has_every_change_once(storage: &Storage) {
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

/// The key expires at the earliest of the requested instants.
pub async fn concurrent_rotations_all_count(storage: &Storage) {
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
