use std::sync::atomic::{AtomicBool, Ordering};

use domain::ports::StoreError;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Whose turn it is to put: so many that the parts in memory stay within a bound.
pub(crate) struct Turns {
    free: Semaphore,
    out_of_reach: AtomicBool,
}

impl Turns {
    pub(crate) fn new(count: usize) -> Self {
        Self { free: Semaphore::new(count), out_of_reach: AtomicBool::new(false) }
    }

    /// Waits for that many turns, which are given back when the permit is dropped. Whoever had to
    /// wait does not try a store that those before found out of reach: else each would add its own
    /// attempts to the wait of the next.
    pub(crate) async fn take(&self, count: u32) -> Result<SemaphorePermit<'_>, StoreError> {
        if let Ok(permit) = self.free.try_acquire_many(count) {
            return Ok(permit);
        }
        let permit = self
            .free
            .acquire_many(count)
            .await
            .map_err(|error| StoreError::Internal(error.into()))?;
        if self.out_of_reach.load(Ordering::Relaxed) {
            Err(StoreError::Unavailable(OutOfReach.into()))
        } else {
            Ok(permit)
        }
    }

    /// Remembers whether the store did what it was asked last.
    pub(crate) fn reached(&self, reached: bool) {
        self.out_of_reach.store(!reached, Ordering::Relaxed);
    }
}

#[derive(Debug, thiserror::Error)]
#[error("others have just found it out of reach")]
struct OutOfReach;

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::{FutureExt as _, poll};

    use super::*;

    #[tokio::test]
    async fn who_waits_is_spared_a_store_that_is_out_of_reach() {
        let turns = Turns::new(2);
        let first = turns.take(2).await.unwrap();
        let mut second = pin!(turns.take(1));
        assert!(poll!(&mut second).is_pending());
        turns.reached(false);
        drop(first);
        assert!(matches!(second.await, Err(StoreError::Unavailable(_))));
    }

    #[tokio::test]
    async fn who_need_not_wait_tries_whether_the_store_is_back() {
        let turns = Turns::new(2);
        turns.reached(false);
        let first = turns.take(2).now_or_never().unwrap().unwrap();
        let mut second = pin!(turns.take(1));
        assert!(poll!(&mut second).is_pending());
        turns.reached(true);
        drop(first);
        drop(second.await.unwrap());
    }
}
