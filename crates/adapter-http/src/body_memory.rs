//! The memory that the bodies of all requests in progress share.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use domain::api_key::ApiKeyId;
use futures_util::task::AtomicWaker;
use tokio::{sync::Notify, time::Instant};

/// Bytes that count as received at the beginning, so that a new request is not the slowest.
const CREDIT: u64 = 4096;

/// Limits the bytes that all bodies hold together.
///
/// When they are used up, the key that holds most loses its slowest unfinished request. So one key
/// cannot shut out the others, and slow requests cannot shut out fast ones of the same key.
#[derive(Debug)]
pub struct BodyMemory {
    limit: u64,
    held: Mutex<Held>,
    /// Wakes requests that wait for bytes.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Held {
    total: u64,
    /// Bytes of requests that have lost them and not ended yet.
    ending: u64,
    last_id: u64,
    by_id: HashMap<u64, Holder>,
}

#[derive(Debug)]
struct Holder {
    key: ApiKeyId,
    bytes: u64,
    since: Instant,
    evicted: bool,
    progress: Arc<Progress>,
}

/// What a request and others tell each other about its body.
#[derive(Debug, Default)]
struct Progress {
    received: AtomicU64,
    finished: AtomicBool,
    evicted: AtomicBool,
    task: AtomicWaker,
}

/// There are no bytes for this request now, or it lost them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct UsedUp;

impl BodyMemory {
    /// Creates a memory of so many bytes.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, held: Mutex::default(), changed: Notify::new() })
    }

    /// Returns how many bytes all requests hold.
    pub(crate) fn used(&self) -> u64 {
        self.held().total
    }

    /// Starts the share of a request.
    pub(crate) fn share(self: &Arc<Self>, key: ApiKeyId) -> Arc<MemoryShare> {
        let progress = Arc::<Progress>::default();
        let mut held = self.held();
        held.last_id += 1;
        let id = held.last_id;
        let holder = Holder {
            key,
            bytes: 0,
            since: Instant::now(),
            evicted: false,
            progress: progress.clone(),
        };
        held.by_id.insert(id, holder);
        Arc::new(MemoryShare { memory: Arc::clone(self), id, progress })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Returns the slowest unfinished request of the key that holds most, if `id` had `more` bytes.
    fn victim(&self, id: u64, more: u64) -> Option<u64> {
        let mut by_key = HashMap::<ApiKeyId, u64>::new();
        for (at, holder) in self.by_id.iter().filter(|(_, holder)| !holder.evicted) {
            *by_key.entry(holder.key).or_default() +=
                holder.bytes + if *at == id { more } else { 0 };
        }
        let (largest, _) = by_key.into_iter().max_by_key(|(_, bytes)| *bytes)?;
        let unfinished = self.by_id.iter().filter(|(_, holder)| {
            let finished = holder.progress.finished.load(Ordering::Relaxed);
            holder.key == largest && !holder.evicted && !finished
        });
        unfinished.min_by_key(|(_, holder)| holder.rate()).map(|(id, _)| *id)
    }

    /// Takes bytes for a request. If there are too few, evicts slower requests. Returns whether
    /// there were enough.
    fn try_take(&mut self, id: u64, bytes: u64, limit: u64) -> Result<bool, UsedUp> {
        while self.total - self.ending + bytes > limit {
            let victim = self.victim(id, bytes).filter(|victim| *victim != id).ok_or(UsedUp)?;
            let victim = self.by_id.get_mut(&victim).ok_or(UsedUp)?;
            victim.evicted = true;
            self.ending += victim.bytes;
            victim.progress.evicted.store(true, Ordering::Release);
            victim.progress.task.wake();
        }
        let holder = self.by_id.get_mut(&id).filter(|holder| !holder.evicted).ok_or(UsedUp)?;
        let enough = self.total + bytes <= limit;
        if enough {
            holder.bytes += bytes;
            self.total += bytes;
        }
        Ok(enough)
    }

    fn remove(&mut self, id: u64) {
        if let Some(holder) = self.by_id.remove(&id) {
            self.total -= holder.bytes;
            self.ending -= if holder.evicted { holder.bytes } else { 0 };
        }
    }
}

impl Holder {
    /// Returns the bytes per second since the request began.
    fn rate(&self) -> u128 {
        let received = CREDIT + self.progress.received.load(Ordering::Relaxed);
        u128::from(received) * 1_000_000 / self.since.elapsed().as_micros().max(1)
    }
}

/// The memory of a request. It returns when the share is dropped.
#[derive(Debug)]
pub struct MemoryShare {
    memory: Arc<BodyMemory>,
    id: u64,
    progress: Arc<Progress>,
}

impl MemoryShare {
    /// Takes bytes, if necessary from a slower request. Waits until that one has ended, so that the
    /// limit holds at every moment.
    pub(crate) async fn take(&self, bytes: usize) -> Result<(), UsedUp> {
        let memory = &*self.memory;
        loop {
            let mut changed = pin!(memory.changed.notified());
            changed.as_mut().enable();
            let evicts = {
                let mut held = memory.held();
                let ending = held.ending;
                if held.try_take(self.id, bytes as u64, memory.limit)? {
                    return Ok(());
                }
                held.ending > ending
            };
            if evicts {
                // The evicted request may wait for bytes itself.
                memory.changed.notify_waiters();
            }
            changed.await;
        }
    }

    /// Notes bytes of the body that arrived.
    pub(crate) fn received(&self, bytes: u64) {
        self.progress.received.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that the body has arrived: the request keeps its bytes until it ends.
    pub(crate) fn finish(&self) {
        self.progress.finished.store(true, Ordering::Relaxed);
    }

    /// Waits until the request has lost its bytes.
    pub(crate) fn poll_evicted(&self, context: &Context<'_>) -> Poll<()> {
        self.progress.task.register(context.waker());
        if self.progress.evicted.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.memory.held().remove(self.id);
        self.memory.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::{task::Waker, time::Duration};

    use futures_util::{FutureExt as _, poll};
    use tokio::time::advance;

    use super::*;

    fn take(share: &MemoryShare, bytes: usize) -> Option<Result<(), UsedUp>> {
        share.take(bytes).now_or_never()
    }

    fn share(memory: &Arc<BodyMemory>, key: i64, bytes: usize) -> Arc<MemoryShare> {
        let share = memory.share(ApiKeyId(key));
        assert_eq!(take(&share, bytes), Some(Ok(())));
        share
    }

    fn is_evicted(share: &MemoryShare) -> bool {
        share.poll_evicted(&Context::from_waker(Waker::noop())).is_ready()
    }

    #[tokio::test(start_paused = true)]
    async fn slowest_request_makes_room_for_a_faster_one() {
        let memory = BodyMemory::new(100);
        let [slow, slower, fast] = [50, 10, 5_000].map(|received| {
            let share = share(&memory, 1, 30);
            share.received(received);
            share
        });
        advance(Duration::from_secs(1)).await;
        let new = memory.share(ApiKeyId(1));
        new.received(100);
        advance(Duration::from_millis(1)).await;
        let mut taking = pin!(new.take(30));
        assert!(poll!(taking.as_mut()).is_pending());
        assert_eq!([&slow, &slower, &fast].map(|share| is_evicted(share)), [false, true, false]);
        assert_eq!(take(&slower, 1), Some(Err(UsedUp)));
        assert!(poll!(taking.as_mut()).is_pending());
        assert_eq!(memory.used(), 90);
        drop(slower);
        assert_eq!(taking.await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn request_that_waits_for_bytes_can_lose_its_own() {
        let memory = BodyMemory::new(100);
        let (first, second) = (share(&memory, 1, 50), share(&memory, 1, 40));
        second.received(1_000);
        advance(Duration::from_secs(1)).await;
        let mut waiting = Box::pin(second.take(30));
        assert!(poll!(waiting.as_mut()).is_pending());
        assert!(is_evicted(&first));
        let third = memory.share(ApiKeyId(1));
        third.received(1_000_000);
        let mut taking = pin!(third.take(70));
        assert!(poll!(taking.as_mut()).is_pending());
        assert_eq!(waiting.as_mut().await, Err(UsedUp));
        drop(waiting);
        drop((first, second));
        assert_eq!(taking.await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn slowest_request_itself_gets_nothing() {
        let memory = BodyMemory::new(100);
        let fast = share(&memory, 1, 100);
        fast.received(1_000);
        let slow = memory.share(ApiKeyId(1));
        advance(Duration::from_secs(1)).await;
        assert_eq!(take(&slow, 1), Some(Err(UsedUp)));
        assert!(!is_evicted(&fast));
    }

    #[tokio::test(start_paused = true)]
    async fn key_that_holds_most_makes_room() {
        let memory = BodyMemory::new(100);
        let slow_of_small = share(&memory, 1, 20);
        let fast_of_large = [0, 1].map(|_| share(&memory, 2, 40));
        for share in &fast_of_large {
            share.received(1_000_000);
        }
        advance(Duration::from_secs(1)).await;
        assert_eq!(take(&memory.share(ApiKeyId(3)), 20), None);
        assert!(!is_evicted(&slow_of_small));
        assert_eq!(fast_of_large.iter().filter(|share| is_evicted(share)).count(), 1);
    }

    #[tokio::test]
    async fn finished_requests_keep_their_bytes_until_they_end() {
        let memory = BodyMemory::new(100);
        let finished = share(&memory, 1, 100);
        finished.finish();
        assert_eq!(take(&memory.share(ApiKeyId(2)), 1), Some(Err(UsedUp)));
        drop(finished);
        drop(share(&memory, 2, 100));
        assert!(memory.held().by_id.is_empty() && memory.held().total == 0);
    }
}
