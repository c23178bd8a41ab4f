//! Group commit: concurrent work is committed in batches, which share the cost of a commit.
//!
//! There is no timer. Work that joins while fewer than the maximum number of committers are active
//! makes a new [`Committer`]. It commits everything that waits as one batch, and continues until
//! nothing waits. A lone order is therefore committed at once; under load, a batch is what has
//! arrived during the commit before it.
//!
//! This crate is only the queue. The adapter defines the work, commits a batch, and reports each
//! outcome.

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

#[cfg(test)]
mod tests;

/// Gets the size of each batch.
pub type BatchObserver = Arc<dyn Fn(usize) + Send + Sync>;

/// A queue of work, and the number of active committers.
pub struct Group<W> {
    inner: Arc<Inner<W>>,
}

struct Inner<W> {
    state: Mutex<State<W>>,
    max_committers: usize,
    max_batch: usize,
    observer: OnceLock<BatchObserver>,
}

struct State<W> {
    waiting: VecDeque<W>,
    committers: usize,
}

impl<W> Inner<W> {
    fn state(&self) -> MutexGuard<'_, State<W>> {
        // Only the adapter's `fit` could panic while the lock is held; the state is valid then.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a committer. Returns the waiting work if it was the last one.
    fn end(&self) -> VecDeque<W> {
        let mut state = self.state();
        state.committers -= 1;
        if state.committers == 0 { mem::take(&mut state.waiting) } else { VecDeque::new() }
    }
}

/// What happens to work when a batch is formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It joins the batch.
    Goes,
    /// It waits for another batch, because it conflicts with work in this one.
    Waits,
    /// It is dropped, because its caller has stopped waiting.
    Gone,
}

impl<W> Group<W> {
    /// Creates a group with at most `max_committers` batches at a time, of at most `max_batch`.
    pub fn new(max_committers: usize, max_batch: usize) -> Self {
        Self {
            inner: Arc::new(Inner {
                state: Mutex::new(State { waiting: VecDeque::new(), committers: 0 }),
                max_committers,
                max_batch,
                observer: OnceLock::new(),
            }),
        }
    }

    /// Reports the size of each batch from now on. There is one observer; a second one is ignored.
    pub fn observe(&self, observer: BatchObserver) {
        let _ = self.inner.observer.set(observer);
    }

    /// Returns how much work waits for a batch.
    pub fn waiting(&self) -> usize {
        self.inner.state().waiting.len()
    }

    /// Adds work to the queue. Returns a committer unless the maximum number is active. The caller
    /// must drive it until [`Committer::next`] returns `None`. Dropping the last one before that
    /// drops all waiting work.
    pub fn join(&self, work: W) -> Option<Committer<W>> {
        let mut state = self.inner.state();
        state.waiting.push_back(work);
        if state.committers == self.inner.max_committers {
            return None;
        }
        state.committers += 1;
        Some(Committer { inner: Arc::clone(&self.inner), ended: false })
    }
}

/// The duty to commit the waiting work.
#[must_use]
pub struct Committer<W> {
    inner: Arc<Inner<W>>,
    ended: bool,
}

impl<W> Committer<W> {
    /// Returns the next batch in the order of joining, or `None` and ends if nothing waits. Call it
    /// once there is a connection to commit on. `fit` gets the batch so far and decides about the
    /// next work.
    pub fn next(&mut self, mut fit: impl FnMut(&[W], &W) -> Fit) -> Option<Vec<W>> {
        let mut state = self.inner.state();
        let (mut batch, mut deferred) = (Vec::new(), VecDeque::new());
        while batch.len() < self.inner.max_batch
            && let Some(work) = state.waiting.pop_front()
        {
            match fit(&batch, &work) {
                Fit::Goes => batch.push(work),
                Fit::Waits => deferred.push_back(work),
                Fit::Gone => {}
            }
        }
        deferred.append(&mut state.waiting);
        state.waiting = deferred;
        // Nothing conflicts with an empty batch, so an empty batch means that nothing waits.
        self.ended = batch.is_empty();
        state.committers -= usize::from(self.ended);
        drop(state);
        if self.ended {
            return None;
        }
        if let Some(observer) = self.inner.observer.get() {
            observer(batch.len());
        }
        Some(batch)
    }

    /// Ends because there is no connection. Returns the waiting work, whose callers must get an
    /// error. Returns nothing while other committers are active: they may have a connection.
    pub fn give_up(mut self) -> impl Iterator<Item = W> {
        self.ended = true;
        self.inner.end().into_iter()
    }
}

impl<W> Drop for Committer<W> {
    fn drop(&mut self) {
        if !self.ended {
            drop(self.inner.end());
        }
    }
}
