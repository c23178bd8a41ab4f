//! End-to-end tests over real HTTP: on the embedded default, on PostgreSQL, S3 and SMTP, or on both
//! (`on_both_wirings!`). Each test has its own data directory and ports.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod harness;
mod timing;
mod wiring;

mod abuse {
    mod concurrency;
    mod connections;
    mod forms;
    mod json;
    mod keys;
    mod limits;
    mod memory;
    mod random_bytes;
    mod response_headers;
    mod smuggling;
    mod unread_output;
    mod uploads;
}

mod databases {
    mod other_systems;
    mod other_versions;
    mod released;
    mod system_sqlite;
}

mod docs {
    mod compliance;
    mod console;
    mod docs_page;
    mod examples;
    mod first_start;
    mod generated_clients;
    mod guide;
    mod in_step;
    mod kubernetes;
    mod manual;
    mod mirror_under_load;
    mod monitoring;
    mod packaging;
    mod quick_start;
    mod readme;
    mod schemathesis;
}

mod faults {
    mod bucket;
    mod clock;
    mod crash;
    mod database;
    mod disconnected_clients;
    mod disk;
    mod disk_embedded;
    mod download;
    mod failover;
    mod outages;
    mod panics;
    mod relay;
}

mod operators {
    mod accesses;
    mod backup;
    mod commands;
    mod copies;
    mod copy;
    pub mod doctor {
        mod embedded;
        mod logins;
        mod production;
        pub mod report;
    }
    mod erasure;
    mod keys;
    mod lists;
    mod names;
    mod orders;
    mod people;
    mod upkeep;
    mod wrong_settings;
}

mod orders {
    mod accesses;
    mod archives;
    mod changes;
    mod create;
    mod dispatch;
    mod documents;
    mod erasure_races;
    mod errors;
    mod filters;
    mod idempotency;
    mod idempotency_in_progress;
    mod mails;
    mod malware_scan;
    mod money_digits;
    mod notaries;
    mod ownership;
    mod preconditions;
    mod read;
    mod read_documents;
    mod rejected;
    mod retention;
    mod signed_documents;
}

mod people {
    mod guessing;
    mod invitations;
    mod keys;
    mod logins;
    mod roles;
    mod sessions;
    mod uploads;
}

mod running {
    pub mod drain;
    mod endpoints;
    mod log_lines;
    pub mod privacy;
    mod restart;
    mod several_instances;
    mod starting;
    mod stop_under_load;
    mod time_zones;
    pub mod tls;
    mod traces;
    mod two_clocks;
    mod unusable_dependencies;
}

mod webhooks {
    mod api;
    pub mod listen;
}
