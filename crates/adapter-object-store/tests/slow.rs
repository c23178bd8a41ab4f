//! How long a remote store may take. Time is the runtime's, which passes at once when all wait for
//! it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{sync::Arc, time::Duration};

use adapter_object_store::ObjectBlobStore;
use contract_tests::{blob_store::spooled, fakes::CountingEntropy};
use domain::{
    document::ObjectKey,
    ports::{BlobStore as _, StoreError},
};
use object_store::{
    memory::InMemory,
    throttle::{ThrottleConfig, ThrottledStore},
};
use tempfile::TempDir;
use tokio::time::Instant;

const MIB: usize = 1024 * 1024;
const HANGS: Duration = Duration::from_secs(86_400);

/// Puts a file into a store that takes so long for each body, and says how long that took.
async fn put(size: usize, delay: Duration) -> (Result<(), StoreError>, Duration) {
    let (spool, entropy) = (TempDir::new().unwrap(), CountingEntropy::default());
    let config = ThrottleConfig { wait_put_per_call: delay, ..ThrottleConfig::default() };
    let store = ObjectBlobStore::over(Arc::new(ThrottledStore::new(InMemory::new(), config)));
    let (file, _) = spooled(spool.path(), size, &entropy);
    let start = Instant::now();
    let put = store.put(&ObjectKey::random(&entropy), &file).await;
    (put, start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_is_waited_for() {
    for (size, delay) in [(1, 2), (5 * MIB, 25), (10 * MIB, 27)] {
        put(size, Duration::from_secs(delay)).await.0.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_given_up_after_the_time_that_its_body_may_take() {
    for (size, seconds) in [(1, 2), (MIB, 7), (5 * MIB, 27), (10 * MIB, 27)] {
        let (put, took) = put(size, HANGS).await;
        assert!(matches!(put, Err(StoreError::Unavailable(_))), "{put:?}");
        assert_eq!(took.as_secs(), seconds, "{size} bytes, rounded down");
    }
}
