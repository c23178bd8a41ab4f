//! Time limits of a remote store, on the paused clock of the runtime.

use contract_tests::{blob_store::spooled, fakes::CountingEntropy};
use object_store::{
    memory::InMemory,
    throttle::{ThrottleConfig, ThrottledStore},
};
use tempfile::TempDir;
use tokio::time::Instant;

use super::*;

const HANGS: Duration = Duration::from_secs(24 * 60 * 60);

/// Puts a file into a store with this delay per body, and returns the result and the time it took.
async fn put(size: usize, delay: Duration) -> (Result<(), StoreError>, Duration) {
    let (spool, entropy) = (TempDir::new().unwrap(), CountingEntropy::default());
    let config = ThrottleConfig { wait_put_per_call: delay, ..ThrottleConfig::default() };
    let objects = Arc::new(ThrottledStore::new(InMemory::new(), config));
    let store = Bucket::new(objects, "", TimeLimits::default());
    let (file, _) = spooled(spool.path(), size, &entropy);
    let start = Instant::now();
    let put = store.put(&ObjectKey::random(&entropy), &file).await;
    (put, start.elapsed())
}

#[tokio::test]
async fn probe_leaves_no_object() {
    let objects = Arc::new(InMemory::new());
    let store = Bucket::new(objects.clone(), "", TimeLimits::default());
    store.probe().await.unwrap();
    assert_eq!(objects.list_with_delimiter(None).await.unwrap().objects, []);
}

#[tokio::test(start_paused = true)]
async fn slow_store_gets_time_for_its_body() {
    for (size, delay) in [(1, 2), (5 * MIB, 25), (10 * MIB, 27)] {
        put(size, Duration::from_secs(delay)).await.0.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_store_fails_after_the_time_limit() {
    for (size, seconds) in [(1, 2), (MIB, 7), (5 * MIB, 27), (10 * MIB, 27)] {
        let (put, took) = put(size, HANGS).await;
        assert!(matches!(put, Err(StoreError::Unavailable(_))), "{put:?}");
        assert_eq!(took.as_secs(), seconds, "{size} bytes, rounded down");
    }
}
