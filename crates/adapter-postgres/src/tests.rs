//! Behaviour that is not visible from outside: settings of a session, the pool after calls that do
//! not end well, and batches that start late.

mod pool;
mod session;

use std::time::Duration;

use test_servers::postgres::{Cluster, Database};
use tokio::sync::OnceCell;

use crate::{limits::TimeLimits, store::PostgresStore};

/// Limits that no call meets on a busy machine. Tests of a limit put the clock forward, or set their own.
const GENEROUS: TimeLimits = TimeLimits {
    connect: Duration::from_mins(10),
    session_check: Duration::from_mins(10),
    acquire: Duration::from_mins(10),
    statement: Duration::from_mins(10),
    call: Duration::from_mins(20),
    idle_transaction: Duration::from_mins(10),
    lock: Duration::from_mins(10),
    batch: Duration::from_mins(10),
    fast_rejection: Duration::from_mins(10),
};

/// Returns a store on a database of its own, with a limit of connections.
async fn store(connections: usize) -> (PostgresStore, Database<'static>) {
    store_with(connections, GENEROUS).await
}

/// Returns a store like [`store`], with time limits of its own.
async fn store_with(connections: usize, limits: TimeLimits) -> (PostgresStore, Database<'static>) {
    static MIGRATED: OnceCell<Database<'static>> = OnceCell::const_new();
    let migrated = MIGRATED.get_or_init(async || {
        let database = Cluster::shared().database();
        let store = PostgresStore::open(&database.url(), 1, GENEROUS).unwrap();
        store.migrate().await.unwrap();
        database
    });
    let database = migrated.await.copy();
    (PostgresStore::open(&database.url(), connections, limits).unwrap(), database)
}
