//! The service as its users meet it: over real HTTP, with the production wiring, each test with a data directory and
//! ports of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test, what cannot go on fails the test")]

mod concurrency;
mod documents;
mod errors;
mod harness;
mod hostile_forms;
mod hostile_json;
mod limits;
mod mails;
mod operators;
mod orders;
mod process;
mod restart;
