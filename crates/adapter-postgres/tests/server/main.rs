//! What the store promises beyond the contract of its ports: how it behaves with a real server that
//! is slow, gone, full, closed to it, or not what it should be.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod busy;
mod concurrency;
mod constraints;
mod failures;
mod hosts;
mod indexes;
mod migrations;
mod order_details;
mod outage;
mod round_trips;
mod tls;
mod unreadable;
mod urls;

use std::{error::Error, time::Duration};

use adapter_postgres::PostgresStore;
use contract_tests::samples::{NOW, WINDOW, new_order};
use domain::{
    order::OrderId,
    ports::{CreateError, OrderRepo as _, StoreError},
};
use test_servers::postgres::{Cluster, Database, PASSWORD, SUPERUSER};
use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, NoTls};

/// How long anything may take that is to be waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A store of a few connections on a URL, whose schema is up to date.
async fn store_at(url: &str) -> PostgresStore {
    let store = PostgresStore::open(url, 4).unwrap();
    store.migrate().await.unwrap();
    store
}

/// A database of its own on the server of all tests, and a store on it.
async fn store() -> (PostgresStore, Database<'static>) {
    let database = Cluster::shared().database();
    (store_at(&database.url()).await, database)
}

/// The URL of a database through another port.
fn url_through(port: u16, database: &Database<'_>) -> String {
    format!("postgres://{SUPERUSER}:{PASSWORD}@127.0.0.1:{port}/{}", database.name)
}

/// A session beside those of the store, as another program has it.
async fn outsider(database: &Database<'_>) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn create(store: &PostgresStore, file_number: &str) -> Result<OrderId, CreateError> {
    store.create(&new_order(file_number, NOW), WINDOW).await
}

/// Waits for what comes about by itself, but not for ever.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// How many sessions of stores there are, of which so many wait for a lock.
async fn sessions(outsider: &Client) -> (i64, i64) {
    let query =
        "SELECT count(*), count(*) FILTER (WHERE wait_event_type = 'Lock') FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'notary-orders'";
    let row = outsider.query_one(query, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

/// What a log would say of an error that must be passing.
fn unavailable<T>(outcome: Result<T, StoreError>) -> String {
    match outcome {
        Err(error @ StoreError::Unavailable(_)) => one_line(&error),
        Err(error) => panic!("{}", one_line(&error)),
        Ok(_) => panic!("it worked"),
    }
}

/// [`unavailable`] of an order.
fn not_created(outcome: Result<OrderId, CreateError>) -> String {
    match outcome {
        Err(error @ CreateError::Unavailable(_)) => one_line(&error),
        Err(error) => panic!("{}", one_line(&error)),
        Ok(_) => panic!("it was placed"),
    }
}

/// What a log would say of an error, which is one line and holds no password.
fn one_line(error: &dyn Error) -> String {
    let chain = domain::ports::error_chain(error);
    assert!(!chain.contains('\n') && !chain.contains(PASSWORD), "{chain}");
    chain
}
