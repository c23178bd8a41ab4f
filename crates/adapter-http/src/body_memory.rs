//! The memory that the bodies of all requests in progress share.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use domain::api_key::ApiKeyId;
use futures_util::task::AtomicWaker;
use tokio::time::Instant;

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
}

#[derive(Debug, Default)]
struct Held {
    total: u64,
    last_id: u64,
    by_id: HashMap<u64, Holder>,
}

#[derive(Debug)]
struct Holder {
    key: ApiKeyId,
    bytes: u64,
    since: Instant,
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
        Arc::new(Self { limit, held: Mutex::default() })
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
        let holder = Holder { key, bytes: 0, since: Instant::now(), progress: progress.clone() };
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
        for (at, holder) in &self.by_id {
            *by_key.entry(holder.key).or_default() +=
                holder.bytes + if *at == id { more } else { 0 };
        }
        let (largest, _) = by_key.into_iter().max_by_key(|(_, bytes)| *bytes)?;
        let unfinished = self.by_id.iter().filter(|(_, holder)| {
            holder.key == largest && !holder.progress.finished.load(Ordering::Relaxed)
        });
        unfinished.min_by_key(|(_, holder)| holder.rate()).map(|(id, _)| *id)
    }

    fn remove(&mut self, id: u64) {
        if let Some(holder) = self.by_id.remove(&id) {
            self.total -= holder.bytes;
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
    /// Takes bytes, if necessary from a slower request.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), UsedUp> {
        let bytes = bytes as u64;
        let mut held = self.memory.held();
        while held.total + bytes > self.memory.limit {
            let victim = held.victim(self.id, bytes).filter(|victim| *victim != self.id);
            let victim = victim.ok_or(UsedUp)?;
            if let Some(holder) = held.by_id.get(&victim) {
                holder.progress.evicted.store(true, Ordering::Release);
                holder.progress.task.wake();
            }
            held.remove(victim);
        }
        held.by_id.get_mut(&self.id).ok_or(UsedUp)?.bytes += bytes;
        held.total += bytes;
        Ok(())
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
    }
}

#[cfg(test)]
mod tests {
    use std::{task::Waker, time::Duration};

    use tokio::time::advance;

    use super::*;

    fn share(memory: &Arc<BodyMemory>, key: i64, bytes: usize) -> Result<Arc<MemoryShare>, UsedUp> {
        let share = memory.share(ApiKeyId(key));
        share.take(bytes).map(|()| share)
    }

    fn is_evicted(share: &MemoryShare) -> bool {
        share.poll_evicted(&Context::from_waker(Waker::noop())).is_ready()
    }

    #[tokio::test(start_paused = true)]
    async fn slowest_request_makes_room_for_a_faster_one() {
        let memory = BodyMemory::new(100);
        let [slow, slower, fast] = [50, 10, 5_000].map(|received| {
            let share = share(&memory, 1, 30).unwrap();
            share.received(received);
            share
        });
        advance(Duration::from_secs(1)).await;
        let new = memory.share(ApiKeyId(1));
        new.received(100);
        advance(Duration::from_millis(1)).await;
        assert_eq!(new.take(30), Ok(()));
        assert_eq!([&slow, &slower, &fast].map(|share| is_evicted(share)), [false, true, false]);
        assert_eq!(slower.take(1), Err(UsedUp));
    }

    #[tokio::test(start_paused = true)]
    async fn slowest_request_itself_gets_nothing() {
        let memory = BodyMemory::new(100);
        let fast = share(&memory, 1, 100).unwrap();
        fast.received(1_000);
        let slow = memory.share(ApiKeyId(1));
        advance(Duration::from_secs(1)).await;
        assert_eq!(slow.take(1), Err(UsedUp));
        assert!(!is_evicted(&fast));
    }

    #[tokio::test(start_paused = true)]
    async fn key_that_holds_most_makes_room() {
        let memory = BodyMemory::new(100);
        let slow_of_small = share(&memory, 1, 20).unwrap();
        let fast_of_large = [0, 1].map(|_| share(&memory, 2, 40).unwrap());
        for share in &fast_of_large {
            share.received(1_000_000);
        }
        advance(Duration::from_secs(1)).await;
        assert!(share(&memory, 3, 20).is_ok());
        assert!(!is_evicted(&slow_of_small));
        assert_eq!(fast_of_large.iter().filter(|share| is_evicted(share)).count(), 1);
    }

    #[tokio::test]
    async fn finished_requests_keep_their_bytes_until_they_end() {
        let memory = BodyMemory::new(100);
        let finished = share(&memory, 1, 100).unwrap();
        finished.finish();
        assert!(share(&memory, 2, 1).is_err());
        drop(finished);
        assert!(share(&memory, 2, 100).is_ok());
        assert!(memory.held().by_id.is_empty() && memory.held().total == 0);
    }
}
