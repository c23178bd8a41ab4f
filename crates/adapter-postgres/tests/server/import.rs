//! Rows of another store, and the identifiers that follow them.

use std::collections::BTreeMap;

use contract_tests::samples::{LIVE, add_note, new_endpoint};
use domain::{
    order::{Actor, OrderId, feed::FeedCursor},
    ports::{ChangeFeed, OrderRepo, WebhookRepo},
};

use super::{PostgresStore, create, outsider, sessions, store, until};

async fn endpoint(store: &PostgresStore) -> i64 {
    WebhookRepo::add(store, &new_endpoint(LIVE), 10).await.unwrap().unwrap().id.0
}

#[tokio::test]
async fn identifiers_go_on_where_the_source_stood() {
    let (store, database) = store().await;
    let mut import = store.begin_import().await.unwrap();
    let key = r#"[{"id": 4, "name": "x", "lookup": "x", "hash": "\\x00", "is_test": false,
        "issued_at": "2026-11-21 12:00:00+00", "scopes": "orders:create"}]"#;
    import.insert("api_keys", key).await.unwrap();
    // The source has removed its last two endpoints.
    let assigned = BTreeMap::from([("webhook_endpoints".to_owned(), 7)]);
    import.commit(&assigned).await.unwrap();
    assert_eq!(endpoint(&store).await, 8);
    assert_eq!(database.sql("SELECT nextval('api_keys_id_seq')"), "5");
    assert_eq!(create(&store, "F-1").await.unwrap().0, 1, "a table without rows begins at 1");
}

/// Triggers add no entry for rows of the source, which has its entries itself.
#[tokio::test]
async fn places_in_the_feed_go_on_where_the_source_stood() {
    let (source, rows) = store().await;
    let id = create(&source, "F-1").await.unwrap();
    let (store, _database) = store().await;
    let mut import = store.begin_import().await.unwrap();
    let order = rows.sql("SELECT json_agg(o) FROM orders AS o");
    import.insert("orders", &order).await.unwrap();
    let note = r#"[{"id": 1, "order_id": 1, "at": "2026-11-21 12:00:00+00", "author": "client",
        "text": "x"}]"#;
    import.insert("order_notes", note).await.unwrap();
    let entry = r#"[{"id": 5, "number": 5, "order_id": 1, "client_id": 3, "signing_service_id": 42,
        "is_test": false, "at": "2026-11-21 12:00:00+00", "kind": "note_added", "status": "NEW"}]"#;
    import.insert("order_feed", entry).await.unwrap();
    // The source has removed its last two entries.
    import.commit(&BTreeMap::from([("order_feed".to_owned(), 7)])).await.unwrap();

    let numbers = async |created, changed| {
        let place = FeedCursor { created, changed, epoch: 0 };
        let page = ChangeFeed::page(&store, LIVE, place, 10).await.unwrap().unwrap();
        page.entries.iter().map(|entry| entry.cursor.changed).collect::<Vec<_>>()
    };
    assert_eq!(numbers(OrderId(0), 0).await, [0, 5]);
    assert_eq!(numbers(id, 7).await, [0; 0]);
    OrderRepo::change(&store, &add_note(id, Actor::Client, "y")).await.unwrap();
    assert_eq!(numbers(id, 7).await, [8]);
}

/// An operator has given the table a later range (`docs/scaling.md`), or a copy has failed at its end.
#[tokio::test]
async fn identifiers_that_the_target_has_drawn_are_taken() {
    let (source, rows) = store().await;
    create(&source, "F-1").await.unwrap();
    let (store, database) = store().await;
    database.sql("SELECT setval('orders_id_seq', 7)");
    let mut import = store.begin_import().await.unwrap();
    let order = rows.sql("SELECT json_agg(o) FROM orders AS o");
    import.insert("orders", &order).await.unwrap();
    import.commit(&BTreeMap::new()).await.unwrap();
    assert_eq!(create(&store, "F-2").await.unwrap().0, 8);
    let enabled = "SELECT tgenabled FROM pg_trigger WHERE tgname = 'orders_refuse_drawn'";
    assert_eq!(database.sql(enabled), "O");
}

/// A reader gives numbers to changes at the same time.
#[tokio::test]
async fn import_waits_for_a_reader_of_the_feed_that_waits_for_nothing() {
    let (store, database) = store().await;
    let reader = outsider(&database).await;
    let lock = "BEGIN; SELECT number FROM order_feed_position WHERE id = 1 FOR UPDATE";
    reader.batch_execute(lock).await.unwrap();
    let watcher = outsider(&database).await;
    let importing = tokio::spawn(async move { store.begin_import().await.map(drop) });
    until("the import waits", async || sessions(&watcher).await.1 == 1).await;
    let number = "SET lock_timeout = '5s'; UPDATE order_feed SET number = 1 WHERE number IS NULL";
    reader.batch_execute(number).await.unwrap();
    reader.batch_execute("COMMIT").await.unwrap();
    importing.await.unwrap().unwrap();
}

#[tokio::test]
async fn range_that_an_operator_has_chosen_stays() {
    let (store, database) = store().await;
    database.sql(
        "SELECT setval('webhook_endpoints_id_seq', 1000, false); \
        ALTER SEQUENCE orders_id_seq MINVALUE 5000 START 5000 RESTART",
    );
    let assigned = ["webhook_endpoints", "orders"].map(|table| (table.to_owned(), 7));
    let import = store.begin_import().await.unwrap();
    import.commit(&BTreeMap::from(assigned)).await.unwrap();
    assert_eq!(endpoint(&store).await, 1000);
    assert_eq!(create(&store, "F-1").await.unwrap().0, 5000);
}
