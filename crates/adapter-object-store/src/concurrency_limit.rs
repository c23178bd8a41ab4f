use std::sync::atomic::{AtomicBool, Ordering};

use domain::ports::StoreError;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Limits concurrent uploads, so that the parts in memory stay within a bound. Also remembers
/// whether the last request reached the store.
pub(crate) struct ConcurrencyLimit {
    permits: Semaphore,
    unreachable: AtomicBool,
}

impl ConcurrencyLimit {
    pub(crate) fn new(permits: usize) -> Self {
        Self { permits: Semaphore::new(permits), unreachable: AtomicBool::new(false) }
    }

    /// Waits for permits. After a wait, fails if the store is unreachable. Otherwise the next
    /// waiter would also wait for the retries of this one.
    pub(crate) async fn acquire(&self, permits: u32) -> Result<SemaphorePermit<'_>, StoreError> {
        if let Ok(permit) = self.permits.try_acquire_many(permits) {
            return Ok(permit);
        }
        let permit = self
            .permits
            .acquire_many(permits)
            .await
            .map_err(|error| StoreError::Internal(error.into()))?;
        if self.unreachable.load(Ordering::Relaxed) {
            Err(StoreError::Unavailable("another request has just failed to reach it".into()))
        } else {
            Ok(permit)
        }
    }

    /// Records whether a request reached the store.
    pub(crate) fn record(&self, reached: bool) {
        self.unreachable.store(!reached, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::{FutureExt as _, poll};

    use super::*;

    #[tokio::test]
    async fn waiter_fails_while_store_is_unreachable() {
        let limit = ConcurrencyLimit::new(2);
        let first = limit.acquire(2).await.unwrap();
        let mut second = pin!(limit.acquire(1));
        assert!(poll!(&mut second).is_pending());
        limit.record(false);
        drop(first);
        assert!(matches!(second.await, Err(StoreError::Unavailable(_))));
    }

    #[tokio::test]
    async fn request_without_wait_tries_an_unreachable_store() {
        let limit = ConcurrencyLimit::new(2);
        limit.record(false);
        let first = limit.acquire(2).now_or_never().unwrap().unwrap();
        let mut second = pin!(limit.acquire(1));
        assert!(poll!(&mut second).is_pending());
        limit.record(true);
        drop(first);
        drop(second.await.unwrap());
    }
}
