//! Rows that the service cannot have written.

use contract_tests::samples::{
    NOW, WINDOW, api_key, delivery, dispatch, document, key_of, maximal_order, new_order, order_of,
};
use domain::ports::{
    ApiKeyRepo, DeliveryQueue, NewOrder, OrderRepo as _, StoreError, UploadLedger as _,
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
        ("created_at = 'infinity'".to_owned(), "'created_at'"),
        ("updated_at = '-infinity'".to_owned(), "'updated_at'"),
        ("starts_at = '294000-01-01'".to_owned(), "'starts_at'"),
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
    assert_eq!(store.lease(NOW, Duration::MINUTE, 1).await.unwrap().len(), 1);
}
