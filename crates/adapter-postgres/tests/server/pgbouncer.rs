//! PgBouncer between the store and the server.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use adapter_postgres::{PostgresStore, TimeLimits};
use contract_tests::{SqlTables, samples::Storage};
use test_servers::postgres::{Cluster, Database, pgbouncer::PgBouncer};

use super::{GENEROUS, create, database, log_line, open};

/// Returns the pooler in session mode that all tests of this process share.
fn shared() -> &'static PgBouncer {
    static SHARED: OnceLock<PgBouncer> = OnceLock::new();
    SHARED.get_or_init(|| PgBouncer::start(Cluster::shared(), &["pool_mode = session"]))
}

async fn storage() -> Storage {
    let database = database().await;
    let store = Arc::new(open(&shared().url(&database), 4));
    let sql = move |statement: &str| database.sql(statement).lines().map(str::to_owned).collect();
    Storage::new(store, SqlTables(sql))
}

// A pooler in session mode can change what depends on a session: transactions, locks, settings and
// prepared statements.
contract_tests::concurrency_contracts!(storage);

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
        let store = open(&pooler.url(&database), 4);
        assert_eq!(
            log_line(&store.migrate().await.unwrap_err()),
            "a pooler lends the sessions of the database to other clients between transactions; \
            set pool_mode = session in PgBouncer, or name the server itself"
        );
        assert_eq!(database.schema(), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn next_store_gets_a_clean_session() {
    let settings = ["pool_mode = session", "default_pool_size = 1", "server_idle_timeout = 60"];
    let pooler = PgBouncer::start(Cluster::shared(), &settings);
    let database = Cluster::shared().database();
    // The pooler never has a second session for that check.
    let limits = TimeLimits { session_check: Duration::from_millis(100), ..GENEROUS };
    // Each store prepares its statements under the same names, in the same session of the server.
    for file_number in ["F-1", "F-2"] {
        let store = PostgresStore::open(&pooler.url(&database), 1, limits).unwrap();
        store.migrate().await.unwrap();
        create(&store, file_number).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_leaves_nothing_in_the_session() {
    // Without a reset, the next client gets the session as the migration left it.
    let settings = ["pool_mode = session", "server_reset_query =", "server_idle_timeout = 60"];
    let pooler = PgBouncer::start(Cluster::shared(), &settings);
    let database = Cluster::shared().database();
    let store = open(&pooler.url(&database), 4);
    assert!(store.migrate().await.unwrap() > 0);
    let left = "SELECT name FROM pg_settings WHERE name = 'lock_timeout' AND setting <> '0' \
        UNION ALL SELECT locktype FROM pg_locks JOIN pg_database ON pg_database.oid = database \
        WHERE locktype = 'advisory' AND datname = current_database()";
    assert_eq!(seen_by_others(&pooler, &database, left).await, 0);
}
