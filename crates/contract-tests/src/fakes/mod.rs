//! Fakes of the clock, of randomness and of the malware scanner.

mod clock;
mod entropy;
mod scanner;

pub use clock::*;
pub use entropy::*;
pub use scanner::*;
