//! The service as its users meet it: the same tests as `e2e`, on PostgreSQL, S3 and SMTP over the
//! wire, and what only several instances can show.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, what cannot go on fails the test"
)]

#[path = "production.rs"]
mod wiring;

mod abuse_connections;
mod abuse_keys;
mod concurrency;
mod copy;
mod crash;
mod documents;
mod errors;
mod failover;
mod faults_bucket;
mod faults_clock;
mod faults_database;
mod faults_disk;
mod faults_relay;
mod harness;
mod hostile_forms;
mod hostile_json;
mod idempotency;
mod keys;
mod limits;
mod mails;
mod markers;
mod openapi;
mod operators;
mod orders;
mod other_databases;
mod other_systems;
mod outages;
mod privacy;
mod process;
mod random_bytes;
mod response_headers;
mod restart;
mod service_process;
mod several_instances;
mod small_disk;
mod smuggling;
mod stop_under_load;
mod unusable_dependencies;
mod upkeep;
