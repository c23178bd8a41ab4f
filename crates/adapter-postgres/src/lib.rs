//! Every storage port on PostgreSQL, or on a compatible engine that has `ON CONFLICT`, `SKIP
//! LOCKED` and triggers. Pure Rust: no libpq.
//!
//! - Each write of a port is one statement, which is its own transaction. Orders that wait at the
//!   same time share a statement. Only changes of API keys, additions of documents and endpoints,
//!   and erasures take several.
//! - A call holds a connection of the pool until it ends.
//! - Any number of instances may share a database.

mod connect;
mod deliveries;
mod failure;
mod idempotency;
mod import;
mod inspect;
mod keys;
mod migrations;
mod orders;
mod pool;
mod statement;
#[cfg(test)]
mod tests;
mod uploads;

pub use connect::{ConnectError, url::OpenError};
pub use import::Import;
pub use inspect::{Facts, Inspection};
pub use migrations::MigrateError;

use domain::ports::Clock;
use group_commit::BatchObserver;

use crate::{connect::Server, orders::Orders, pool::Pool};

/// Every storage port on one PostgreSQL database.
pub struct PostgresStore {
    server: Server,
    pool: Pool,
    orders: Orders,
}

impl PostgresStore {
    /// Opens a store on the database of a URL, `postgres://user:password@host:5432/database`, with
    /// at most `connections` connections. The runtime in which this is called runs them. Connects
    /// when a port is used.
    ///
    /// - Of several hosts, the store finds the one that accepts writes.
    /// - `sslmode` is `disable`, `prefer` (the default), `require` or `verify-full`.
    /// - `sslrootcert` names a file of root certificates; by default those of the system are used.
    ///
    /// # Errors
    /// The URL is invalid, or TLS cannot be set up.
    pub fn open(url: &str, connections: usize) -> Result<Self, OpenError> {
        let server = Server::from_url(url)?;
        let pool = Pool::new(server.clone(), connections)?;
        Ok(Self { server, orders: Orders::new(pool.clone()), pool })
    }

    /// Reports how many orders share each statement.
    pub fn observe_batches(&self, observer: &BatchObserver) {
        self.orders.observe(observer.clone());
    }

    /// Returns the number of open connections.
    pub fn open_connections(&self) -> usize {
        self.pool.open()
    }

    /// Returns the number of calls that wait for a connection.
    pub fn waiting_calls(&self) -> usize {
        self.pool.waiting()
    }

    /// Applies the missing migrations and returns their number. Must be called before the ports are
    /// used. Any number of processes may call it at once.
    ///
    /// # Errors
    /// The database cannot be reached or migrated, or does not belong to this program.
    pub async fn migrate(&self) -> Result<usize, MigrateError> {
        migrations::migrate(&self.server).await
    }

    /// Returns what an operator should know about the database. Changes nothing. `clock` is
    /// compared with that of the server.
    ///
    /// # Errors
    /// The database cannot be reached, or a pooler shares its sessions.
    pub async fn inspect(&self, clock: &dyn Clock) -> Result<Inspection, MigrateError> {
        inspect::inspect(&self.server, clock).await
    }
}
