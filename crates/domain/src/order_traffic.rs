//! The orders that arrive: background work yields to them, and follows them.

use std::{
    mem,
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

/// Parts into which [`Pace`] divides a step when the pause is the longest. Orders wait for the disk
/// behind each part: behind all mails of a step they waited for 10 ms.
const PARTS: u32 = 8;

/// Bytes of documents that count as an order. Receiving them takes as long as many orders, but mails
/// must not wait for them until the cores are scarce.
const BYTES_PER_ORDER: u64 = 1_000_000;

/// The orders of this process, and their documents. Clients wait for these, so background work that
/// uses the same disk and cores slows down while they arrive.
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

    /// Counts documents that this process tries to store.
    pub(crate) fn documents_arrive(&self, bytes: u64) {
        self.arrived.fetch_add(bytes / BYTES_PER_ORDER, Ordering::Relaxed);
    }

    /// Returns the number of orders since the start of the process. Each megabyte of documents counts
    /// as one more.
    pub(crate) fn count(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Returns how long background work pauses after a step that began when [`Self::count`] was
    /// `orders`; `None` if no order has arrived since.
    pub(crate) fn pause_since(&self, orders: u64) -> Option<Duration> {
        pause_after(self.count() - orders)
    }

    /// Returns the signal that this process has created an order.
    pub(crate) fn created(&self) -> &Signal {
        &self.created
    }
}

/// Returns the pause after a step in which so many orders have arrived.
fn pause_after(arrived: u64) -> Option<Duration> {
    let arrived = u32::try_from(arrived).unwrap_or(u32::MAX);
    let pause = SHORTEST_PAUSE.saturating_add(PAUSE_PER_ORDER.saturating_mul(arrived));
    (arrived > 0).then_some(pause.min(LONGEST_PAUSE))
}

/// The steps and pauses of work that many orders divide into parts. The parts of a step together
/// pause as long as the step.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The size of a step.
    size: u32,
    parts: u32,
    orders: u64,
}

impl Pace {
    /// Begins with a whole step.
    pub(crate) fn new(size: usize) -> Self {
        Self { size: u32::try_from(size).unwrap_or(u32::MAX), parts: 1, orders: 0 }
    }

    /// Returns the size of the next part.
    pub(crate) fn size(&self) -> usize {
        (self.size / self.parts) as usize
    }

    /// Returns how long to pause after a part; `None` if no order has arrived since the last one.
    pub(crate) fn pause(&mut self, traffic: &OrderTraffic) -> Option<Duration> {
        let parts = self.parts;
        let count = traffic.count();
        let arrived = count - mem::replace(&mut self.orders, count);
        let pause = pause_after(arrived.saturating_mul(parts.into()));
        let are_many = pause == Some(LONGEST_PAUSE);
        self.parts = if are_many { PARTS.min(self.size).max(1) } else { 1 };
        Some(pause? / parts)
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
    }

    #[test]
    fn megabyte_of_documents_counts_as_an_order() {
        let traffic = OrderTraffic::default();
        traffic.documents_arrive(999_999);
        assert_eq!(traffic.count(), 0);
        traffic.arrive();
        traffic.documents_arrive(10_000_000);
        assert_eq!(traffic.pause_since(0), Some(SHORTEST_PAUSE + PAUSE_PER_ORDER * 11));
    }

    #[test]
    fn many_orders_divide_a_step_into_parts() {
        let traffic = OrderTraffic::default();
        let arrive = |orders| (0..orders).for_each(|_| traffic.arrive());
        let mut pace = Pace::new(48);
        assert_eq!((pace.pause(&traffic), pace.size()), (None, 48));
        arrive(100);
        let few = SHORTEST_PAUSE + PAUSE_PER_ORDER * 100;
        assert_eq!((pace.pause(&traffic), pace.size()), (Some(few), 48));
        arrive(1_000);
        assert_eq!((pace.pause(&traffic), pace.size()), (Some(LONGEST_PAUSE), 6));
        // An eighth of the orders arrives during a part.
        arrive(125);
        assert_eq!((pace.pause(&traffic), pace.size()), (Some(LONGEST_PAUSE / 8), 6));
        arrive(10);
        let fewer = (SHORTEST_PAUSE + PAUSE_PER_ORDER * 80) / 8;
        assert_eq!((pace.pause(&traffic), pace.size()), (Some(fewer), 48));
    }

    #[test]
    fn small_steps_have_fewer_parts() {
        let traffic = OrderTraffic::default();
        (0..1_000).for_each(|_| traffic.arrive());
        for (size, part) in [(1, 1), (3, 1), (15, 1), (16, 2)] {
            let mut pace = Pace::new(size);
            assert_eq!((pace.pause(&traffic), pace.size()), (Some(LONGEST_PAUSE), part));
        }
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
