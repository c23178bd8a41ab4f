//! The orders that arrive: background work yields to them, and follows them.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    task::Poll,
};

use futures_util::{future::poll_fn, task::AtomicWaker};

/// The orders of this process. Clients wait for these, so background work that uses the same disk
/// and cores slows down while they arrive.
#[derive(Debug, Default)]
pub struct OrderTraffic {
    tried: AtomicU64,
    created: Signal,
}

impl OrderTraffic {
    /// Counts an order that this process tries to store.
    pub(crate) fn record(&self) {
        self.tried.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of orders since the start of the process.
    pub(crate) fn count(&self) -> u64 {
        self.tried.load(Ordering::Relaxed)
    }

    /// Returns the signal that this process has created an order.
    pub(crate) fn created(&self) -> &Signal {
        &self.created
    }
}

/// Wakes one waiting worker.
#[derive(Debug, Default)]
pub struct Signal {
    is_raised: AtomicBool,
    waker: AtomicWaker,
}

impl Signal {
    /// Ends the present wait, or the next one.
    pub(crate) fn raise(&self) {
        self.is_raised.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Waits until the signal is raised, and lowers it.
    pub(crate) async fn raised(&self) {
        poll_fn(|context| {
            // Registered first, so that a signal in between is not missed.
            self.waker.register(context.waker());
            if self.is_raised.swap(false, Ordering::Acquire) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn signal_ends_the_present_or_the_next_wait() {
        let signal = Arc::new(Signal::default());
        let waiting = tokio::spawn({
            let signal = Arc::clone(&signal);
            async move { signal.raised().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        signal.raise();
        waiting.await.unwrap();
        signal.raise();
        signal.raise();
        signal.raised().await;
        assert_eq!(signal.raised().now_or_never(), None);
    }
}
