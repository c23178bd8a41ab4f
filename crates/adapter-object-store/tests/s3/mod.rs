//! Properties of a remote store beyond the contract, on a server that checks signatures.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod endpoints;
mod error_texts;
pub mod harness;
mod outage;
mod requests;
mod timing;
