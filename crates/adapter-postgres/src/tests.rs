//! Behaviour that is not visible from outside: settings of a session, the pool after calls that do
//! not end well, and batches that start late.

mod pool;
mod session;

use test_servers::postgres::{Cluster, Database};

use crate::store::PostgresStore;

/// Returns a store on a new database, with a limit of connections.
async fn store(connections: usize) -> (PostgresStore, Database<'static>) {
    let database = Cluster::shared().database();
    let store = PostgresStore::open(&database.url(), connections).unwrap();
    store.migrate().await.unwrap();
    (store, database)
}
