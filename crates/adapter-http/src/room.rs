//! How many orders are placed at a time.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

/// Room for so many orders. Who finds none is turned away at once, so that what is accepted is
/// answered soon, however much arrives.
#[derive(Debug)]
pub struct Room {
    free: Semaphore,
    entered: AtomicU64,
}

impl Room {
    /// Room for `size` orders.
    pub fn new(size: usize) -> Self {
        Self { free: Semaphore::new(size), entered: AtomicU64::new(0) }
    }

    /// A place, until it is dropped; `None` if there is none.
    pub(crate) fn enter(&self) -> Option<SemaphorePermit<'_>> {
        self.free.try_acquire().ok().inspect(|_| {
            self.entered.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// How many orders have found a place since the start.
    pub fn entered(&self) -> u64 {
        self.entered.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_no_place_is_turned_away_until_another_leaves() {
        let room = Room::new(2);
        let (first, second) = (room.enter(), room.enter());
        assert!(first.is_some() && second.is_some() && room.enter().is_none());
        assert_eq!(room.entered(), 2);
        drop(first);
        assert!(room.enter().is_some());
        assert_eq!(room.entered(), 3);
    }
}
