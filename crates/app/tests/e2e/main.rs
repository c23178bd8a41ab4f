//! The service as its users meet it: over real HTTP, on the embedded default, each test with a data directory and ports
//! of its own. `e2e-production` is the same on PostgreSQL, S3 and SMTP.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test, what cannot go on fails the test")]

#[path = "embedded.rs"]
mod wiring;

mod clients;
mod concurrency;
mod docs_page;
mod documents;
mod errors;
mod first_start;
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
mod process;
mod random_bytes;
mod restart;
mod schemathesis;
mod scripted_server;
mod service_process;
mod wrong_settings;
