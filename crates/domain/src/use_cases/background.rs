//! Background work: steps that the service repeats until it stops.

use std::time::Duration;

use crate::ports::StoreError;

/// A worker. The caller waits for the pause that a step returns, and then begins the next. It stops between two
/// steps.
pub trait Worker: Send {
    /// What a step has done.
    type Done: Send;

    /// Does a bounded amount of work.
    fn step(&mut self) -> impl Future<Output = Step<Self::Done>> + Send;
}

/// The outcome of one step.
#[derive(Debug)]
pub struct Step<T> {
    /// The outcome of the step.
    pub result: Result<T, StoreError>,
    /// Time to wait before the next step. Zero means that there is more to do at once.
    pub pause: Duration,
}

/// How many facts a worker stores in a call. Fewer after a failure: with them, the call may have met its time
/// limit, and would again.
#[derive(Debug)]
pub(crate) struct BatchSize {
    size: usize,
    greatest: usize,
}

impl BatchSize {
    /// Returns the greatest size.
    pub(crate) fn new(greatest: usize) -> Self {
        Self { size: greatest, greatest }
    }

    pub(crate) fn get(&self) -> usize {
        self.size
    }

    /// Notes that a call with this many failed.
    pub(crate) fn failed(&mut self, count: usize) {
        self.size = (count / 2).max(1);
    }

    /// Notes that a call worked.
    pub(crate) fn worked(&mut self) {
        self.size = self.size.saturating_add(self.size / 16 + 1).min(self.greatest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_is_halved_by_failures_and_grows_slowly() {
        let mut size = BatchSize::new(64);
        let mut sizes = Vec::new();
        for count in [64, 32, 1] {
            sizes.push(size.get());
            size.failed(count);
        }
        size.worked();
        sizes.push(size.get());
        assert_eq!(sizes, [64, 32, 16, 2]);
        (0..99).for_each(|_| size.worked());
        assert_eq!(size.get(), 64);
    }
}
