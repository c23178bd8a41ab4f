//! The contract of `ApiKeyRepo`.

use domain::{
    api_key::{ApiKey, ApiKeyId, ClientId, KeyChange, KeyEvent, NewApiKey, Scope, Scopes},
    order::SigningServiceId,
};
use time::{Duration, OffsetDateTime};

use crate::samples::{self, MICROSECOND, NOW, Storage, api_key, at_once};

/// The operator of the samples, with characters that SQL and JSON escape.
const BY: &str = "jane 'é\" \\%;";

async fn add(storage: &Storage, key: &NewApiKey) -> ApiKeyId {
    storage.keys.add(key, BY).await.unwrap()
}

async fn list(storage: &Storage) -> Vec<ApiKey> {
    storage.keys.list().await.unwrap()
}

async fn find(storage: &Storage, lookup: &str) -> Option<ApiKey> {
    storage.keys.find(lookup).await.unwrap()
}

async fn revoke(storage: &Storage, id: ApiKeyId, at: OffsetDateTime) -> Option<ApiKey> {
    storage.keys.revoke(id, at, BY).await.unwrap()
}

async fn rotate(
    storage: &Storage,
    id: ApiKeyId,
    successor: &NewApiKey,
    until: OffsetDateTime,
) -> Option<ApiKeyId> {
    storage.keys.rotate(id, successor, until, BY).await.unwrap()
}

/// Returns a key that was not revoked and not used.
fn unused(id: ApiKeyId, key: NewApiKey) -> ApiKey {
    ApiKey { id, key, revoked_at: None, last_used_at: None }
}

async fn assert_found_as_added(storage: &Storage, key: NewApiKey) {
    let id = add(storage, &key).await;
    assert!(id.0 > 0);
    assert_eq!(find(storage, &key.lookup).await, Some(unused(id, key)));
}

/// Covers keys with every field, with no optional field, and with any set of scopes, also in the
/// list.
pub async fn key_is_found_as_added(storage: &Storage) {
    let minimal = NewApiKey {
        signing_service: None,
        scopes: Scopes::from_iter([]),
        expires_at: None,
        is_test: false,
        rate: None,
        documents_rate: None,
        ..api_key(NOW)
    };
    let sets = Scope::ALL.map(|scope| Scopes::from_iter([scope])).into_iter();
    let others = sets.chain([Scopes::default()]).map(|scopes| NewApiKey { scopes, ..api_key(NOW) });
    let keys: Vec<_> = [api_key(NOW), minimal].into_iter().chain(others).collect();
    for key in &keys {
        assert_found_as_added(storage, key.clone()).await;
    }
    let listed = list(storage).await.into_iter().map(|key| key.key);
    assert_eq!(listed.collect::<Vec<_>>(), keys);
}

/// The first key of a client names no other.
pub async fn further_key_is_found_with_its_client(storage: &Storage) {
    let first = add(storage, &api_key(NOW)).await;
    let client = ClientId(first.0);
    assert_found_as_added(storage, NewApiKey { client: Some(client), ..api_key(NOW) }).await;
    for key in list(storage).await {
        assert_eq!(key.client(), client);
    }
}

/// Lookups are compared exactly. A second key with the lookup would hide the first.
pub async fn unknown_lookup_is_not_found(storage: &Storage) {
    let key = || NewApiKey { lookup: "00000000000000aa".to_owned(), ..api_key(NOW) };
    add(storage, &key()).await;
    assert!(storage.keys.add(&key(), BY).await.is_err());
    assert_eq!(list(storage).await.len(), 1);
    for unknown in ["", "00000000000000AA", "00000000000000a", "%"] {
        assert_eq!(find(storage, unknown).await, None, "{unknown}");
    }
}

/// The list has revoked and expired keys, too.
pub async fn keys_are_listed_oldest_first(storage: &Storage) {
    assert_eq!(list(storage).await, []);
    let mut expected = Vec::new();
    for minutes in 0..5 {
        let issued_at = NOW + Duration::minutes(minutes);
        let key = NewApiKey { expires_at: Some(issued_at), ..api_key(issued_at) };
        expected.push(unused(add(storage, &key).await, key));
    }
    expected[2] = revoke(storage, expected[2].id, NOW).await.unwrap();
    assert_eq!(list(storage).await, expected);
}

/// Other keys are not affected. The key keeps the instant of its first revocation.
pub async fn revoked_key_is_found_as_revoked(storage: &Storage) {
    let (key, other) = (api_key(NOW), api_key(NOW));
    let id = add(storage, &key).await;
    let other_id = add(storage, &other).await;
    let revoked = Some(ApiKey { revoked_at: Some(NOW), ..unused(id, key.clone()) });
    for at in [NOW, NOW + Duration::HOUR] {
        assert_eq!(revoke(storage, id, at).await, revoked);
        assert_eq!(find(storage, &key.lookup).await, revoked);
    }
    for unknown in [0, other_id.0 + 1, i64::MAX].map(ApiKeyId) {
        assert_eq!(revoke(storage, unknown, NOW).await, None);
    }
    assert_eq!(find(storage, &other.lookup).await, Some(unused(other_id, other)));
}

/// Instances that start together issue one key. An operator who revokes the only key does not get
/// another one at the next start.
pub async fn first_key_is_added_once(storage: &Storage) {
    let add_first = || {
        let keys = storage.keys.clone();
        async move {
            let key = api_key(NOW);
            let id = keys.add_first(&key, BY).await.unwrap();
            id.map(|id| unused(id, key))
        }
    };
    let added: Vec<_> = at_once((0..20).map(|_| add_first())).await.into_iter().flatten().collect();
    assert_eq!(added.len(), 1);
    assert_eq!(list(storage).await, added);
    revoke(storage, added[0].id, NOW).await;
    assert_eq!(add_first().await, None);
}

/// The successor is found as it was added, with its client.
pub async fn rotation_adds_successor_and_sets_expiry(storage: &Storage) {
    let old = NewApiKey { expires_at: None, ..api_key(NOW) };
    let id = add(storage, &old).await;
    let (rotated_at, until) = (NOW + Duration::DAY, NOW + Duration::DAY + Duration::HOUR);
    let successor = NewApiKey { client: Some(ClientId(id.0)), ..api_key(rotated_at) };
    let successor_id = rotate(storage, id, &successor, until).await.unwrap();
    assert!(successor_id > id);
    let rotated = NewApiKey { expires_at: Some(until), ..old };
    assert_eq!(find(storage, &rotated.lookup).await.unwrap().key, rotated);
    let found = find(storage, &successor.lookup).await.unwrap();
    assert_eq!((found.id, found.client()), (successor_id, ClientId(id.0)));
    assert_eq!(found.key, successor);
}

/// A key that expires earlier keeps its expiry.
pub async fn rotation_does_not_extend_a_key(storage: &Storage) {
    let old = NewApiKey { expires_at: Some(NOW + Duration::MINUTE), ..api_key(NOW) };
    let id = add(storage, &old).await;
    rotate(storage, id, &api_key(NOW), NOW + Duration::HOUR).await.unwrap();
    assert_eq!(find(storage, &old.lookup).await.unwrap().key, old);
}

/// Otherwise the holder of a revoked key would get another. Nothing is written.
pub async fn only_a_valid_key_is_rotated(storage: &Storage) {
    let expired = add(storage, &NewApiKey { expires_at: Some(NOW), ..api_key(NOW) }).await;
    let revoked = add(storage, &api_key(NOW)).await;
    revoke(storage, revoked, NOW).await;
    let (before, trail) = (list(storage).await, storage.keys.trail().await.unwrap());
    for id in [expired, revoked, ApiKeyId(revoked.0 + 1)] {
        assert_eq!(rotate(storage, id, &api_key(NOW), NOW + Duration::HOUR).await, None);
    }
    assert_eq!((list(storage).await, storage.keys.trail().await.unwrap()), (before, trail));
}

/// Instances note uses in any order. Unknown keys are ignored.
pub async fn last_use_is_the_latest_noted(storage: &Storage) {
    let one = add(storage, &api_key(NOW)).await;
    let other = add(storage, &api_key(NOW)).await;
    for at in [NOW, NOW + MICROSECOND, NOW - Duration::HOUR] {
        storage.keys.note_uses(&[(one, at), (ApiKeyId(other.0 + 1), NOW)]).await.unwrap();
    }
    storage.keys.note_uses(&[]).await.unwrap();
    let last_uses: Vec<_> = list(storage).await.into_iter().map(|key| key.last_used_at).collect();
    assert_eq!(last_uses, [Some(NOW + MICROSECOND), None]);
}

/// Oldest first. Calls that change nothing leave no entry.
pub async fn history_has_every_change_once(storage: &Storage) {
    assert_eq!(storage.keys.trail().await.unwrap(), []);
    let minute = |number| NOW + Duration::minutes(number);
    let key = NewApiKey { expires_at: None, ..api_key(minute(0)) };
    let first = storage.keys.add_first(&key, "first start").await.unwrap().unwrap();
    storage.keys.add_first(&api_key(minute(1)), "second start").await.unwrap();
    let other = add(storage, &api_key(minute(2))).await;
    let successor =
        storage.keys.rotate(first, &api_key(minute(3)), minute(9), "rick").await.unwrap().unwrap();
    storage.keys.revoke(first, minute(4), BY).await.unwrap();
    storage.keys.revoke(first, minute(5), "too late").await.unwrap();
    storage.keys.revoke(ApiKeyId(i64::MAX), minute(6), "of none").await.unwrap();
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
    let id = add(storage, &old).await;
    let rotations = at_once((1..=10).map(|hours| {
        let (keys, until) = (storage.keys.clone(), NOW + Duration::hours(hours));
        async move { keys.rotate(id, &api_key(NOW), until, BY).await.unwrap() }
    }));
    assert!(rotations.await.iter().all(Option::is_some));
    assert_eq!(list(storage).await.len(), 11);
    assert_eq!(storage.keys.trail().await.unwrap().len(), 21);
    let rotated = find(storage, &old.lookup).await.unwrap();
    assert_eq!(rotated.key.expires_at, Some(NOW + Duration::HOUR));
}

/// A newer version of the service has written them. The key works with the scopes that this one knows.
pub async fn unknown_names_of_keys_are_left_out(storage: &Storage) {
    let key = api_key(NOW);
    let id = add(storage, &key).await;
    let trail = storage.keys.trail().await.unwrap();
    storage.other_system.make_keys_unknown().await;
    let key = unused(id, key);
    assert_eq!(
        (list(storage).await, find(storage, &key.key.lookup).await),
        (vec![key.clone()], Some(key))
    );
    assert_eq!(storage.keys.trail().await.unwrap(), trail);
    let faults = samples::faults(storage).await;
    assert_eq!(faults[0], format!("row {} of api_keys cannot be read: scopes", id.0));
    assert!(faults[1].ends_with("of key_events cannot be read: change"), "{faults:?}");
    let end = NOW + Duration::HOUR;
    assert!(rotate(storage, id, &api_key(NOW), end).await.is_some());
    assert!(revoke(storage, id, NOW).await.is_some());
}

/// No other key of the client, and no key of a service.
pub async fn only_a_client_is_renamed(storage: &Storage) {
    let named = NewApiKey { client_name: Some("Acme \"é\"".to_owned()), ..api_key(NOW) };
    let id = add(storage, &named).await;
    let client = ClientId(id.0);
    let further = add(storage, &NewApiKey { client: Some(client), ..api_key(NOW) }).await;
    let for_service = Some(SigningServiceId(7));
    let of_service = add(storage, &NewApiKey { for_service, ..api_key(NOW) }).await;
    let before = list(storage).await;
    for other in [further.0, of_service.0, of_service.0 + 1] {
        assert!(!storage.keys.rename_client(ClientId(other), "Other").await.unwrap());
    }
    assert_eq!(list(storage).await, before);
    assert!(storage.keys.rename_client(client, "Title 'ö'").await.unwrap());
    let renamed = NewApiKey { client_name: Some("Title 'ö'".to_owned()), ..named };
    assert_eq!(find(storage, &renamed.lookup).await, Some(unused(id, renamed)));
}

/// No other key of the client, and no key of a service.
pub async fn first_key_of_a_client_is_found(storage: &Storage) {
    let first = api_key(NOW);
    let id = add(storage, &first).await;
    let client = ClientId(id.0);
    let further = add(storage, &NewApiKey { client: Some(client), ..api_key(NOW) }).await;
    let for_service = Some(SigningServiceId(7));
    let of_service = add(storage, &NewApiKey { for_service, ..api_key(NOW) }).await;
    let found = async |client| storage.keys.first_of(client).await.unwrap();
    assert_eq!(found(client).await, Some(unused(id, first)));
    for other in [further.0, of_service.0, of_service.0 + 1] {
        assert_eq!(found(ClientId(other)).await, None);
    }
}
