//! What cannot be seen from outside: what a session is told, the pool after a panic, migrations
//! taken back.

mod migrations;
mod pool;
mod session;

use test_servers::postgres::{Cluster, Database};

use crate::PostgresStore;

/// A database of its own, and a store on it that has at most so many connections.
async fn store(connections: usize) -> (PostgresStore, Database<'static>) {
    let database = Cluster::shared().database();
    let store = PostgresStore::open(&database.url(), connections).unwrap();
    store.migrate().await.unwrap();
    (store, database)
}
