//! The ports that a database implements.

pub mod access_log;
pub mod api_key_repo;
pub mod change_feed;
pub mod database_time;
pub mod delivery_queue;
pub mod idempotency_ledger;
pub mod installation_repo;
pub mod order_admin;
pub mod order_reader;
pub mod order_repo;
pub mod outbox;
pub mod person_repo;
pub mod rejected_log;
pub mod service_repo;
pub mod session_repo;
pub mod upload_ledger;
pub mod webhook_queue;
pub mod webhook_repo;
