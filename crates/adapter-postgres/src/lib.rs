//! Every storage port on PostgreSQL (or on an engine that speaks its protocol and has `ON CONFLICT
//! … DO UPDATE … WHERE`, `SKIP LOCKED` and triggers), in Rust alone: no libpq.
//!
//! What a call of a port writes, it writes by one statement, which is its own transaction; orders
//! that wait at the same time share one, and only changes of API keys, which go into their trail,
//! take a transaction of several. A connection of the pool is held for the length of a call and no
//! longer. Any number of instances may share a database.

mod batch;
mod connect;
mod create_batch;
mod failure;
mod idempotency;
mod import;
mod insert_orders;
mod keys;
mod migrations;
mod orders;
mod pool;
mod queue;
mod rows;
mod schema;
mod statement;
#[cfg(test)]
mod tests;
mod uploads;

pub use connect::{ConnectError, OpenError};
pub use import::Import;
pub use migrations::MigrateError;

use crate::{
    batch::Batches, connect::Server, insert_orders::PendingOrder, pool::Pool, queue::Settled,
    uploads::Recorded,
};

/// Every storage port on one PostgreSQL database.
pub struct PostgresStore {
    server: Server,
    pool: Pool,
    orders: Batches<PendingOrder>,
    records: Batches<Recorded>,
    settlements: Batches<Settled>,
}

impl PostgresStore {
    /// A store on the database of a URL: `postgres://user:password@host:5432/database`. Several
    /// hosts may be named, of which the one that takes writes is found, as
    /// `target_session_attrs=read-write` says. `sslmode` is `disable`, `prefer` (the default),
    /// `require` or `verify-full`, with the root certificates of the file `sslrootcert` or of the
    /// system.
    ///
    /// Nothing is connected yet. At most `connections` are made, by the runtime in which this is
    /// called.
    pub fn open(url: &str, connections: usize) -> Result<Self, OpenError> {
        let server = Server::named(url)?;
        let pool = Pool::of(server.clone(), connections)?;
        Ok(Self {
            server,
            orders: Batches::on(pool.clone()),
            records: Batches::on(pool.clone()),
            settlements: Batches::on(pool.clone()),
            pool,
        })
    }

    /// Brings the schema up to the version of the program, and answers how many migrations that
    /// took. To be called before the ports are used; any number of processes may do so at once.
    pub async fn migrate(&self) -> Result<usize, MigrateError> {
        migrations::migrate(&self.server).await
    }
}
