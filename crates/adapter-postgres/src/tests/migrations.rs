use contract_tests::samples::{CLIENT, NOW, minimal_order, order_of, settle};
use diesel_async::AsyncMigrationHarness;
use diesel_migrations::MigrationHarness as _;
use domain::{
    api_key::Scopes,
    order::{OrderId, record::OrderRecord},
    ports::{ApiKeyRepo, DeliveryQueue as _, QueueStats, Settlement},
};
use test_servers::postgres::{Cluster, Database};
use time::Duration;

use super::store;
use crate::{PostgresStore, migrations::MIGRATIONS};

#[tokio::test]
async fn migrations_can_be_reverted_and_applied_again() {
    let (store, database) = store(1).await;
    let before = database.schema();
    let mut harness = AsyncMigrationHarness::new(store.server.connect_unlimited().await.unwrap());
    let reverted = tokio::task::spawn_blocking(move || {
        harness.revert_all_migrations(MIGRATIONS).unwrap().len()
    });
    assert!(reverted.await.unwrap() > 0);
    let left = "SELECT relname FROM pg_class \
            WHERE relnamespace = 'public'::regnamespace AND relkind <> 'i' \
        UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace \
        UNION ALL SELECT typname FROM pg_type WHERE typnamespace = 'public'::regnamespace \
            AND typtype <> 'c' AND typcategory <> 'A'";
    assert_eq!(database.sql(left), "__diesel_schema_migrations");
    assert!(store.migrate().await.unwrap() > 0);
    assert_eq!(database.schema(), before);
}

/// Returns the statement by which the first version of the program inserted an order.
fn first_order(details: &str) -> String {
    format!(
        "INSERT INTO orders (client_id, api_key_id, signing_service_id, starts_at, created_at, \
            updated_at, is_test, holds_file_number, file_number, status, details) \
        VALUES ({}, 1, 1, '2026-12-01 20:30Z', '{NOW}', '{NOW}', false, true, 'F-1', 'NEW', \
            $details${details}$details$::jsonb)",
        CLIENT.0
    )
}

/// Rows of the first version of the program: an order with a document, two mails to one recipient,
/// of which one was counted, and a key.
fn first_rows(details: &str) -> String {
    format!(
        "{}; \
        INSERT INTO uploads VALUES ('k', now()); \
        INSERT INTO documents VALUES (1, 0, 'k', 'n', 'n', 't', 1, sha256('x')); \
        INSERT INTO deliveries (order_id, created_at, due_at, message_key, recipient) \
            VALUES (1, '{NOW}', '{NOW}', 'm', 'Jane@Example.com'); \
        INSERT INTO recipient_mails VALUES ('2026-11-21 12:00Z', 'jane@example.com', 1); \
        INSERT INTO api_keys (name, lookup, hash, issued_at, is_test) \
            VALUES ('x', 'lookup', sha256('x'), now(), false)",
        first_order(details)
    )
}

/// Returns a store on a database of the first version of the program.
async fn first_version() -> (PostgresStore, Database<'static>) {
    let database = Cluster::shared().database();
    let store = PostgresStore::open(&database.url(), 1).unwrap();
    let mut harness = AsyncMigrationHarness::new(store.server.connect_unlimited().await.unwrap());
    tokio::task::spawn_blocking(move || drop(harness.run_next_migration(MIGRATIONS).unwrap()))
        .await
        .unwrap();
    (store, database)
}

#[tokio::test]
async fn database_of_the_first_version_is_migrated_with_its_rows() {
    let (store, database) = first_version().await;
    let order = minimal_order();
    database.sql(&first_rows(&OrderRecord::of(&order).unwrap().details));
    assert!(store.migrate().await.unwrap() > 0);

    let found = order_of(&store, OrderId(1)).await.unwrap().unwrap();
    assert_eq!(found.order.contacts, order.contacts);
    assert_eq!((found.created_at, found.documents[0].created_at), (NOW, NOW));
    let key = ApiKeyRepo::find(&store, "lookup").await.unwrap().unwrap();
    assert_eq!(key.key.scopes, Scopes::default());
    let leases = store.lease(NOW, Duration::MINUTE, 2).await.unwrap();
    assert_eq!(leases[0].mail_of_hour, Some(2));
    // It was waiting before, and is delivered. It has no event.
    assert!(settle(&store, &leases[0], &Settlement::Done).await);
    assert_eq!(store.stats().await.unwrap(), QueueStats::default());
}

/// The newest migration makes `details` `json`, and can be reverted with its rows.
#[tokio::test]
async fn details_change_their_type_below_the_view() {
    let (store, database) = first_version().await;
    database.sql(&first_rows(&OrderRecord::of(&minimal_order()).unwrap().details));
    database.sql("GRANT SELECT ON order_details TO PUBLIC");
    database.sql("CREATE VIEW report AS SELECT file_number, signing_type FROM order_details");
    let state = || {
        let grants = "SELECT relacl FROM pg_class WHERE oid = 'order_details'::regclass";
        (database.sql(grants), database.sql("SELECT * FROM report"))
    };
    let (before, kind) = (state(), "SELECT pg_typeof(details) FROM orders");
    store.migrate().await.unwrap();
    assert_eq!((database.sql(kind), state()), ("json".to_owned(), before.clone()));
    let mut harness = AsyncMigrationHarness::new(store.server.connect_unlimited().await.unwrap());
    tokio::task::spawn_blocking(move || drop(harness.revert_last_migration(MIGRATIONS).unwrap()))
        .await
        .unwrap();
    assert_eq!((database.sql(kind), state()), ("jsonb".to_owned(), before.clone()));
    assert_eq!(store.migrate().await.unwrap(), 1);
    assert_eq!((database.sql(kind), state()), ("json".to_owned(), before));
}

/// So does the version before, while instances of both versions run.
#[tokio::test]
async fn details_may_be_written_as_jsonb() {
    let (store, database) = store(1).await;
    database.sql(&first_order(&OrderRecord::of(&minimal_order()).unwrap().details));
    let found = order_of(&store, OrderId(1)).await.unwrap().unwrap();
    assert_eq!(found.order.contacts, minimal_order().contacts);
    database.sql("UPDATE orders SET details = '{}'::jsonb");
    assert_eq!(database.sql("SELECT details FROM orders"), "{}");
}
