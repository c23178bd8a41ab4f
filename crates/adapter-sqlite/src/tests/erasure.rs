//! Erasure leaves nothing of an order in the files of the database.

use contract_tests::samples::{
    add_note, condemned, delivery, enqueue, key_of, maximal_request, object_key, order, settle,
};
use domain::{
    delivery::NewDelivery,
    document::StoredDocument,
    order::{Actor, EmailAddress},
    ports::{MaybeErased, OrderAdmin as _, Settlement},
};
use serde_json::{Value, json};
use time::Duration;

use super::*;
use crate::{Rewrite, rewrite};

/// A text that is in no other data.
const MARKER: &str = "mkerasedzq";

/// Puts the marker into every text of a request that can have it.
fn mark(request: &mut Value, whole: &Value, path: &str) {
    let Some(members) = whole.pointer(path).and_then(Value::as_object) else { return };
    for (name, member) in members {
        let path = format!("{path}/{name}");
        mark(request, whole, &path);
        let marked = match member {
            Value::String(text) if text.contains('@') => format!("{MARKER}-{name}@example.com"),
            Value::String(text) => MARKER.repeat(1 + text.chars().count() / 3 / MARKER.len()),
            _ => continue,
        };
        let old = request.pointer_mut(&path).unwrap().take();
        *request.pointer_mut(&path).unwrap() = json!(marked);
        let parsed = serde_json::from_value::<domain::order::OrderRequest>(request.clone());
        if parsed.unwrap().parse().is_err() {
            *request.pointer_mut(&path).unwrap() = old;
        }
    }
}

fn marked_deliveries(number: usize) -> Vec<NewDelivery> {
    let address = EmailAddress::try_from(format!("{MARKER}-{number}@example.com")).unwrap();
    (0..3).map(|number| NewDelivery { recipient: address.clone(), ..delivery(number) }).collect()
}

fn marked_order(number: usize) -> NewOrder {
    let whole = maximal_request();
    let mut request = whole.clone();
    mark(&mut request, &whole, "");
    request["signingDetailsFormData"]["fileNumber"] = json!(format!("{MARKER} {number}"));
    assert!(request.to_string().matches(MARKER).count() > 30, "{request}");
    let document = StoredDocument {
        name: format!("{MARKER}.pdf"),
        name_as_sent: format!("{MARKER} as sent.pdf"),
        ..document()
    };
    NewOrder {
        order: order(request),
        documents: vec![document.clone(), StoredDocument { key: Some(object_key()), ..document }],
        ..new_order("F", NOW)
    }
}

/// Returns how often the marker is in each file of the database.
fn traces(directory: &TempDir) -> Vec<(String, usize)> {
    let files = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap());
    let count = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(MARKER.len()).filter(|part| *part == MARKER.as_bytes()).count()
    };
    files
        .map(|file| (file.file_name().into_string().unwrap(), count(&file.path())))
        .filter(|(_, count)| *count > 0)
        .collect()
}

#[tokio::test]
async fn erased_order_leaves_no_byte() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    let mut marked = Vec::new();
    for number in 0..12 {
        // Other orders share its pages.
        let other = NewOrder { order: order(maximal_request()), ..new_order("F", NOW) };
        let at = NOW + Duration::MINUTE * i32::try_from(number).unwrap();
        enqueue(&store, &NewOrder { created_at: at, ..other }, vec![delivery(0)]).await;
        let order = marked_order(number);
        let keys: Vec<_> = order.documents.iter().map(key_of).collect();
        store.record(&keys, NOW).await.unwrap();
        marked.push(enqueue(&store, &order, marked_deliveries(number)).await);
    }
    // Other systems rewrite the rows, and mails are delivered, fail and wait.
    on_writer(
        &store,
        "UPDATE orders SET status = 'ASSIGNED AND A LONGER STATUS', notary_id = 7,
            notary = CASE WHEN details LIKE '%mkerasedzq%' THEN '{\"name\":\"mkerasedzq\"}' END",
    )
    .await;
    for &order_id in &marked {
        let note = add_note(order_id, Actor::Service, &MARKER.repeat(100));
        store.change(&note).await.unwrap();
    }
    let leases = store.lease(NOW, Duration::MINUTE, 20).await.unwrap();
    for (number, lease) in leases.iter().enumerate() {
        let settlement = match number % 3 {
            0 => Settlement::Done,
            1 => Settlement::RetryAt { due_at: NOW, error: format!("{MARKER} refused") },
            _ => Settlement::Fail { at: NOW, error: format!("{MARKER} unknown") },
        };
        settle(&store, lease, &settlement).await;
    }
    assert!(!traces(&directory).is_empty());
    for id in &marked {
        condemned(store.erase(*id, NOW, None).await.unwrap());
        assert_eq!(
            domain::ports::OrderAdmin::order(&store, *id).await.unwrap(),
            Some(MaybeErased::Erased)
        );
    }
    // A failed delivery of a marked order was erased with it; its error text too.
    assert_eq!(rewrite(&path(&directory)).unwrap(), Rewrite::Done);
    assert_eq!(traces(&directory), []);
    drop(store);
    assert_eq!(traces(&directory), []);
}

#[tokio::test]
async fn log_in_use_is_not_emptied_and_loses_nothing() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    on_writer(&store, "PRAGMA user_version = 1").await;
    let mut reader = outsider(&path(&directory));
    reader.batch_execute("BEGIN; SELECT count(*) FROM orders").unwrap();
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    assert_eq!(rewrite(&path(&directory)).unwrap(), Rewrite::LogInUse);
    reader.batch_execute("COMMIT").unwrap();
    assert_eq!(rewrite(&path(&directory)).unwrap(), Rewrite::Done);
    // The page with the mark alone.
    let log = std::fs::metadata(directory.path().join("orders.db-wal")).unwrap();
    assert!(log.len() < 2 * 4_096, "{log:?}");
    assert_eq!(store.stats().await.unwrap().events, 1);
}

#[tokio::test]
async fn database_is_rewritten_once_after_an_erasure() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    let id = store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    let is_rewritten = || {
        // SQLite changes the counter in the head of the file.
        let file = || std::fs::read(path(&directory)).unwrap();
        outsider(&path(&directory)).batch_execute("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        let before = file();
        let rewrite = rewrite(&path(&directory)).unwrap();
        assert_eq!(rewrite == Rewrite::Done, before != file());
        rewrite == Rewrite::Done
    };
    assert!(!is_rewritten());
    condemned(store.erase(id, NOW, None).await.unwrap());
    assert!(is_rewritten());
    assert!(!is_rewritten());
}
