use contract_tests::samples::{
    NOW, WINDOW, call_in_many_shapes, delivery, enqueue, new_order, settle,
};
use diesel::{
    dsl::sql,
    sql_query,
    sql_types::{Array, Text},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl as _};
use domain::ports::{DeliveryQueue as _, OrderRepo as _, Settlement, StoreError};
use test_servers::postgres::Database;
use time::Duration;

use super::{GENEROUS, store, store_with};
use crate::{limits::TimeLimits, store::PostgresStore};

async fn setting(store: &PostgresStore, name: &'static str) -> String {
    let query = diesel::select(sql::<Text>(&format!("current_setting('{name}')")));
    store.pool.all(query, Ok).await.unwrap().remove(0)
}

#[tokio::test]
async fn session_settings_override_database_defaults() {
    let limits = TimeLimits { idle_transaction: GENEROUS.statement / 2, ..GENEROUS };
    let (store, database) = store_with(1, limits).await;
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
        ("statement_timeout", "10min"),
        ("idle_in_transaction_session_timeout", "5min"),
        ("transaction_isolation", "read committed"),
        ("synchronous_commit", "on"),
        ("TimeZone", "UTC"),
        ("application_name", "notary-orders"),
    ] {
        assert_eq!(setting(&store, name).await, value, "{name}");
    }
}

#[tokio::test]
async fn connections_without_limits_ignore_the_limits_of_the_role() {
    let (store, database) = store(1).await;
    for (name, value) in [
        ("statement_timeout", "'1min'"),
        ("lock_timeout", "'1min'"),
        ("idle_in_transaction_session_timeout", "'1min'"),
        ("default_transaction_isolation", "'serializable'"),
    ] {
        database.sql(&format!("ALTER DATABASE {} SET {name} = {value}", database.name));
    }
    let settings = async |connection: &mut AsyncPgConnection| {
        let settings = sql::<Text>(
            "SELECT concat_ws(' ', current_setting('statement_timeout'), \
            current_setting('lock_timeout'), \
            current_setting('idle_in_transaction_session_timeout'), \
            current_setting('transaction_isolation'))",
        );
        let settings: String = settings.get_result(connection).await?;
        Ok(settings)
    };
    assert_eq!(store.survey(settings).await.unwrap(), "0 0 0 read committed");
}

#[tokio::test]
async fn maintenance_has_no_time_limit() {
    let (store, _database) = store(1).await;
    let limit = async |connection: &mut AsyncPgConnection| {
        let limit = sql::<Text>("SELECT current_setting('statement_timeout')");
        let limit: String = limit.get_result(connection).await?;
        Ok(limit)
    };
    assert_eq!(store.maintain::<_, StoreError>(limit).await.unwrap(), "0");
    assert_eq!(setting(&store, "statement_timeout").await, "10min");
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

/// Records how each transaction that changes a table is committed.
fn record_commits(database: &Database<'_>, changes: &str) {
    database.sql(&format!(
        "CREATE TABLE commits (how text);
        CREATE FUNCTION record_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO commits SELECT current_setting('synchronous_commit'); RETURN NULL;
        END $$;
        CREATE CONSTRAINT TRIGGER record_commits AFTER {changes} DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION record_commit()"
    ));
}

/// Changes the setting of the session, as a pooler that mixes sessions does.
async fn set_commits(store: &PostgresStore, how: &'static str) {
    let set = sql_query(format!("SET synchronous_commit = {how}"));
    store.pool.write(set).await.unwrap();
}

#[tokio::test]
async fn order_is_durable_although_the_session_lost_its_settings() {
    let (store, database) = store(1).await;
    record_commits(&database, "INSERT ON orders");
    for how in ["off", "remote_apply"] {
        set_commits(&store, how).await;
        store.create(&new_order(how, NOW), WINDOW).await.unwrap();
    }
    assert_eq!(database.sql("SELECT how FROM commits"), "on\nremote_apply");
}

#[tokio::test]
async fn deliveries_and_outcomes_are_durable_and_leases_are_not() {
    let (store, database) = store(1).await;
    record_commits(&database, "INSERT OR UPDATE OR DELETE ON deliveries");
    for (number, how) in ["off", "on"].into_iter().enumerate() {
        set_commits(&store, how).await;
        let order = new_order(&format!("F-{number}"), NOW);
        enqueue(&store, &order, vec![delivery(0), delivery(1)]).await;
        for settlement in [Settlement::Done, Settlement::Fail { at: NOW, error: String::new() }] {
            let lease = store.lease(NOW, Duration::MINUTE, 1).await.unwrap().remove(0);
            assert!(settle(&store, &lease, &settlement).await);
        }
        // Two rows are added together. A lease leaves the setting of the session alone.
        let commits = database.sql("SELECT string_agg(how, ' ') FROM commits; TRUNCATE commits");
        assert_eq!(commits.lines().next(), Some("on on off on off on"), "{how}");
        assert_eq!(setting(&store, "synchronous_commit").await, how);
    }
}

/// Connections never forget a text.
#[tokio::test]
async fn prepared_statements_stay_few_whatever_clients_send() {
    let (store, _database) = store(1).await;
    call_in_many_shapes(&store).await;
    let query = sql::<Array<Text>>("SELECT array_agg(statement) FROM pg_prepared_statements");
    let kept: Vec<Vec<String>> = store.pool.all(query, Ok).await.unwrap();
    assert!((20..150).contains(&kept[0].len()), "{} {kept:#?}", kept[0].len());
}
