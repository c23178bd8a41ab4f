//! Every storage port on PostgreSQL, or on a compatible engine that has `ON CONFLICT`, `SKIP
//! LOCKED` and triggers. Pure Rust: no libpq.
//!
//! - Each write of a port is one statement, which is its own transaction. Orders that wait at the
//!   same time share a statement. Only changes of API keys, additions of documents and endpoints,
//!   and erasures take several.
//! - A call holds a connection of the pool until it ends.
//! - Any number of instances may share a database.

mod claims;
mod connect;
mod deliveries;
mod dialect;
mod failure;
#[path = "../../sql-rows/ports/idempotency.rs"]
mod idempotency;
mod import;
mod inspect;
#[path = "../../sql-rows/ports/key_use.rs"]
mod key_use;
#[path = "../../sql-rows/ports/keys.rs"]
mod keys;
mod migrations;
mod orders;
mod pool;
mod statement;
mod store;
#[cfg(test)]
mod tests;
#[path = "../../sql-rows/ports/uploads.rs"]
mod uploads;

pub use connect::{ConnectError, url::OpenError};
pub use import::Import;
pub use inspect::{Facts, Inspection};
pub use migrations::MigrateError;
pub use store::PostgresStore;
