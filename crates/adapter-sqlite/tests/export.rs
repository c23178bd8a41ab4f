//! Rows are exported in the form that PostgreSQL reads.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, path::Path};

use adapter_sqlite::{EXPORTED_TABLES, Export, ExportError, SqliteStore};
use contract_tests::samples::{
    CLIENT, LIVE, NOW, WINDOW, access, add_note, api_key, attempt, delivery, dispatch, document,
    enqueue, idempotency_key, key_of, new_endpoint, new_invitation, new_order, new_person,
    object_key,
};
use diesel::{
    Connection as _, RunQueryDsl as _, connection::SimpleConnection as _, dsl::sql,
    sql_types::Text, sqlite::SqliteConnection,
};
use domain::{
    access::RunId,
    api_key::{ApiKeyId, ClientId, NewApiKey},
    idempotency::IdempotentRequest,
    order::{Actor, OrderId, OrderStatus, SigningServiceId},
    person::Role,
    ports::{
        AccessLog, ApiKeyRepo, DeliveryQueue, NewOrder, OrderRepo as _, OrderUpdate, RejectedLog,
        UploadLedger as _, WebhookQueue as _,
    },
    rejected::Rejected,
    signing_service::SigningService,
    webhook::EndpointPrecondition,
};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, macros::datetime};

fn rows(path: &Path, table: &'static str, limit: usize) -> Vec<Value> {
    let mut export = Export::begin(path).unwrap();
    let (mut rows, mut last) = (Vec::new(), None::<String>);
    while let Some(page) = export.page(table, last.as_deref(), limit).unwrap() {
        let page_rows: Vec<Value> = serde_json::from_str(&page.rows).unwrap();
        assert_eq!(page_rows.len() as u64, page.count);
        rows.extend(page_rows);
        last = Some(page.last);
    }
    rows
}

fn rejected(requests: u64) -> Rejected {
    Rejected {
        key: ApiKeyId(1),
        at: NOW + Duration::MINUTE * i32::try_from(requests).unwrap(),
        code: "validation_failed".to_owned(),
        run: RunId(7),
        requests,
        faults: BTreeMap::new(),
        request_ids: Vec::new(),
    }
}

#[tokio::test]
async fn every_row_is_exported_once_in_pages() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("orders.db");
    let store = SqliteStore::open_patiently(&path).unwrap();
    store.migrate().await.unwrap();
    for _ in 0..CLIENT.0 {
        ApiKeyRepo::add(&store, &api_key(NOW), "jane").await.unwrap();
    }
    for number in 0..5 {
        let documents = vec![document(), document()];
        let keys: Vec<_> = documents.iter().map(key_of).collect();
        store.record(&keys, NOW).await.unwrap();
        let key = idempotency_key(1 + number % 2, &format!("key {number}"));
        let idempotent_request =
            IdempotentRequest { attempt: attempt(&key, 7), kept_until: NOW + Duration::DAY };
        let order = NewOrder {
            documents,
            idempotent_request: Some(idempotent_request),
            ..new_order(&format!("F-{number}"), NOW)
        };
        let id = store.create(&order, WINDOW).await.unwrap();
        if number < 4 {
            dispatch(&store, id, vec![delivery(0), delivery(1)]).await;
            let mails = DeliveryQueue::list(&store, false, 100).await.unwrap();
            let own = mails.iter().find(|mail| mail.order_id == id).unwrap();
            let begun = DeliveryQueue::begin(&store, &[(own.id, NOW)], NOW, 0).await.unwrap();
            assert_eq!(begun.len(), 1);
        }
    }
    for number in 1..4 {
        let update = OrderUpdate {
            owner: LIVE,
            only_service: None,
            id: OrderId(number),
            expected: None,
            status: Some(OrderStatus::SIGNED),
            notary_id: None,
            notary: None,
            at: NOW + Duration::SECOND,
            actor: Actor::Service,
            reason: None,
            access: None,
        };
        assert!(store.update(&update).await.unwrap().is_some());
        let note = add_note(OrderId(number), Actor::Client, "x");
        store.change(&note).await.unwrap();
        let (id, name) = (SigningServiceId(number), "x".to_owned());
        assert!(
            domain::ports::ServiceRepo::add(&store, &SigningService { id, name, emails: vec![] })
                .await
                .unwrap()
        );
    }
    store.record(&[object_key()], NOW).await.unwrap();
    for _ in 0..3 {
        domain::ports::PersonRepo::invite(&store, &new_person(Role::Member), &new_invitation())
            .await
            .unwrap();
    }
    for _ in 0..3 {
        let endpoint = domain::ports::WebhookRepo::add(&store, &new_endpoint(LIVE), 10)
            .await
            .unwrap()
            .unwrap();
        store
            .add_test(LIVE, endpoint.id, "key", &EndpointPrecondition::NONE, NOW)
            .await
            .unwrap()
            .unwrap();
    }
    let accesses: Vec<_> = (1..=4).map(|number| access(number, OrderId(1))).collect();
    AccessLog::store(&store, &accesses).await.unwrap();
    store.end(RunId(7), 0, NOW).await.unwrap();
    let rejected: Vec<_> = (1..=3).map(rejected).collect();
    RejectedLog::store(&store, &rejected).await.unwrap();
    drop(store);
    let counts = [3, 3, 3, 5, 3, 3, 10, 1, 7, 8, 4, 1, 3, 3, 5, 4, 2, 6, 0, 3, 3, 3, 0, 0];
    assert_eq!(counts.len(), EXPORTED_TABLES.len());
    for (table, count) in EXPORTED_TABLES.into_iter().zip(counts) {
        let all = rows(&path, table, 100);
        assert_eq!(all.len(), count, "{table}");
        assert_eq!(rows(&path, table, 2), all, "{table}");
    }
}

#[tokio::test]
async fn every_table_is_exported_but_those_of_the_database_itself() {
    const OWN: [&str; 5] = [
        "__diesel_schema_migrations",
        "ceremonies",
        "installation",
        "later_migrations",
        "sessions",
    ];
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("orders.db");
    let store = SqliteStore::open_patiently(&path).unwrap();
    store.migrate().await.unwrap();
    drop(store);
    let mut connection = SqliteConnection::establish(path.to_str().unwrap()).unwrap();
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'";
    let mut tables: Vec<String> = sql::<Text>(tables).load(&mut connection).unwrap();
    let mut exported = [&EXPORTED_TABLES[..], &OWN].concat();
    tables.sort();
    exported.sort_unstable();
    assert_eq!(tables, exported);
}

#[tokio::test]
async fn values_have_the_text_forms_of_postgresql() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("orders.db");
    let store = SqliteStore::open_patiently(&path).unwrap();
    store.migrate().await.unwrap();
    let instants = [
        (NOW, "2026-11-21 12:00:00.123456+00"),
        (datetime!(1969-12-31 23:59:59.999999 UTC), "1969-12-31 23:59:59.999999+00"),
        (datetime!(0001-01-01 00:00:00 UTC), "0001-01-01 00:00:00.000000+00"),
        (datetime!(0000-12-31 23:59:59.999999 UTC), "0001-12-31 23:59:59.999999+00 BC"),
        (datetime!(9999-12-31 23:59:59.999999 UTC), "9999-12-31 23:59:59.999999+00"),
    ];
    for (number, (created_at, _)) in instants.into_iter().enumerate() {
        let created_at: OffsetDateTime = created_at;
        let order = new_order(&format!("F-{number}"), created_at);
        enqueue(&store, &order, vec![delivery(number)]).await;
    }
    let leased = DeliveryQueue::lease(&store, NOW, Duration::MINUTE, 1).await.unwrap();
    let mail = leased[0].delivery.id;
    assert_eq!(DeliveryQueue::begin(&store, &[(mail, NOW)], NOW, 0).await.unwrap().len(), 1);
    store.add(&api_key(NOW), "jane").await.unwrap();
    drop(store);
    for (row, (_, expected)) in rows(&path, "orders", 10).iter().zip(instants) {
        assert_eq!(row["created_at"], json!(expected));
    }
    assert!(rows(&path, "deliveries", 10).iter().all(|row| row["leased_until"].is_null()));
    let order = &rows(&path, "orders", 1)[0];
    assert_eq!(order["details"]["zone"], "America/Chicago");
    let count = &rows(&path, "recipient_mails", 1)[0];
    assert_eq!(
        (&count["hour"], &count["mails"]),
        (&json!("2026-11-21 12:00:00.000000+00"), &json!(1))
    );
    let hash = rows(&path, "api_keys", 1)[0]["hash"].as_str().unwrap().to_owned();
    assert!(hash.starts_with(r"\x") && hash.len() == 66, "{hash}");
}

/// A service without requests changes nothing, but may do so at any time.
#[tokio::test]
async fn database_in_use_is_not_exported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("orders.db");
    let idle = SqliteStore::open_patiently(&path).unwrap();
    idle.migrate().await.unwrap();
    assert!(matches!(Export::begin(&path), Err(ExportError::InUse)));
    drop(idle);
    let export = Export::begin(&path).unwrap();
    let error = SqliteStore::open_patiently(&path).err().unwrap();
    assert!(domain::ports::error_chain(&error).contains("database is locked"), "{error:?}");
    drop(export);
    SqliteStore::open_patiently(&path).unwrap();
}

/// Another program may delete rows without their children.
#[tokio::test]
async fn rows_whose_parent_is_gone_are_counted_and_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("orders.db");
    let store = SqliteStore::open_patiently(&path).unwrap();
    store.migrate().await.unwrap();
    // The third is the client of the samples. The second is another one, with a further key.
    for id in 1..=CLIENT.0 {
        assert_eq!(ApiKeyRepo::add(&store, &api_key(NOW), "by").await.unwrap().0, id);
    }
    let further = NewApiKey { client: Some(ClientId(2)), ..api_key(NOW) };
    ApiKeyRepo::add(&store, &further, "by").await.unwrap();
    for number in 0..2 {
        let documents = vec![document()];
        store.record(&[key_of(&documents[0])], NOW).await.unwrap();
        let key = idempotency_key(1, &format!("key {number}"));
        let idempotent_request =
            Some(IdempotentRequest { attempt: attempt(&key, 7), kept_until: NOW + Duration::DAY });
        let order =
            NewOrder { documents, idempotent_request, ..new_order(&format!("F-{number}"), NOW) };
        let id = store.create(&order, WINDOW).await.unwrap();
        dispatch(&store, id, vec![delivery(number)]).await;
        let endpoint = domain::ports::WebhookRepo::add(&store, &new_endpoint(LIVE), 10)
            .await
            .unwrap()
            .unwrap();
        store
            .add_test(LIVE, endpoint.id, "key", &EndpointPrecondition::NONE, NOW)
            .await
            .unwrap()
            .unwrap();
    }
    assert_eq!(store.orphans().await.unwrap(), []);
    let mut other = SqliteConnection::establish(path.to_str().unwrap()).unwrap();
    other
        .batch_execute(
            "PRAGMA foreign_keys = OFF; DROP TRIGGER orders_stay; DELETE FROM orders WHERE id = 2;
            DELETE FROM webhook_endpoints WHERE id = 2; DELETE FROM api_keys WHERE id = 2;
            INSERT INTO webhook_endpoints (party, is_test, url, events, secret, created_at)
                VALUES (2, 0, 'https://example.com', '', x'', 0), (-2, 0, 'https://example.com', '', x'', 0);
            INSERT INTO webhook_deliveries
                (endpoint_id, created_at, due_at, event, message_key)
                SELECT id, 0, 0, 'webhook.test', 'k' FROM webhook_endpoints WHERE id > 2;
            INSERT INTO orders (id, client_id, api_key_id, signing_service_id, created_at, updated_at,
                    is_test, holds_file_number, file_number, status, details)
                SELECT 9, 2, 2, signing_service_id, created_at, updated_at, is_test, 0, file_number,
                    status, details FROM orders",
        )
        .unwrap();
    let orphans = [
        "documents without their order",
        "mails without their order",
        "webhooks without their endpoint or order",
        "idempotency keys without their order or client",
        "orders without their client",
        "keys without their client",
        "endpoints without their client",
        "lines of a trail without their key",
    ];
    let mut found = store.orphans().await.unwrap();
    found.sort();
    let number = |orphans| match orphans {
        "webhooks without their endpoint or order" | "lines of a trail without their key" => 2,
        _ => 1,
    };
    let mut expected = orphans.map(|orphans| (orphans.to_owned(), number(orphans)));
    expected.sort();
    assert_eq!(found, expected);
    drop((store, other));
    for (table, kept) in [
        ("documents", 1),
        ("deliveries", 1),
        ("webhook_endpoints", 2),
        ("webhook_deliveries", 2),
        ("idempotency_keys", 1),
        ("api_keys", 2),
        ("key_events", 2),
        ("orders", 2),
    ] {
        assert_eq!(rows(&path, table, 10).len(), kept, "{table}");
    }
    let assigned = Export::begin(&path).unwrap().assigned_identifiers().unwrap();
    assert_eq!(assigned["webhook_endpoints"], 4, "the identifier of a removed row stays taken");
}
