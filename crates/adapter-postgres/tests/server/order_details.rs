//! The view `order_details`, which operators read with SQL.

use std::collections::BTreeMap;

use contract_tests::{
    order_details::{expected, members},
    samples::{GOLDEN, NOW, WINDOW, new_order, order},
};
use domain::{
    order::OrderId,
    ports::{NewOrder, OrderRepo as _},
};
use serde_json::{Value, json};
use tokio_postgres::Client;

use super::{outsider, store};

/// Returns a session in a database that holds the order of a golden file.
async fn stored(golden: &str) -> (Client, OrderId) {
    let (store, database) = store().await;
    let golden: Value = serde_json::from_str(golden).unwrap();
    let order = NewOrder { order: order(golden["request"].clone()), ..new_order("F-1", NOW) };
    let id = store.create(&order, WINDOW).await.unwrap();
    let client = outsider(&database).await;
    client.batch_execute("SET timezone = 'UTC'").await.unwrap();
    (client, id)
}

/// Returns the columns of the only order that are not NULL.
async fn row(client: &Client) -> BTreeMap<String, Value> {
    let query = "SELECT json_strip_nulls(row_to_json(o))::text FROM order_details o";
    serde_json::from_str(client.query_one(query, &[]).await.unwrap().get(0)).unwrap()
}

#[tokio::test]
async fn view_has_every_field_as_requested() {
    for golden in GOLDEN {
        let (client, id) = stored(golden).await;
        let mut expected = expected(golden);
        for (column, value) in [
            ("order_id", json!(id.0)),
            ("client_id", json!(3)),
            ("api_key_id", json!(4)),
            ("order_status", json!("NEW")),
            ("is_test", json!(false)),
            ("created_at", json!("2026-11-21T12:00:00.123456Z")),
            ("updated_at", json!("2026-11-21T12:00:00.123456Z")),
        ] {
            expected.insert(column.to_owned(), value);
        }
        let mut row = row(&client).await;
        for (column, value) in &mut row {
            if let Value::String(text) = value {
                // PostgreSQL writes times with seconds, and UTC as an offset.
                *text = text.replace("+00:00", "Z");
                if column.ends_with("_time") {
                    *text = text.strip_suffix(":00").unwrap().to_owned();
                }
            }
        }
        assert_eq!(row, expected);
    }
}

#[tokio::test]
async fn every_member_of_details_has_a_column() {
    let golden = GOLDEN[2];
    let (client, _) = stored(golden).await;
    let complete = row(&client).await;
    for pointer in members(golden) {
        let path: Vec<&str> = pointer.split('/').skip(1).collect();
        client.batch_execute("BEGIN").await.unwrap();
        let remove = "UPDATE orders SET details = details::jsonb #- $1";
        assert_eq!(client.execute(remove, &[&path]).await.unwrap(), 1);
        assert_ne!(row(&client).await, complete, "no column of order_details has {pointer}");
        client.batch_execute("ROLLBACK").await.unwrap();
    }
}
