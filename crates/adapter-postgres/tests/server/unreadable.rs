//! Rows that the service cannot have written.

use contract_tests::samples::{
    NOW, WINDOW, add_note, api_key, delivery, dispatch, document, key_of, maximal_order, new_order,
    order_of, serve_beside_damaged,
};
use domain::{
    order::{Actor, OrderId},
    ports::{
        ApiKeyRepo, DatabaseTime as _, DeliveryQueue, NewOrder, OrderRepo, StoreError,
        UploadLedger as _, WebhookQueue,
    },
};
use time::Duration;

use super::{log_line, store};

fn internal<T>(outcome: Result<T, StoreError>) -> String {
    match outcome {
        Err(error @ StoreError::Internal(_)) => log_line(&error),
        Err(error) => panic!("{}", log_line(&error)),
        Ok(_) => panic!("the row was read"),
    }
}

#[tokio::test]
async fn unreadable_order_is_named_with_its_fault() {
    let (store, database) = store().await;
    let order = NewOrder { order: maximal_order(), ..new_order("F-1", NOW) };
    let id = store.create(&order, WINDOW).await.unwrap();
    let other = store.create(&new_order("F-2", NOW), WINDOW).await.unwrap();
    database.sql("ALTER TABLE orders DROP CONSTRAINT orders_status_check");
    let set = |member: &str, value: &str| {
        format!("details = jsonb_set(details::jsonb, '{{{member}}}', '{value}')")
    };
    for (change, fault) in [
        ("status = ''".to_owned(), "status"),
        ("status = repeat('x', 51)".to_owned(), "status"),
        ("starts_at = NULL".to_owned(), "`starts_at`"),
        ("file_number = ' x'".to_owned(), "`file_number`"),
        (set("zone", "\"Mars/Olympus\""), "`details` is not a readable order: member `zone`"),
        (set("signer,name", "5"), "`details` is not a readable order: "),
        ("details = details::jsonb - 'signer'".to_owned(), "missing field `signer`"),
        ("details = '[]'".to_owned(), "`details`"),
    ] {
        database.sql(&format!(
            "SET session_replication_role = replica; CREATE TABLE saved AS SELECT * FROM orders; \
            UPDATE orders SET {change} WHERE id = {}; RESET session_replication_role",
            id.0
        ));
        let message = internal(order_of(&store, id).await);
        let start = format!("the store failed: row {} of orders cannot be read: ", id.0);
        assert!(message.starts_with(&start) && message.contains(fault), "{change}: {message}");
        assert!(order_of(&store, other).await.unwrap().is_some());
        let column = change.split(' ').next().unwrap();
        database.sql(&format!(
            "UPDATE orders SET {column} = (SELECT {column} FROM saved WHERE saved.id = orders.id); \
            DROP TABLE saved"
        ));
    }
    assert!(order_of(&store, id).await.unwrap().is_some());
}

#[tokio::test]
async fn other_unreadable_rows_are_named() {
    let (store, database) = store().await;
    let (document, key) = (document(), api_key(NOW));
    store.record(&[key_of(&document)], NOW).await.unwrap();
    let order = NewOrder { documents: vec![document], ..new_order("F-1", NOW) };
    let id = store.create(&order, WINDOW).await.unwrap();
    let key_id = store.add(&key, "jane").await.unwrap().0;
    let failed = |row: i64, table: &str, column: &str| {
        format!("the store failed: row {row} of {table} cannot be read: {column}")
    };

    dispatch(&store, id, vec![delivery(0)]).await;
    database.sql("UPDATE documents SET size = -1");
    assert_eq!(internal(order_of(&store, id).await), failed(id.0, "documents of order", "size"));
    database.sql("UPDATE documents SET size = 1, sha256 = substr(sha256, 1, 31)");
    assert_eq!(internal(order_of(&store, id).await), failed(id.0, "documents of order", "sha256"));
    database.sql("UPDATE api_keys SET hash = ''");
    let expected = failed(key_id, "api_keys", "hash");
    assert_eq!(internal(ApiKeyRepo::find(&store, &key.lookup).await), expected);
    assert_eq!(internal(ApiKeyRepo::list(&store).await), expected);
    // Only the pause before a retry depends on it.
    database.sql("UPDATE deliveries SET attempts = -1");
    assert_eq!(DeliveryQueue::list(&store, false, 1).await.unwrap()[0].attempts, 0);
    assert_eq!(DeliveryQueue::lease(&store, NOW, Duration::MINUTE, 1).await.unwrap().len(), 1);
}

#[tokio::test]
async fn instant_beyond_every_answer_holds_up_nothing() {
    let (store, database) = store().await;
    let columns = [
        ("orders", "held_until"),
        ("orders", "ends_at"),
        ("orders", "starts_at"),
        ("orders", "touched_at"),
        ("orders", "created_at"),
        ("orders", "updated_at"),
        ("order_changes", "at"),
        ("order_notes", "at"),
        ("order_feed", "at"),
        ("events", "created_at"),
    ];
    let mut orders = Vec::new();
    for value in ["-infinity", "infinity", "12000-01-01Z"] {
        for (table, column) in columns {
            let number = format!("F-{}", orders.len());
            let id = store.create(&new_order(&number, NOW), WINDOW).await.unwrap();
            OrderRepo::change(&store, &add_note(id, Actor::Client, "Ring twice.")).await.unwrap();
            let key = if table == "orders" { "id" } else { "order_id" };
            database.sql(&format!(
                "UPDATE orders SET status = 'ASSIGNED' WHERE id = {0}; \
                UPDATE {table} SET {column} = '{value}' WHERE {key} = {0}",
                id.0
            ));
            orders.push(id);
        }
    }
    let whole = store.create(&new_order("whole", NOW), WINDOW).await.unwrap();
    orders.push(whole);
    serve_beside_damaged(&store, &orders, whole).await;
    database.sql(&format!("UPDATE orders SET created_at = 'infinity' WHERE id = {}", whole.0));
    assert!(store.times().await.unwrap().newest > Some(NOW));
}

/// The newest orders are no better than the oldest ones.
#[tokio::test]
async fn unreadable_order_is_named_wherever_it_is() {
    let (store, database) = store().await;
    let first = store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    database.sql(
        "INSERT INTO orders (client_id, api_key_id, signing_service_id, starts_at, created_at,
            updated_at, is_test, holds_file_number, file_number, status, details)
        SELECT client_id, api_key_id, signing_service_id, starts_at, created_at, updated_at,
            is_test, false, file_number, status, details FROM orders, generate_series(1, 1100)",
    );
    let last = OrderId(database.sql("SELECT max(id) FROM orders").parse().unwrap());
    let damage =
        format!("UPDATE orders SET details = '{{}}' WHERE id IN ({}, {})", first.0, last.0);
    database.sql(&damage);
    let (mut after, mut ends) = (OrderId(0), Vec::new());
    for order in [first, last] {
        let found = WebhookQueue::unreadable(&store, after, 10).await.unwrap();
        let [row] = &found.rows[..] else { panic!("{found:?}") };
        assert!(row.fault.starts_with(&format!("row {} of orders ", order.0)), "{row:?}");
        ends.push(found.looked_at);
        after = found.looked_at.unwrap_or(after);
    }
    assert_eq!((ends[0].is_some(), ends[1]), (true, None));
}
