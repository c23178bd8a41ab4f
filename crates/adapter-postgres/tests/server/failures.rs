//! Errors for callers and for the log.

use contract_tests::samples::{
    NOW, WINDOW, api_key, attempt, document, idempotency_key, key_of, new_order,
};
use domain::{
    idempotency::IdempotentRequest,
    ports::{ApiKeyRepo as _, NewOrder, OrderRepo as _, StoreError, UploadLedger as _, WriteError},
};
use test_servers::postgres::{Cluster, Database, PASSWORD, SUPERUSER};
use time::Duration;

use super::{closed_port, create, log_line, not_created, open, store, unavailable, url_through};

/// Makes every order fail with an error code of PostgreSQL.
fn reject_orders(database: &Database<'_>, code: &str) {
    database.sql(&format!(
        "CREATE OR REPLACE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS \
        $$ BEGIN RAISE 'no' USING ERRCODE = '{code}'; END $$; \
        CREATE OR REPLACE TRIGGER reject BEFORE INSERT ON orders \
        FOR EACH ROW EXECUTE FUNCTION reject()"
    ));
}

/// diesel does not tell an error of class 22 from a full disk. A lost connection is neither.
#[tokio::test]
async fn answer_may_be_of_the_data_and_an_outage_is_not() {
    let (store, database) = store().await;
    for code in ["22003", "22021", "54000", "53100"] {
        database.sql(&format!(
            "CREATE OR REPLACE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS \
            $$ BEGIN RAISE 'no' USING ERRCODE = '{code}'; END $$; \
            CREATE OR REPLACE TRIGGER reject BEFORE INSERT ON uploads \
            FOR EACH ROW EXECUTE FUNCTION reject()"
        ));
        let error = store.record(&[key_of(&document())], NOW).await.unwrap_err();
        assert!(error.may_be_of_data(), "{code}: {error:?}");
        assert!(matches!(error, StoreError::Unavailable(_)), "{code}");
        assert!(log_line(&error).ends_with(": no"), "{code}: {}", log_line(&error));
    }
    let nowhere = open("postgres://127.0.0.1:1/none", 1);
    let error = nowhere.record(&[key_of(&document())], NOW).await.unwrap_err();
    assert!(!error.may_be_of_data(), "{error:?}");
}

#[tokio::test]
async fn server_state_is_unavailable_and_bad_row_internal() {
    let (store, database) = store().await;
    // PostgreSQL, appendix A "Error codes".
    for (code, meaning) in [
        ("53100", "disk_full"),
        ("55P03", "lock_not_available"),
        ("57014", "query_canceled"),
        ("57P01", "admin_shutdown"),
        ("58030", "io_error"),
        ("25006", "read_only_sql_transaction"),
        ("40001", "serialization_failure"),
        // With a text that is not the English one of PostgreSQL.
        ("40P01", "deadlock_detected"),
        ("42501", "insufficient_privilege"),
    ] {
        reject_orders(&database, code);
        let message = not_created(create(&store, "F-1").await);
        assert!(message.ends_with(": no"), "{meaning}: {message}");
    }
    for (code, meaning) in [
        ("23502", "not_null"),
        ("23503", "foreign_key"),
        ("23505", "unique"),
        ("23514", "check"),
        ("23P01", "exclusion"),
    ] {
        reject_orders(&database, code);
        let rejected = create(&store, "F-1").await.unwrap_err();
        assert!(matches!(rejected, WriteError::Internal(_)), "{meaning}: {rejected:?}");
    }
    database.sql("DROP TRIGGER reject ON orders");
    create(&store, "F-1").await.unwrap();
}

#[tokio::test]
async fn error_contains_no_value_of_the_row() {
    let (store, database) = store().await;
    database.sql(
        "ALTER TABLE orders ADD CONSTRAINT not_jane CHECK (details ->> 'signer' NOT LIKE '%Jane%')",
    );
    let (document, key) = (document(), api_key(NOW));
    let order = NewOrder { documents: vec![document.clone()], ..new_order("F-1", NOW) };
    store.add(&key, "jane").await.unwrap();
    store.record(&[key_of(&document)], NOW).await.unwrap();

    let rejected = [
        log_line(&store.create(&order, WINDOW).await.unwrap_err()),
        log_line(&store.add(&key, "jane").await.unwrap_err()),
        log_line(&store.record(&[key_of(&document)], NOW).await.unwrap_err()),
    ];
    for (message, constraint) in
        rejected.iter().zip(["not_jane", "api_keys_lookup_key", "uploads_pkey"])
    {
        assert!(message.contains(constraint), "{message}");
        for secret in [
            "Jane",
            "example.com",
            "REFI",
            "F-1",
            &key.lookup,
            &key.name,
            document.key.as_ref().unwrap().as_str(),
        ] {
            assert!(!message.contains(secret), "{message}");
        }
    }
    assert!(matches!(store.add(&key, "jane").await, Err(StoreError::Internal(_))));
}

#[tokio::test]
async fn failed_connection_is_one_line_with_cause() {
    let database = Cluster::shared().database();
    let port = Cluster::shared().port();
    let closed = closed_port();
    let unknown = "x".repeat(64);
    for (url, cause) in [
        (
            url_through(closed.local_addr().unwrap().port(), &database),
            "no connection to the database: error connecting to server: Connection refused",
        ),
        (
            format!("postgres://{SUPERUSER}:{PASSWORD}@{unknown}/x"),
            "no connection to the database: error connecting to server: \
            failed to lookup address",
        ),
        (
            database.url_as(SUPERUSER, "wrong"),
            "no connection to the database: FATAL: \
            password authentication failed for user \"orders\"",
        ),
        (
            format!("postgres://{SUPERUSER}@127.0.0.1:{port}/x"),
            "no connection to the database: invalid configuration: password missing",
        ),
        (
            database.url_as("nobody", PASSWORD),
            "no connection to the database: FATAL: \
            password authentication failed for user \"nobody\"",
        ),
        (
            format!("postgres://{SUPERUSER}:{PASSWORD}@127.0.0.1:{port}/nowhere"),
            "no connection to the database: FATAL: database \"nowhere\" does not exist",
        ),
        (
            format!("{}?options=-c%20nothing%3D1", database.url()),
            "no connection to the database: FATAL: \
            unrecognized configuration parameter \"nothing\"",
        ),
    ] {
        let store = open(&url, 1);
        let message = log_line(&store.migrate().await.unwrap_err());
        assert!(message.starts_with(cause), "{message}");
        let message = unavailable(store.check().await);
        assert!(message.starts_with(&format!("the store is unavailable: {cause}")), "{message}");
    }
}

#[tokio::test]
async fn detail_of_the_server_stays_in_one_line() {
    let database = Cluster::shared().database();
    let role = format!("role_of_{}", database.name);
    database.sql(&format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'one'; REVOKE CONNECT ON DATABASE {} FROM PUBLIC",
        database.name
    ));
    let store = open(&database.url_as(&role, "one"), 1);
    let message = log_line(&store.migrate().await.unwrap_err());
    assert!(
        message.contains("permission denied for database")
            && message.contains("DETAIL: User does not have CONNECT privilege"),
        "{message}"
    );
}

/// The server sends the row of the order before it commits, and the commit may fail.
#[tokio::test]
async fn failed_commit_creates_no_order() {
    let (store, database) = store().await;
    create(&store, "F-1").await.unwrap();
    database.sql(
        "CREATE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS \
        $$BEGIN RAISE EXCEPTION 'at the commit'; END$$; \
        CREATE CONSTRAINT TRIGGER reject AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED \
        FOR EACH ROW EXECUTE FUNCTION reject()",
    );
    let idempotent_request = IdempotentRequest {
        attempt: attempt(&idempotency_key(1, "key"), 7),
        kept_until: NOW + Duration::DAY,
    };
    for order in [
        new_order("F-2", NOW),
        NewOrder { idempotent_request: Some(idempotent_request), ..new_order("F-3", NOW) },
    ] {
        let message = not_created(store.create(&order, WINDOW).await);
        assert!(message.contains("at the commit"), "{message}");
    }
    database.sql("DROP TRIGGER reject ON orders");
    assert_eq!(database.sql("SELECT count(*) FROM orders"), "1");
    create(&store, "F-2").await.unwrap();
}
