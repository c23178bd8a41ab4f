//! The orders that arrive: background work yields to them, and follows them.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    task::Poll,
    time::Duration,
};

use futures_util::{future::poll_fn, task::AtomicWaker};

/// Pause between two steps of background work when few orders arrive. A worker still delivers more
/// than 1,000 mails per second.
pub(crate) const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// What each order that has arrived since the last step adds to the pause. From 500 orders per
/// second on, the pause grows to its longest: the cores are scarce then, and a mail waits rather
/// than an order.
pub(crate) const PAUSE_PER_ORDER: Duration = Duration::from_millis(2);

/// Longest pause. A mail that waits longer has others before it.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Parts into which background work divides a step while orders arrive. The commits of orders wait
/// for the database and the disk behind each part: behind 64 mails at once they waited for 10 ms.
pub(crate) const PARTS: u32 = 8;

/// The orders of this process. Clients wait for these, so background work that uses the same disk
/// and cores slows down while they arrive.
#[derive(Debug, Default)]
pub struct OrderTraffic {
    arrived: AtomicU64,
    created: Signal,
}

impl OrderTraffic {
    /// Counts an order that this process tries to store.
    pub(crate) fn arrive(&self) {
        self.arrived.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of orders since the start of the process.
    pub(crate) fn count(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Returns how long background work pauses after a step that began when [`Self::count`] was
    /// `orders`; `None` if no order has arrived since.
    pub(crate) fn pause_since(&self, orders: u64) -> Option<Duration> {
        self.pause_after_part(orders, 1)
    }

    /// Returns into how many parts to divide a step if the last one began when [`Self::count`] was
    /// `orders`.
    pub(crate) fn parts_since(&self, orders: u64) -> u32 {
        if self.count() > orders { PARTS } else { 1 }
    }

    /// Returns how long to pause after one of `parts` of a step. All parts together pause as long as
    /// a step.
    pub(crate) fn pause_after_part(&self, orders: u64, parts: u32) -> Option<Duration> {
        let arrived = u32::try_from(self.count() - orders).unwrap_or(u32::MAX);
        let in_step = PAUSE_PER_ORDER.saturating_mul(arrived.saturating_mul(parts));
        let pause = SHORTEST_PAUSE.saturating_add(in_step).min(LONGEST_PAUSE);
        (arrived > 0).then_some(pause / parts)
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
    fn pause_grows_with_the_orders_that_arrive() {
        let traffic = OrderTraffic::default();
        assert_eq!(traffic.pause_since(0), None);
        traffic.arrive();
        assert_eq!(traffic.pause_since(0), Some(SHORTEST_PAUSE + PAUSE_PER_ORDER));
        traffic.arrive();
        assert_eq!(traffic.pause_since(0), Some(SHORTEST_PAUSE + PAUSE_PER_ORDER * 2));
        assert_eq!(traffic.pause_since(1), Some(SHORTEST_PAUSE + PAUSE_PER_ORDER));
        (0..1_000).for_each(|_| traffic.arrive());
        assert_eq!(traffic.pause_since(0), Some(LONGEST_PAUSE));
        assert_eq!(traffic.pause_since(traffic.count()), None);
        assert_eq!((traffic.parts_since(0), traffic.parts_since(traffic.count())), (PARTS, 1));
        assert_eq!(traffic.pause_after_part(0, 8), Some(LONGEST_PAUSE / 8));
        // The same rate of orders: a part sees an eighth of them.
        let (of_step, of_part) = (traffic.count() - 80, traffic.count() - 10);
        let pause = traffic.pause_since(of_step).unwrap();
        assert_eq!(traffic.pause_after_part(of_part, 8), Some(pause / 8));
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
