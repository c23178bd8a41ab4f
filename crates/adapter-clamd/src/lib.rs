//! Scans documents for malware with clamd of ClamAV, over its socket or over TCP.
//!
//! | topic | module |
//! |---|---|
//! | URLs of scanners | `address` |
//! | time limits, connections | `scanner` |
//! | the protocol: `INSTREAM`, `PING`, their answers | `exchange` |
//! | which error a scan has | `failure` |
//!
//! # Why an infected document is never clean
//!
//! A document is clean only if `exchange` has sent all of its bytes and the mark of their end, and
//! then read the complete answer `stream: OK`. Everything else is malware or an error.

mod address;
mod exchange;
mod failure;
mod scanner;

pub use address::InvalidUrl;
pub use scanner::{Clamd, TimeLimits};

#[cfg(test)]
mod clamd_tests;
#[cfg(test)]
mod scripted_tests;
