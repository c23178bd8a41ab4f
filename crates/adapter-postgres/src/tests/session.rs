use contract_tests::samples::{NOW, WINDOW, new_order};
use diesel::{dsl::sql, sql_types::Text};
use diesel_async::{RunQueryDsl, SimpleAsyncConnection as _};
use domain::ports::OrderRepo as _;
use futures_util::FutureExt as _;

use super::store;
use crate::{PostgresStore, failure::Failure};

async fn setting(store: &PostgresStore, name: &'static str) -> String {
    let shown = store.pool.run(move |connection| {
        async move {
            let query = diesel::select(sql::<Text>(&format!("current_setting('{name}')")));
            Ok::<String, Failure>(query.get_result(connection).await?)
        }
        .boxed()
    });
    shown.await.unwrap()
}

#[tokio::test]
async fn session_settings_override_database_defaults() {
    let (store, database) = store(1).await;
    for (name, value) in [
        ("statement_timeout", "0"),
        ("idle_in_transaction_session_timeout", "0"),
        ("default_transaction_isolation", "'serializable'"),
        ("synchronous_commit", "off"),
        ("timezone", "'America/Chicago'"),
        ("datestyle", "'SQL, DMY'"),
    ] {
        database.sql(&format!("ALTER DATABASE {} SET {name} = {value}", database.name));
    }
    for (name, value) in [
        ("statement_timeout", "2s"),
        ("idle_in_transaction_session_timeout", "10s"),
        ("transaction_isolation", "read committed"),
        ("synchronous_commit", "on"),
        ("TimeZone", "UTC"),
        ("application_name", "notary-orders"),
    ] {
        assert_eq!(setting(&store, name).await, value, "{name}");
    }
}

#[tokio::test]
async fn operator_chooses_synchronous_commit() {
    for (by_default, in_force) in [
        ("on", "on"),
        ("off", "on"),
        ("local", "local"),
        ("remote_write", "remote_write"),
        ("remote_apply", "remote_apply"),
    ] {
        let (store, database) = store(1).await;
        database.sql(&format!(
            "ALTER DATABASE {} SET synchronous_commit = {by_default}",
            database.name
        ));
        assert_eq!(setting(&store, "synchronous_commit").await, in_force);
    }
}

/// Records how each transaction that creates orders is committed.
const RECORD_COMMITS: &str = "CREATE TABLE commits (how text);
    CREATE FUNCTION record_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO commits SELECT current_setting('synchronous_commit'); RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER record_commits AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION record_commit()";

#[tokio::test]
async fn order_is_durable_although_the_session_lost_its_settings() {
    let (store, database) = store(1).await;
    database.sql(RECORD_COMMITS);
    for how in ["off", "remote_apply"] {
        let lost = store.pool.run(move |connection| {
            async move {
                let set = format!("SET synchronous_commit = {how}");
                Ok::<(), Failure>(connection.batch_execute(&set).await?)
            }
            .boxed()
        });
        lost.await.unwrap();
        store.create(&new_order(how, NOW), WINDOW).await.unwrap();
    }
    assert_eq!(database.sql("SELECT how FROM commits"), "on\nremote_apply");
}

#[tokio::test]
async fn abandoned_transaction_loses_its_locks() {
    let (store, database) = store(1).await;
    let left = store.server.connect().await.unwrap();
    let mut left = left;
    left.batch_execute(
        "SET idle_in_transaction_session_timeout = '100ms'; BEGIN; LOCK TABLE orders",
    )
    .await
    .unwrap();
    // Waits for the lock, and so for the end of the other session.
    assert_eq!(database.sql("LOCK TABLE orders; SELECT count(*) FROM orders"), "0");
}
