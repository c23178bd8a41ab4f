//! The constraints of the database itself, because they must hold between processes.

use contract_tests::samples::{
    NOW, WINDOW, api_key, attempt, delivery, document, enqueue, idempotency_key, key_of,
    maximal_order, new_order,
};
use domain::{
    idempotency::IdempotentRequest,
    ports::{ApiKeyRepo as _, NewOrder, OrderRepo as _, UploadLedger as _},
};
use tokio_postgres::{
    Client,
    error::{DbError, SqlState},
};

use super::{outsider, store};

/// Returns a session in a database with one row of every kind, each with every value.
async fn full() -> Client {
    let (store, database) = store().await;
    let (document, spare) = (document(), document());
    store.record(&[key_of(&document), key_of(&spare)], NOW).await.unwrap();
    // Free at once, so that tests may change it.
    let idempotent_request = Some(IdempotentRequest {
        attempt: attempt(&idempotency_key(1, "key"), 7),
        kept_until: NOW,
    });
    let documents = vec![document];
    let order = NewOrder {
        order: maximal_order(),
        documents,
        idempotent_request,
        ..new_order("maximal", NOW)
    };
    enqueue(&store, &order, vec![delivery(0)]).await;
    // The event of that order has become a delivery.
    store.create(&new_order("with an event", NOW), WINDOW).await.unwrap();
    store.add(&api_key(NOW), "jane").await.unwrap();
    outsider(&database).await
}

async fn rejection(client: &Client, statement: &str) -> DbError {
    let rejected = client.batch_execute(statement).await.expect_err(statement);
    rejected.as_db_error().unwrap_or_else(|| panic!("{statement}: {rejected}")).clone()
}

#[tokio::test]
async fn keys_and_references_hold() {
    let client = full().await;
    for (statement, code) in [
        ("UPDATE documents SET order_id = order_id + 100", SqlState::FOREIGN_KEY_VIOLATION),
        ("UPDATE api_keys SET client_id = id + 100", SqlState::FOREIGN_KEY_VIOLATION),
        ("UPDATE key_events SET api_key_id = api_key_id + 100", SqlState::FOREIGN_KEY_VIOLATION),
        ("UPDATE key_events SET successor_id = api_key_id + 100", SqlState::FOREIGN_KEY_VIOLATION),
        ("DELETE FROM api_keys", SqlState::FOREIGN_KEY_VIOLATION),
        ("DELETE FROM orders", SqlState::RESTRICT_VIOLATION),
        ("TRUNCATE orders CASCADE", SqlState::RESTRICT_VIOLATION),
        (
            "INSERT INTO api_keys (name, lookup, hash, issued_at, is_test) \
            SELECT name, lookup, hash, issued_at, is_test FROM api_keys",
            SqlState::UNIQUE_VIOLATION,
        ),
        // The object of one document becomes that of another document.
        (
            "INSERT INTO uploads (key, recorded_at) SELECT key, now() FROM documents; \
            INSERT INTO documents SELECT order_id, position + 1, key, name, name_as_sent, \
            media_type, size, sha256 FROM documents",
            SqlState::UNIQUE_VIOLATION,
        ),
        // A second document gets the position of the first.
        (
            "INSERT INTO documents SELECT documents.order_id, documents.position, uploads.key, name, name_as_sent, \
            media_type, size, sha256 FROM documents, uploads",
            SqlState::UNIQUE_VIOLATION,
        ),
    ] {
        let rejected = rejection(&client, statement).await;
        assert_eq!(*rejected.code(), code, "{statement}: {rejected}");
    }
}

#[tokio::test]
async fn one_order_holds_a_file_number() {
    let client = full().await;
    let copy = |is_test: &str, holds: bool| {
        format!(
            "INSERT INTO orders (client_id, api_key_id, signing_service_id, created_at, \
            updated_at, is_test, holds_file_number, file_number, status, details) SELECT \
            client_id, api_key_id, signing_service_id, created_at, updated_at, {is_test}, {holds}, \
            file_number, status, details FROM orders LIMIT 1"
        )
    };
    client.batch_execute(&copy("is_test", false)).await.unwrap();
    client.batch_execute(&copy("NOT is_test", true)).await.unwrap();
    let rejected = rejection(&client, &copy("is_test", true)).await;
    assert_eq!(
        (rejected.code(), rejected.constraint()),
        (&SqlState::UNIQUE_VIOLATION, Some("orders_file_number"))
    );
}

#[tokio::test]
async fn status_has_1_to_50_characters_without_control_characters() {
    let client = full().await;
    for status in ["x", "ASSIGNED", &"ß".repeat(50)] {
        client.execute("UPDATE orders SET status = $1", &[&status]).await.unwrap();
    }
    for status in ["", &"x".repeat(51), "a\nb", "\u{85}"] {
        let rejected = rejection(&client, &format!("UPDATE orders SET status = '{status}'")).await;
        assert_eq!(*rejected.code(), SqlState::CHECK_VIOLATION, "{rejected}");
    }
}

/// Their triggers would run with the rights of the owner.
#[tokio::test]
async fn history_is_not_written_to_temporary_tables() {
    let client = full().await;
    let hidden = "CREATE TEMP TABLE order_changes (LIKE public.order_changes INCLUDING ALL); \
        CREATE TEMP TABLE events (LIKE public.events INCLUDING ALL)";
    client.batch_execute(hidden).await.unwrap();
    let count = "SELECT count(*) FROM public.order_changes, public.events WHERE change IS NOT NULL";
    let changed = client.execute("UPDATE orders SET status = 'HIDDEN' WHERE id = 1", &[]).await;
    assert_eq!(changed.unwrap(), 1);
    assert_eq!(client.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 1);
}

#[tokio::test]
async fn document_adopts_a_recorded_upload() {
    let client = full().await;
    client.batch_execute("UPDATE uploads SET condemned = true").await.unwrap();
    for key in ["'ff/unknown'", "(SELECT key FROM uploads)"] {
        let document = format!(
            "INSERT INTO documents SELECT order_id, 1, {key}, name, name_as_sent, media_type, \
            size, sha256 FROM documents"
        );
        let rejected = rejection(&client, &document).await;
        let (code, message) = (rejected.code().code(), rejected.message());
        assert!(code == "NO001" && message.starts_with("NO001: "), "{key}: {rejected}");
    }
}

#[tokio::test]
async fn idempotency_key_in_use_is_kept() {
    let client = full().await;
    let later = "UPDATE idempotency_keys SET kept_until = taken_at + interval '1 day'";
    client.batch_execute(later).await.unwrap();
    let rejected = rejection(&client, later).await;
    let (code, message) = (rejected.code().code(), rejected.message());
    assert!(code == "NO002" && message.starts_with("NO002: "), "{rejected}");
}
