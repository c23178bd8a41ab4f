//! The contract of `DatabaseTime`.

use domain::order::OrderId;
use time::{Duration, OffsetDateTime};

use crate::samples::{NOW, Storage, access, api_key, new_order};

/// A file has no clock.
pub async fn clock_of_a_server_runs(storage: &Storage) {
    let first = storage.time.times().await.unwrap().now;
    let second = storage.time.times().await.unwrap().now;
    assert_eq!(first.is_some(), second.is_some());
    assert!(first <= second);
}

/// A store may note others, too. None is of the future.
pub async fn newest_instant_is_that_of_the_last_order_key_or_access(storage: &Storage) {
    let newest = async || storage.time.times().await.unwrap().newest;
    assert_eq!(newest().await, None);
    let later = |days| NOW + Duration::days(days);
    let key = storage.keys.add(&api_key(later(-3)), "tests").await.unwrap();
    assert_eq!(newest().await, Some(later(-3)));
    storage.create(&new_order("F-1", later(-2))).await;
    assert_eq!(newest().await, Some(later(-2)));
    storage.keys.note_uses(&[(key, later(-1))]).await.unwrap();
    assert_eq!(newest().await, Some(later(-1)));
    let used: OffsetDateTime = access(1, OrderId(1)).id.at;
    storage.accesses.store(&[access(1, OrderId(1))]).await.unwrap();
    assert_eq!(newest().await, Some(used));
}
