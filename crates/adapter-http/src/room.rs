//! How many orders are placed at a time.

use tokio::sync::{Semaphore, SemaphorePermit};

/// Room for so many orders. Who finds none is turned away at once, so that what is accepted is answered soon, however much
/// arrives.
#[derive(Debug)]
pub struct Room {
    free: Semaphore,
    size: usize,
}

impl Room {
    /// Room for `size` orders.
    pub fn new(size: usize) -> Self {
        Self { free: Semaphore::new(size), size }
    }

    /// A place, until it is dropped; `None` if there is none.
    pub(crate) fn enter(&self) -> Option<SemaphorePermit<'_>> {
        self.free.try_acquire().ok()
    }

    /// Orders that are being placed.
    pub fn taken(&self) -> usize {
        self.size - self.free.available_permits()
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
        assert_eq!(room.taken(), 2);
        drop(first);
        assert_eq!(room.taken(), 1);
        assert!(room.enter().is_some());
    }
}
