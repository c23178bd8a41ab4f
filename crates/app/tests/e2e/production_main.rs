//! The service as its users meet it: the same tests as `e2e`, on PostgreSQL, S3 and SMTP over the wire, and what only
//! several instances can show.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test, what cannot go on fails the test")]

#[path = "production.rs"]
mod wiring;

mod concurrency;
mod copy;
mod documents;
mod errors;
mod failover;
mod harness;
mod hostile_forms;
mod hostile_json;
mod idempotency;
mod keys;
mod limits;
mod mails;
mod openapi;
mod operators;
mod orders;
mod outages;
mod process;
mod random_bytes;
mod restart;
mod service_process;
mod several_instances;
mod unusable_dependencies;
mod upkeep;
