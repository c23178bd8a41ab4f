//! End-to-end tests on PostgreSQL, S3 and SMTP: most tests of `e2e`, and those that need a real
//! server or several instances.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "harness/production.rs"]
mod wiring;

mod harness;

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
}

mod databases {
    mod other_systems;
    mod other_versions;
}

mod docs {
    mod quick_start;
}

mod faults {
    mod bucket;
    mod clock;
    mod crash;
    mod database;
    mod disconnected_clients;
    mod disk;
    mod failover;
    mod outages;
    mod relay;
}

mod operators {
    mod accesses;
    mod commands;
    mod copy;
    pub mod doctor {
        mod production;
        pub mod report;
    }
    mod keys;
    mod names;
    mod orders;
    mod upkeep;
}

mod orders {
    mod accesses;
    mod changes;
    mod create;
    mod documents;
    mod erasure_races;
    mod errors;
    mod filters;
    mod idempotency;
    mod idempotency_in_progress;
    mod mails;
    mod money_digits;
    mod ownership;
    mod read;
    mod read_documents;
    mod retention;
    mod signed_documents;
}

mod running {
    pub mod drain;
    mod endpoints;
    pub mod privacy;
    mod restart;
    mod several_instances;
    mod starting;
    mod stop_under_load;
    mod unusable_dependencies;
}

mod webhooks {
    mod api;
    pub mod listen;
}
