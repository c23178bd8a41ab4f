//! The slots that mails and webhooks share.

use std::sync::{Mutex, PoisonError};

/// Default of the greatest number of deliveries in progress.
pub const DELIVERIES_IN_FLIGHT: usize = 64;

/// Bounds the deliveries in progress. Mails and webhooks may each have up to three quarters of the
/// slots, so neither ever waits until the other has ended.
#[derive(Debug)]
pub struct DeliverySlots {
    all: usize,
    taken: Mutex<usize>,
}

impl DeliverySlots {
    /// Returns free slots; at least two.
    pub fn new(all: usize) -> Self {
        Self { all: all.max(2), taken: Mutex::new(0) }
    }

    /// Returns the maximum number of slots for mails, or for webhooks.
    pub fn share(&self) -> usize {
        self.all - (self.all / 4).max(1)
    }

    /// Takes up to `wanted` slots, and returns how many.
    pub(crate) fn take(&self, wanted: usize) -> usize {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let granted = wanted.min(self.all.saturating_sub(*taken));
        *taken += granted;
        granted
    }

    /// Gives slots back.
    pub(crate) fn give_back(&self, slots: usize) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        *taken = taken.saturating_sub(slots);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_bounded_and_one_kind_leaves_some_to_the_other() {
        for (all, share) in [(0, 1), (1, 1), (2, 1), (3, 2), (4, 3), (64, 48)] {
            let slots = DeliverySlots::new(all);
            assert_eq!(slots.share(), share);
            let first = slots.take(slots.share());
            let second = slots.take(slots.share());
            assert_eq!((first, first + second), (share, all.max(2)));
            assert_eq!(slots.take(1), 0);
            slots.give_back(1);
            assert_eq!(slots.take(5), 1);
        }
    }
}
