//! Every storage port on PostgreSQL, or on a compatible engine that has `ON CONFLICT`, `SKIP
//! LOCKED` and triggers. Pure Rust: no libpq.
//!
//! - Creating an order, and leasing and settling mails, are one statement each, which is its own
//!   transaction. Orders that wait at the same time share a statement. Other writes
//!   are transactions of several statements where they must lock rows first.
//! - A call holds a connection of the pool until it ends.
//! - Any number of instances may share a database.

mod accesses;
mod connect;
mod deliveries;
mod failure;
mod group_commit;
mod import;
mod inspect;
mod installation;
mod limits;
mod locks;
mod migrations;
mod orders;
mod parties;
mod pool;
mod statement;
mod store;
#[cfg(test)]
mod tests;
mod webhooks;

pub use connect::{ConnectError, url::OpenError};
pub use import::Import;
pub use inspect::{Facts, Inspection, Protection};
pub use limits::TimeLimits;
pub use migrations::MigrateError;
pub use sql_rows::ObservedDatabase;
pub use store::PostgresStore;
