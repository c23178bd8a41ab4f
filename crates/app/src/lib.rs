//! Wiring: settings, adapters behind ports, the command line, start and graceful stop. No rule
//! lives here.

pub mod adapters;
pub mod cli;
mod copy;
mod first_key;
mod listen;
pub mod logging;
pub mod serve;
pub mod settings;
mod system;
mod workers;

pub use system::{Machine, OsEntropy, SystemClock};
