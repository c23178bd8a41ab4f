//! Background work: steps that the service repeats until it stops.
//!
//! A worker has a method `step`, which does a bounded amount of work. The caller waits for the
//! pause that the step returns, and then calls `step` again. It stops between two steps.

use std::time::Duration;

use crate::ports::StoreError;

/// The outcome of one step.
#[derive(Debug)]
pub struct Step<T> {
    /// The outcome of the step.
    pub result: Result<T, StoreError>,
    /// Time to wait before the next step. Zero means that there is more to do at once.
    pub pause: Duration,
}
