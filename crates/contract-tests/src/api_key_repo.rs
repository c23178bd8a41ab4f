//! The contract of `ApiKeyRepo`.

use domain::api_key::{ApiKey, ApiKeyId, NewApiKey};
use futures_util::future::join_all;
use time::Duration;

use crate::samples::{NOW, Storage, api_key};

/// Runs the contract of `ApiKeyRepo` on the `Storage` that an expression makes, anew for each
/// test.
#[macro_export]
macro_rules! api_key_repo_contract {
    ($storage:expr) => {
        $crate::api_key_repo_contract!($storage;
            a_key_is_found_as_it_was_added,
            a_key_without_optional_fields_is_found_as_it_was_added,
            a_lookup_part_that_is_not_there_is_not_found,
            a_lookup_part_is_used_once,
            keys_are_listed_oldest_first,
            a_revoked_key_is_found_as_revoked,
            a_key_revoked_again_stays_as_it_is,
            what_was_never_issued_is_not_revoked,
            the_first_key_is_added_once,
            a_revoked_key_was_issued_all_the_same,
            of_many_concurrent_first_keys_one_is_added,
        );
    };
    ($storage:expr; $($obligation:ident),+ $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $obligation() {
            $crate::api_key_repo::$obligation(&$storage).await;
        }
    )+};
}

async fn assert_found_as_added(storage: &Storage, key: NewApiKey) {
    let id = storage.keys.add(&key).await.unwrap();
    assert!(id.0 > 0);
    assert_eq!(storage.keys.find(&key.lookup).await.unwrap(), Some(ApiKey { id, key, revoked_at: None }));
}

/// Round trip with every field.
pub async fn a_key_is_found_as_it_was_added(storage: &Storage) {
    assert_found_as_added(storage, api_key(NOW)).await;
}

/// Round trip with no optional field.
pub async fn a_key_without_optional_fields_is_found_as_it_was_added(storage: &Storage) {
    assert_found_as_added(storage, NewApiKey { signing_service: None, expires_at: None, ..api_key(NOW) }).await;
}

/// Nor is one that differs by letter case.
pub async fn a_lookup_part_that_is_not_there_is_not_found(storage: &Storage) {
    storage.keys.add(&NewApiKey { lookup: "00000000000000aa".to_owned(), ..api_key(NOW) }).await.unwrap();
    for unknown in ["", "00000000000000AA", "00000000000000a", "%"] {
        assert_eq!(storage.keys.find(unknown).await.unwrap(), None, "{unknown}");
    }
}

/// Else a key could hide another.
pub async fn a_lookup_part_is_used_once(storage: &Storage) {
    let key = api_key(NOW);
    storage.keys.add(&key).await.unwrap();
    assert!(storage.keys.add(&NewApiKey { lookup: key.lookup, ..api_key(NOW) }).await.is_err());
    assert_eq!(storage.keys.list().await.unwrap().len(), 1);
}

/// Revoked and expired ones included.
pub async fn keys_are_listed_oldest_first(storage: &Storage) {
    assert_eq!(storage.keys.list().await.unwrap(), []);
    let mut expected = Vec::new();
    for minutes in 0..5 {
        let issued_at = NOW + Duration::minutes(minutes);
        let key = NewApiKey { expires_at: Some(issued_at), ..api_key(issued_at) };
        expected.push(ApiKey { id: storage.keys.add(&key).await.unwrap(), key, revoked_at: None });
    }
    expected[2] = storage.keys.revoke(expected[2].id, NOW).await.unwrap().unwrap();
    assert_eq!(storage.keys.list().await.unwrap(), expected);
}

/// And no other.
pub async fn a_revoked_key_is_found_as_revoked(storage: &Storage) {
    let (key, other) = (api_key(NOW), api_key(NOW));
    let id = storage.keys.add(&key).await.unwrap();
    storage.keys.add(&other).await.unwrap();
    let revoked = ApiKey { id, key: key.clone(), revoked_at: Some(NOW) };
    assert_eq!(storage.keys.revoke(id, NOW).await.unwrap(), Some(revoked.clone()));
    assert_eq!(storage.keys.find(&key.lookup).await.unwrap(), Some(revoked));
    assert_eq!(storage.keys.find(&other.lookup).await.unwrap().unwrap().revoked_at, None);
}

/// Since when it is revoked is when it was revoked first.
pub async fn a_key_revoked_again_stays_as_it_is(storage: &Storage) {
    let id = storage.keys.add(&api_key(NOW)).await.unwrap();
    let revoked = storage.keys.revoke(id, NOW).await.unwrap();
    assert_eq!(storage.keys.revoke(id, NOW + Duration::HOUR).await.unwrap(), revoked);
    assert_eq!(revoked.unwrap().revoked_at, Some(NOW));
}

/// It is told so.
pub async fn what_was_never_issued_is_not_revoked(storage: &Storage) {
    let id = storage.keys.add(&api_key(NOW)).await.unwrap();
    for unknown in [0, id.0 + 1, i64::MAX] {
        assert_eq!(storage.keys.revoke(ApiKeyId(unknown), NOW).await.unwrap(), None);
    }
}

/// A second one is not.
pub async fn the_first_key_is_added_once(storage: &Storage) {
    let (first, second) = (api_key(NOW), api_key(NOW));
    let id = storage.keys.add_first(&first).await.unwrap().unwrap();
    assert_eq!(storage.keys.add_first(&second).await.unwrap(), None);
    assert_eq!(storage.keys.list().await.unwrap(), [ApiKey { id, key: first, revoked_at: None }]);
}

/// Whoever revoked the only key does not want another one to appear at the next start.
pub async fn a_revoked_key_was_issued_all_the_same(storage: &Storage) {
    let id = storage.keys.add(&api_key(NOW)).await.unwrap();
    storage.keys.revoke(id, NOW).await.unwrap();
    assert_eq!(storage.keys.add_first(&api_key(NOW)).await.unwrap(), None);
}

/// Instances that start together issue one key.
pub async fn of_many_concurrent_first_keys_one_is_added(storage: &Storage) {
    let tasks = (0..20).map(|_| {
        let keys = storage.keys.clone();
        tokio::spawn(async move { keys.add_first(&api_key(NOW)).await.unwrap() })
    });
    let added: Vec<_> = join_all(tasks).await.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(storage.keys.list().await.unwrap().iter().map(|key| key.id).collect::<Vec<_>>(), added);
    assert_eq!(added.len(), 1);
}
