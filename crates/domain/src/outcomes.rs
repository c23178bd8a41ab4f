//! Gathers the outcomes of attempts, and stores them batch by batch.

use std::{mem, time::Duration};

/// Pause before a batch, in which more outcomes gather. Attempts that began together end within
/// milliseconds of each other, and storing a batch waits for the disk.
pub(crate) const GATHER: Duration = Duration::from_millis(2);

/// The outcomes that a worker has to store.
pub(crate) struct Outcomes<T> {
    gathered: Vec<T>,
    storing: Storing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Storing {
    Idle,
    Gathering,
    Calling,
    /// The queue failed.
    Pausing,
}

impl<T> Outcomes<T> {
    pub(crate) fn new() -> Self {
        Self { gathered: Vec::new(), storing: Storing::Idle }
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
        self.gathered.is_empty() && self.storing == Storing::Idle
    }

    /// Checks whether the queue failed to store outcomes a moment ago.
    pub(crate) fn is_failing(&self) -> bool {
        self.storing == Storing::Pausing
    }

    /// Returns whether the pause before a batch begins now.
    pub(crate) fn begin_gathering(&mut self) -> bool {
        let begins = self.storing == Storing::Idle && !self.gathered.is_empty();
        if begins {
            self.storing = Storing::Gathering;
        }
        begins
    }

    /// Returns all outcomes that have gathered, to be stored now. The pause is over.
    pub(crate) fn begin_batch(&mut self) -> Vec<T> {
        self.storing = Storing::Calling;
        mem::take(&mut self.gathered)
    }

    /// Lets the next batch begin: one is stored, or the pause after a failure is over.
    pub(crate) fn end_batch(&mut self) {
        self.storing = Storing::Idle;
    }

    /// Puts a batch back that could not be stored, and returns how many outcomes wait. The next
    /// batch waits for [`Self::end_batch`].
    pub(crate) fn put_back(&mut self, mut batch: Vec<T>) -> usize {
        batch.append(&mut self.gathered);
        self.gathered = batch;
        self.storing = Storing::Pausing;
        self.gathered.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_that_gather_in_the_pause_are_stored_together() {
        let mut outcomes = Outcomes::new();
        assert!(!outcomes.begin_gathering());
        outcomes.add([1]);
        assert!(outcomes.begin_gathering());
        outcomes.add([2]);
        assert!(!outcomes.begin_gathering());
        assert_eq!(outcomes.begin_batch(), [1, 2]);
        outcomes.add([3]);
        assert!(!outcomes.begin_gathering());
        outcomes.end_batch();
        assert!(outcomes.begin_gathering());
        assert_eq!(outcomes.begin_batch(), [3]);
    }
}
