//! Several installations in one database, each in a schema of its own.

use contract_tests::samples::LIVE;
use domain::{
    order::OrderId,
    ports::{Cursor, ListFilter, OrderReader as _, PageQuery},
};
use test_servers::postgres::{Cluster, Database};
use tokio::time::timeout;

use super::{PostgresStore, TIMEOUT, create, outsider, store_at};

/// Returns a store in a new schema.
async fn in_schema(database: &Database<'_>, schema: &str) -> PostgresStore {
    database.sql(&format!("CREATE SCHEMA {schema}"));
    store_at(&format!("{}?options=-csearch_path%3D{schema}", database.url())).await
}

/// Returns the orders that a poller sees after one.
async fn polled(store: &PostgresStore, last: OrderId) -> Vec<OrderId> {
    let cursor = Cursor::NewerThan(last);
    let page = PageQuery { filter: ListFilter::default(), limit: 10, cursor, cursor_starts: None };
    let page = store.page(LIVE, &page).await.unwrap().unwrap();
    let mut orders: Vec<_> = page.items.into_iter().map(|order| order.stored.id).collect();
    orders.sort_unstable();
    orders
}

/// Announces in a schema that larger identifiers than the last one will be drawn, and draws none.
async fn announce(database: &Database<'_>, schema: &str) -> tokio_postgres::Client {
    let client = outsider(database).await;
    let announce = format!(
        "BEGIN; SET LOCAL search_path = {schema}; \
        SELECT pg_advisory_xact_lock_shared(28530, 'orders'::regclass::oid::integer), \
            pg_advisory_xact_lock_shared((28530::bigint << 48) \
                # coalesce(pg_sequence_last_value('orders_id_seq'), 0))"
    );
    client.batch_execute(&announce).await.unwrap();
    client
}

#[tokio::test]
async fn transaction_in_one_schema_holds_up_pollers_of_that_schema_only() {
    let database = Cluster::shared().database();
    let (one, other) = (in_schema(&database, "one").await, in_schema(&database, "other").await);
    let seen = create(&one, "F-0").await.unwrap();
    assert_eq!(create(&other, "F-0").await.unwrap(), seen);
    let busy = announce(&database, "other").await;
    let created = [create(&one, "F-1").await.unwrap(), create(&one, "F-2").await.unwrap()];
    create(&other, "F-1").await.unwrap();
    assert_eq!(polled(&one, seen).await, created);
    assert_eq!(polled(&other, seen).await, [], "an earlier order may still appear");
    busy.batch_execute("COMMIT").await.unwrap();
    assert_eq!(polled(&other, seen).await.len(), 1);
}

#[tokio::test]
async fn identifiers_beyond_48_bits_are_announced_whole() {
    let database = Cluster::shared().database();
    let store = in_schema(&database, "one").await;
    let last = (1_i64 << 60) + 7;
    database.sql(&format!("SELECT setval('one.orders_id_seq', {last})"));
    let seen = create(&store, "F-0").await.unwrap();
    assert_eq!(seen.0, last + 1);
    let first = create(&store, "F-1").await.unwrap();
    let busy = announce(&database, "one").await;
    create(&store, "F-2").await.unwrap();
    assert_eq!(polled(&store, seen).await, [first]);
    busy.batch_execute("COMMIT").await.unwrap();
    assert_eq!(polled(&store, seen).await.len(), 2);
}

#[tokio::test]
async fn migration_of_another_schema_holds_up_no_start() {
    let database = Cluster::shared().database();
    let hung = outsider(&database).await;
    let lock = "SELECT pg_advisory_lock(1852797025, hashtext('other'))";
    hung.batch_execute(lock).await.unwrap();
    let store = timeout(TIMEOUT, in_schema(&database, "one")).await.unwrap();
    create(&store, "F-1").await.unwrap();
}

/// Programs lock small numbers.
#[tokio::test]
async fn lock_of_another_program_holds_up_no_order() {
    let database = Cluster::shared().database();
    let store = in_schema(&database, "one").await;
    let other = outsider(&database).await;
    other
        .batch_execute("SELECT pg_advisory_lock(number) FROM generate_series(0, 9) AS number")
        .await
        .unwrap();
    let seen = create(&store, "F-0").await.unwrap();
    let created = create(&store, "F-1").await.unwrap();
    assert_eq!(polled(&store, seen).await, [created]);
}
