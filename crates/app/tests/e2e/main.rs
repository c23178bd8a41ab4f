//! End-to-end tests over real HTTP on the embedded default. Each test has its own data directory
//! and ports. The target `e2e-production` runs most of them on PostgreSQL, S3 and SMTP.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "embedded.rs"]
mod wiring;

mod abuse_connections;
mod abuse_keys;
mod abuse_memory;
mod abuse_uploads;
mod api;
mod backup;
mod changes;
mod clients;
mod concurrency;
mod console;
mod crash;
mod disconnected_clients;
mod docs_page;
mod doctor;
mod doctor_report;
mod documents;
mod drain;
mod erasure;
mod errors;
mod faults_clock;
mod faults_disk;
mod faults_disk_embedded;
mod faults_download;
mod first_start;
mod generated_clients;
mod harness;
mod hostile_forms;
mod hostile_json;
mod idempotency;
mod idempotency_in_progress;
mod keys;
mod kubernetes;
mod limits;
mod lists;
mod log_lines;
mod mails;
mod malware_scan;
mod manual;
mod markers;
mod money_digits;
mod monitoring;
mod operators;
mod orders;
mod orders_command;
mod other_databases;
mod other_systems;
mod ownership;
mod packaging;
mod panics;
mod privacy;
mod process;
mod random_bytes;
mod raw;
mod read_documents;
mod read_orders;
mod readme;
mod requests;
mod response_headers;
mod restart;
mod schemathesis;
mod scripted_server;
mod service_process;
mod small_disk;
mod smuggling;
mod starting;
mod stop_under_load;
mod system_sqlite;
mod time_zones;
mod tls;
mod traces;
mod unread_output;
mod webhooks_api;
mod webhooks_listen;
mod wrong_settings;
