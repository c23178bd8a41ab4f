//! The view `order_details` has every field of an order as a column.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use adapter_sqlite::SqliteStore;
use contract_tests::{
    order_details,
    samples::{GOLDEN, NOW, WINDOW, new_order, order},
};
use diesel::{
    Connection as _, RunQueryDsl as _, connection::SimpleConnection as _, sql_types::Text,
    sqlite::SqliteConnection,
};
use domain::ports::{NewOrder, OrderRepo as _};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A database with the order of a golden file.
struct Database {
    connection: SqliteConnection,
    _directory: TempDir,
}

impl Database {
    async fn with_order(golden: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("orders.db");
        let store = SqliteStore::open_patiently(&path).unwrap();
        store.migrate().await.unwrap();
        let golden: Value = serde_json::from_str(golden).unwrap();
        let new = NewOrder { order: order(golden["request"].clone()), ..new_order("F-1", NOW) };
        store.create(&new, WINDOW).await.unwrap();
        let connection = SqliteConnection::establish(path.to_str().unwrap()).unwrap();
        Self { connection, _directory: directory }
    }

    fn query(&mut self, sql: &str) -> String {
        diesel::dsl::sql::<Text>(sql).get_result(&mut self.connection).unwrap()
    }

    /// Returns the row of the order without `NULL`.
    fn row(&mut self) -> BTreeMap<String, Value> {
        let members = self.query(
            "SELECT group_concat(format('''%s'', %s', name, name))
                FROM pragma_table_info('order_details')",
        );
        let row = self.query(&format!("SELECT json_object({members}) FROM order_details"));
        let mut row: BTreeMap<String, Value> = serde_json::from_str(&row).unwrap();
        row.retain(|_, value| !value.is_null());
        row
    }
}

/// Returns a value as SQLite has it.
fn in_sqlite(value: Value) -> Value {
    match value {
        Value::Bool(flag) => json!(i32::from(flag)),
        // `2026-12-01T20:30:00Z`.
        Value::String(text) if text.len() == 20 && text.ends_with('Z') => {
            json!(text.replace('T', " ").trim_end_matches('Z'))
        }
        value => value,
    }
}

#[tokio::test]
async fn view_shows_every_field_of_a_request() {
    let own = json!({
        "order_id": 1, "client_id": 3, "api_key_id": 4, "order_status": "NEW", "is_test": 0,
        "created_at": "2026-11-21 12:00:00", "updated_at": "2026-11-21 12:00:00"
    });
    for golden in GOLDEN {
        let fields = order_details::expected(golden).into_iter();
        let mut expected: BTreeMap<_, _> =
            fields.map(|(column, value)| (column, in_sqlite(value))).collect();
        expected.extend(own.as_object().unwrap().clone());
        assert_eq!(Database::with_order(golden).await.row(), expected);
    }
}

#[tokio::test]
async fn every_member_of_details_has_a_column() {
    let mut database = Database::with_order(GOLDEN[2]).await;
    let complete = database.row();
    for pointer in order_details::members(GOLDEN[2]) {
        let path = pointer.replace('/', ".");
        let remove = format!("BEGIN; UPDATE orders SET details = json_remove(details, '${path}')");
        database.connection.batch_execute(&remove).unwrap();
        assert_ne!(database.row(), complete, "no column of order_details has {pointer}");
        database.connection.batch_execute("ROLLBACK").unwrap();
    }
}
