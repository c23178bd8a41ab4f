//! Gathers the outcomes of attempts, and stores them batch by batch.

use std::mem;

use crate::background::Activity;

/// The outcomes that a worker has to store.
pub(crate) struct Outcomes<T> {
    gathered: Vec<T>,
    storing: Activity,
}

impl<T> Outcomes<T> {
    pub(crate) fn new() -> Self {
        Self { gathered: Vec::new(), storing: Activity::Idle }
    }

    pub(crate) fn add(&mut self, outcomes: impl IntoIterator<Item = T>) {
        self.gathered.extend(outcomes);
    }

    /// Returns the number of outcomes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.gathered.len()
    }

    /// Checks whether every outcome is stored.
    pub(crate) fn are_stored(&self) -> bool {
        self.gathered.is_empty() && self.storing == Activity::Idle
    }

    /// Checks whether the queue failed to store outcomes a moment ago.
    pub(crate) fn is_failing(&self) -> bool {
        self.storing == Activity::Pausing
    }

    /// Returns all outcomes that have gathered while the queue stored others, to be stored now.
    pub(crate) fn begin_batch(&mut self) -> Option<Vec<T>> {
        if self.storing != Activity::Idle || self.gathered.is_empty() {
            return None;
        }
        self.storing = Activity::Calling;
        Some(mem::take(&mut self.gathered))
    }

    /// Lets the next batch begin: one is stored, or the pause after a failure is over.
    pub(crate) fn end_batch(&mut self) {
        self.storing = Activity::Idle;
    }

    /// Puts a batch back that could not be stored, and returns how many outcomes wait. The next
    /// batch waits for [`Self::end_batch`].
    pub(crate) fn put_back(&mut self, mut batch: Vec<T>) -> usize {
        batch.append(&mut self.gathered);
        self.gathered = batch;
        self.storing = Activity::Pausing;
        self.gathered.len()
    }
}
