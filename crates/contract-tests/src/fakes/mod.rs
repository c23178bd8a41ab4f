//! Fakes of the clock and of randomness.

mod clock;
mod entropy;

pub use clock::*;
pub use entropy::*;
