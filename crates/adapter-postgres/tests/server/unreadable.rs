//! Rows that the constraints cannot refuse, or that were written without them.

use contract_tests::samples::{NOW, WINDOW, api_key, document, maximal_order, new_order};
use domain::ports::{
    ApiKeyRepo, DeliveryQueue, NewOrder, OrderRepo, StoreError, UploadLedger as _,
};
use test_servers::postgres::Database;
use time::Duration;

use super::{one_line, store};

/// As in a table that was restored by hand.
fn drop_constraints(database: &Database<'_>) {
    database.sql(
        "DO $$ DECLARE it record; BEGIN
            FOR it IN SELECT conrelid::regclass AS owner, conname FROM pg_constraint WHERE contype = 'c' AND connamespace = 'public'::regnamespace LOOP
                EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', it.owner, it.conname);
            END LOOP;
        END $$",
    );
}

fn told<T>(outcome: Result<T, StoreError>) -> String {
    match outcome {
        Err(error @ StoreError::Internal(_)) => one_line(&error),
        Err(error) => panic!("{}", one_line(&error)),
        Ok(_) => panic!("it could be read"),
    }
}

#[tokio::test]
async fn a_row_that_cannot_be_read_back_is_named() {
    let (store, database) = store().await;
    let (document, key) = (document(), api_key(NOW));
    store.record(std::slice::from_ref(&document.key), NOW).await.unwrap();
    let order =
        NewOrder { order: maximal_order(), documents: vec![document], ..new_order("F-1", NOW) };
    let id = store.create(&order, WINDOW).await.unwrap();
    let key_id = store.add(&key, "jane").await.unwrap().0;
    drop_constraints(&database);

    for (change, column) in [
        ("time_zone_id = 'Mars/Olympus'", "time_zone_id"),
        ("requested_by = '{}'", "requested_by"),
        ("status = 'LOST'", "status"),
        ("signing_time_type = 'never'", "signing_time_type"),
        ("start_time = NULL", "start_time"),
        ("end_utc = NULL", "end_time"),
        ("file_number = ' x'", "file_number"),
        ("in_house_contact = '{\"name\": 5}'", "in_house_contact"),
        ("in_house_contact2 = '[]'", "in_house_contact2"),
        ("loan_officer = '5'", "loan_officer"),
        ("invoice_recipient = '{\"city\": []}'", "invoice_recipient"),
        ("invoice_fee = -1", "invoice_fee"),
        ("notary_pay = 1e30", "notary_pay"),
    ] {
        let name = change.split(' ').next().unwrap();
        database
            .sql(&format!("CREATE TABLE kept AS SELECT * FROM orders; UPDATE orders SET {change}"));
        let expected =
            format!("the store failed: row {} of orders cannot be read back: {column}", id.0);
        assert_eq!(told(OrderRepo::find(&store, id).await), expected, "{change}");
        database
            .sql(&format!("UPDATE orders SET {name} = (SELECT {name} FROM kept); DROP TABLE kept"));
    }
    assert!(OrderRepo::find(&store, id).await.unwrap().is_some());

    database.sql("UPDATE documents SET size = -1");
    assert_eq!(
        told(OrderRepo::find(&store, id).await),
        format!("the store failed: row {} of documents of order cannot be read back: size", id.0)
    );
    database.sql("UPDATE documents SET size = 1, sha256 = substr(sha256, 1, 31)");
    assert_eq!(
        told(OrderRepo::find(&store, id).await),
        format!("the store failed: row {} of documents of order cannot be read back: sha256", id.0)
    );
    database.sql("UPDATE api_keys SET hash = ''");
    let expected = format!("the store failed: row {key_id} of api_keys cannot be read back: hash");
    assert_eq!(told(ApiKeyRepo::find(&store, &key.lookup).await), expected);
    assert_eq!(told(ApiKeyRepo::list(&store).await), expected);
    database.sql("UPDATE deliveries SET attempts = -1");
    let delivery = database.sql("SELECT id FROM deliveries");
    let expected =
        format!("the store failed: row {delivery} of deliveries cannot be read back: attempts");
    assert_eq!(told(DeliveryQueue::list(&store, false, 1).await), expected);
    assert_eq!(told(store.lease(NOW, Duration::MINUTE, 1).await), expected);
}

#[tokio::test]
async fn a_value_that_no_program_can_hold_fails_its_call_and_no_other() {
    let (store, database) = store().await;
    let id = store
        .create(&NewOrder { order: maximal_order(), ..new_order("F-1", NOW) }, WINDOW)
        .await
        .unwrap();
    let other = store.create(&new_order("F-2", NOW), WINDOW).await.unwrap();
    drop_constraints(&database);
    for (change, column) in [
        ("created_at = 'infinity'", "created_at"),
        ("updated_at = '-infinity'", "updated_at"),
        ("start_utc = '294000-01-01'", "start_utc"),
        ("signing_date = 'infinity'", "signing_date"),
        ("signing_date = '10000-01-01'", "signing_date"),
        ("invoice_fee = 'NaN'", "invoice_fee"),
        ("invoice_fee = 'Infinity'", "invoice_fee"),
        ("notary_pay = '-Infinity'", "notary_pay"),
    ] {
        let name = change.split(' ').next().unwrap();
        database.sql(&format!(
            "CREATE TABLE kept AS SELECT * FROM orders; UPDATE orders SET {change} WHERE id = {}",
            id.0
        ));
        match OrderRepo::find(&store, id).await {
            Err(error @ StoreError::Internal(_)) => {
                assert!(one_line(&error).contains(column), "{change}: {}", one_line(&error))
            }
            other => panic!("{change}: {other:?}"),
        }
        assert!(OrderRepo::find(&store, other).await.unwrap().is_some());
        database.sql(&format!("UPDATE orders SET {name} = (SELECT {name} FROM kept WHERE kept.id = orders.id); DROP TABLE kept"));
    }
    assert!(OrderRepo::find(&store, id).await.unwrap().is_some());
}
