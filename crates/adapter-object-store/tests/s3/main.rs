//! What a store over the network promises beyond the contract, on a server that checks signatures.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod harness;
mod outage;
mod reach;
mod refusals;
mod requests;
