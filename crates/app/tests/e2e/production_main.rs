//! End-to-end tests on PostgreSQL, S3 and SMTP: most tests of `e2e`, and those that need a real
//! server or several instances.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "production.rs"]
mod wiring;

mod abuse_connections;
mod abuse_keys;
mod abuse_memory;
mod api;
mod changes;
mod concurrency;
mod copy;
mod crash;
mod disconnected_clients;
mod doctor_production;
mod doctor_report;
mod documents;
mod drain;
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
mod idempotency_in_progress;
mod keys;
mod limits;
mod mails;
mod markers;
mod money_digits;
mod operators;
mod orders;
mod orders_command;
mod other_databases;
mod other_systems;
mod outages;
mod ownership;
mod privacy;
mod process;
mod quick_start;
mod random_bytes;
mod raw;
mod read_documents;
mod read_orders;
mod requests;
mod response_headers;
mod restart;
#[expect(
    dead_code,
    reason = "the tests of the guide's clients use the rest, on the embedded default"
)]
mod scripted_server;
mod service_process;
mod several_instances;
mod small_disk;
mod smuggling;
mod starting;
mod stop_under_load;
mod unread_output;
mod unusable_dependencies;
mod upkeep;
mod webhooks_api;
mod webhooks_listen;
