//! PgBouncer between the store and the server.

use std::sync::{Arc, OnceLock};

use adapter_postgres::PostgresStore;
use contract_tests::samples::Storage;
use test_servers::{
    pgbouncer::PgBouncer,
    postgres::{Cluster, Database},
};

use super::{create, is_duplicate, log_line, store_at};

/// Returns the pooler in session mode that all tests of this process share.
fn shared() -> &'static PgBouncer {
    static SHARED: OnceLock<PgBouncer> = OnceLock::new();
    SHARED.get_or_init(|| PgBouncer::start(Cluster::shared(), &["pool_mode = session"]))
}

async fn storage() -> Storage {
    let database = Cluster::shared().database();
    let store = Arc::new(store_at(&shared().url(&database)).await);
    Storage::new(store, move |statements: &str| {
        database.sql(statements);
    })
}

mod order_repo {
    contract_tests::order_repo_contract!(super::storage().await);
}

mod upload_ledger {
    contract_tests::upload_ledger_contract!(super::storage().await);
}

mod idempotency_ledger {
    contract_tests::idempotency_ledger_contract!(super::storage().await);
}

mod api_key_repo {
    contract_tests::api_key_repo_contract!(super::storage().await);
}

mod delivery_queue {
    contract_tests::delivery_queue_contract!(super::storage().await);
}

mod order_reader {
    contract_tests::order_reader_contract!(super::storage().await);
}

/// Returns how often a query by a new client of the pooler returns a row.
async fn seen_by_others(pooler: &PgBouncer, database: &Database<'_>, query: &str) -> usize {
    let url = pooler.url(database);
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let rows = client.simple_query(query).await.unwrap();
    rows.iter().filter(|row| matches!(row, tokio_postgres::SimpleQueryMessage::Row(_))).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn modes_that_share_sessions_are_refused() {
    for mode in ["transaction", "statement"] {
        let pooler = PgBouncer::start(Cluster::shared(), &[&format!("pool_mode = {mode}")]);
        let database = Cluster::shared().database();
        let before = database.schema();
        let store = PostgresStore::open(&pooler.url(&database), 4).unwrap();
        assert_eq!(
            log_line(&store.migrate().await.unwrap_err()),
            "a pooler lends the sessions of the database to other clients between transactions; \
            set pool_mode = session in PgBouncer, or name the server itself"
        );
        assert_eq!(database.schema(), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn session_mode_with_one_session_is_not_refused() {
    let settings = ["pool_mode = session", "default_pool_size = 1"];
    let pooler = PgBouncer::start(Cluster::shared(), &settings);
    let database = Cluster::shared().database();
    let store = PostgresStore::open(&pooler.url(&database), 1).unwrap();
    assert!(store.migrate().await.unwrap() > 0);
    create(&store, "F-1").await.unwrap();
    assert!(is_duplicate(&create(&store, "F-1").await));
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_leaves_nothing_in_the_session() {
    // Without a reset, the next client gets the session as the migration left it.
    let settings = ["pool_mode = session", "server_reset_query =", "server_idle_timeout = 60"];
    let pooler = PgBouncer::start(Cluster::shared(), &settings);
    let database = Cluster::shared().database();
    let store = PostgresStore::open(&pooler.url(&database), 4).unwrap();
    assert!(store.migrate().await.unwrap() > 0);
    let left = "SELECT name FROM pg_settings WHERE name = 'lock_timeout' AND setting <> '0' \
        UNION ALL SELECT locktype FROM pg_locks JOIN pg_database ON pg_database.oid = database \
        WHERE locktype = 'advisory' AND datname = current_database()";
    assert_eq!(seen_by_others(&pooler, &database, left).await, 0);
}
