//! Group commit: work that waits at the same time is committed together, so that it shares what a
//! commit costs.
//!
//! There is no timer. Whoever finds that nobody leads, or not enough do, becomes a [`Lead`]: it
//! gets a connection and then takes along who waits by then, commits them together, and goes on
//! until nobody waits. So a lone order is committed at once, and under load a batch is what has
//! come while the one before was committed.
//!
//! This is the queue alone. What work is, how a batch is committed, and how each is told its own
//! outcome is the adapter's.

use std::{
    collections::VecDeque,
    error::Error,
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

#[cfg(test)]
mod tests;

/// Who waits, and how many lead.
pub struct Group<W> {
    shared: Arc<Inside<W>>,
}

struct Inside<W> {
    state: Mutex<State<W>>,
    /// Most leads at a time.
    leads: usize,
    /// Most work in a batch.
    batch: usize,
}

struct State<W> {
    waiting: VecDeque<W>,
    leads: usize,
}

impl<W> Inside<W> {
    fn state(&self) -> MutexGuard<'_, State<W>> {
        // Nothing of ours panics while it holds the lock, but a question of the adapter's may.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a lead; who waits is left over if it was the last.
    fn end_lead(&self) -> VecDeque<W> {
        let mut state = self.state();
        state.leads -= 1;
        if state.leads == 0 { mem::take(&mut state.waiting) } else { VecDeque::new() }
    }
}

/// What becomes of work when a batch is made up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It goes along.
    Goes,
    /// It waits for another batch, because it would be in the way of one that goes.
    Waits,
    /// It is dropped: nobody waits for it any more.
    Gone,
}

impl<W> Group<W> {
    /// A group with at most `leads` leads, each of which takes up to `batch` along.
    pub fn new(leads: usize, batch: usize) -> Self {
        Self {
            shared: Arc::new(Inside {
                state: Mutex::new(State { waiting: VecDeque::new(), leads: 0 }),
                leads,
                batch,
            }),
        }
    }

    /// Joins those who wait. Who is given a lead must see to it that it is led: dropped before its
    /// end, it takes all who wait with it unless others lead.
    pub fn join(&self, work: W) -> Option<Lead<W>> {
        let mut state = self.shared.state();
        state.waiting.push_back(work);
        if state.leads == self.shared.leads {
            return None;
        }
        state.leads += 1;
        Some(Lead { shared: Arc::clone(&self.shared), over: false })
    }
}

/// The duty to commit who waits.
#[must_use]
pub struct Lead<W> {
    shared: Arc<Inside<W>>,
    over: bool,
}

impl<W> Lead<W> {
    /// The next batch, in the order of joining; to be asked for when there is a connection to
    /// commit it on. `fit` says what becomes of each, given those that go already. `None` ends the
    /// lead: nobody waits.
    pub fn next(&mut self, mut fit: impl FnMut(&[W], &W) -> Fit) -> Option<Vec<W>> {
        let mut state = self.shared.state();
        let (mut going, mut staying) = (Vec::new(), VecDeque::new());
        while going.len() < self.shared.batch
            && let Some(work) = state.waiting.pop_front()
        {
            match fit(&going, &work) {
                Fit::Goes => going.push(work),
                Fit::Waits => staying.push_back(work),
                Fit::Gone => {}
            }
        }
        staying.append(&mut state.waiting);
        state.waiting = staying;
        // Nothing is in the way of a batch of none, so nobody waits.
        self.over = going.is_empty();
        state.leads -= usize::from(self.over);
        if self.over { None } else { Some(going) }
    }

    /// Ends the lead when there is nothing to commit on, and answers who waits, to be told so:
    /// nobody if others lead, who may have what this one has not.
    pub fn give_up(mut self) -> impl Iterator<Item = W> {
        self.over = true;
        self.shared.end_lead().into_iter()
    }
}

impl<W> Drop for Lead<W> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        drop(self.shared.end_lead());
    }
}

/// What all of a batch have met, which each is told.
pub struct Shared<E>(Arc<E>);

impl<E> Shared<E> {
    /// What it is.
    pub fn get(&self) -> &E {
        &self.0
    }
}

impl<E> From<E> for Shared<E> {
    fn from(error: E) -> Self {
        Self(Arc::new(error))
    }
}

impl<E> Clone for Shared<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E: fmt::Debug> fmt::Debug for Shared<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl<E: fmt::Display> fmt::Display for Shared<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl<E: Error> Error for Shared<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
