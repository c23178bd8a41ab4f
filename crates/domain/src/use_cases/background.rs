//! Background work: steps that the service repeats until it stops.

use std::time::Duration;

use crate::ports::StoreError;

/// A worker. The caller waits for the pause that a step returns, and then begins the next. It stops between two
/// steps.
pub trait Worker: Send {
    /// The outcome of a step.
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
