//! The orders that arrive: background work yields to them, and follows them.

use std::{
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    task::Poll,
    time::Duration,
};

use futures_util::{future::poll_fn, task::AtomicWaker};

/// Shortest pause between two steps of background work while orders arrive. A worker still delivers
/// more than 1,000 mails per second.
pub(crate) const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// What each order in progress adds to the pause. Many are in progress at a time only where the
/// cores or the disk are scarce, and then a mail waits rather than an order.
const PAUSE_PER_ORDER: Duration = Duration::from_millis(3);

/// Longest pause. A worker still delivers 300 mails per second.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// The orders of this process. Clients wait for these, so background work that uses the same disk
/// and cores slows down while they arrive.
#[derive(Debug, Default)]
pub struct OrderTraffic {
    tried: AtomicU64,
    in_progress: AtomicU32,
    created: Signal,
}

/// Counts an order as in progress until it is dropped.
pub(crate) struct OrderInProgress<'a>(&'a AtomicU32);

impl Drop for OrderInProgress<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl OrderTraffic {
    /// Counts an order that this process tries to store.
    pub(crate) fn begin(&self) -> OrderInProgress<'_> {
        self.tried.fetch_add(1, Ordering::Relaxed);
        self.in_progress.fetch_add(1, Ordering::Relaxed);
        OrderInProgress(&self.in_progress)
    }

    /// Returns the number of orders since the start of the process.
    pub(crate) fn count(&self) -> u64 {
        self.tried.load(Ordering::Relaxed)
    }

    /// Returns how long background work pauses after a step that began when [`Self::count`] was
    /// `orders`; `None` if no order has arrived since.
    pub(crate) fn pause_since(&self, orders: u64) -> Option<Duration> {
        let pause = SHORTEST_PAUSE + PAUSE_PER_ORDER * self.in_progress.load(Ordering::Relaxed);
        (self.count() > orders).then_some(pause.min(LONGEST_PAUSE))
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

    #[test]
    fn pause_grows_with_the_orders_in_progress() {
        let traffic = OrderTraffic::default();
        assert_eq!(traffic.pause_since(0), None);
        drop(traffic.begin());
        assert_eq!(traffic.pause_since(0), Some(SHORTEST_PAUSE));
        let _two = [traffic.begin(), traffic.begin()];
        assert_eq!(traffic.pause_since(0), Some(SHORTEST_PAUSE + PAUSE_PER_ORDER * 2));
        let _many: Vec<_> = (0..256).map(|_| traffic.begin()).collect();
        assert_eq!(traffic.pause_since(0), Some(LONGEST_PAUSE));
        assert_eq!(traffic.pause_since(traffic.count()), None);
    }

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
