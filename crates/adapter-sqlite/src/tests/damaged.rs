//! Rows that another program has damaged.

use contract_tests::samples::{add_note, serve_beside_damaged};
use domain::{
    order::Actor,
    ports::{OrderRepo, WebhookQueue},
};

use super::{reads::many_orders, *};

/// One after the other, so that each has a change by SQL, a note, and events.
async fn create(store: &SqliteStore, directory: &TempDir, number: usize) -> OrderId {
    let id = store.create(&new_order(&format!("F-{number}"), NOW), WINDOW).await.unwrap();
    OrderRepo::change(store, &add_note(id, Actor::Client, "Ring twice.")).await.unwrap();
    let assign = format!("UPDATE orders SET status = 'ASSIGNED' WHERE id = {}", id.0);
    outsider(&path(directory)).batch_execute(&assign).unwrap();
    id
}

/// Damages one order after the other, and serves them all beside one that nobody has damaged.
async fn serve_all(damages: &[(&str, &str)]) {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    let whole = create(&store, &directory, 0).await;
    let mut orders = vec![whole];
    for (number, (table, damage)) in damages.iter().enumerate() {
        let id = create(&store, &directory, number + 1).await;
        let key = if *table == "orders" { "id" } else { "order_id" };
        let damage = format!("UPDATE {table} SET {damage} WHERE {key} = {}", id.0);
        outsider(&path(&directory)).batch_execute(&damage).unwrap();
        orders.push(id);
    }
    let service = "INSERT INTO signing_services VALUES (42, CAST(x'4aff' AS TEXT), 'a@b.example')";
    outsider(&path(&directory)).batch_execute(service).unwrap();
    serve_beside_damaged(&store, &orders, whole).await;
}

#[tokio::test]
async fn instant_beyond_every_answer_holds_up_nothing() {
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
    for value in [i64::MIN, i64::MAX] {
        let damages = columns.map(|(table, column)| (table, format!("{column} = {value}")));
        let damages: Vec<_> = damages.iter().map(|(table, damage)| (*table, &**damage)).collect();
        serve_all(&damages).await;
    }
}

#[tokio::test]
async fn text_that_is_not_utf_8_holds_up_nothing() {
    serve_all(&[
        ("orders", "details = CAST(x'7bff7d' AS TEXT)"),
        ("orders", "signing_date = CAST(x'ff' AS TEXT)"),
        ("orders", "search_text = CAST(x'ff' AS TEXT)"),
        ("order_changes", "actor = CAST(x'ff' AS TEXT)"),
        ("order_notes", "author = CAST(x'ff' AS TEXT)"),
        ("order_feed", "kind = CAST(x'ff' AS TEXT)"),
        ("events", "content = CAST(x'ff' AS TEXT)"),
    ])
    .await;
}

/// The newest orders are no better than the oldest ones.
#[tokio::test]
async fn unreadable_order_is_named_wherever_it_is() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    many_orders(&directory, 2_099);
    let damage = "UPDATE orders SET details = '{}' WHERE id IN (1, 2050);
        UPDATE orders SET erased_at = created_at WHERE id BETWEEN 2 AND 1500";
    outsider(&path(&directory)).batch_execute(damage).unwrap();
    for (after, named, looked_at) in
        [(0, Some(1), Some(1_000)), (1_000, None, Some(2_000)), (2_000, Some(2_050), None)]
    {
        let found = WebhookQueue::unreadable(&store, OrderId(after), 10).await.unwrap();
        assert_eq!(found.looked_at, looked_at.map(OrderId));
        assert_eq!(found.rows.len(), usize::from(named.is_some()), "{:?}", found.rows);
        let name = named.map(|id: i64| format!("row {id} of orders "));
        assert!(name.is_none_or(|name| found.rows[0].fault.starts_with(&name)), "{:?}", found.rows);
    }
}
