//! What was moved from another store, whatever the server is set up for and whoever else uses it.

use std::{future::ready, sync::Arc};

use contract_tests::{
    contents::Contents,
    fakes::{InMemoryStore, InterruptedSource},
    samples::{NOW, Storage, WINDOW, new_order},
};
use domain::ports::{
    DeliveryQueue, MoveError, OrderRepo as _, Settlement, StoreCounts, StoreTarget as _,
};
use futures_util::FutureExt as _;
use time::Duration;

use crate::{outsider, sessions, store, unavailable, until};

/// A store to be moved, and what it has.
async fn source() -> (Arc<InMemoryStore>, StoreCounts) {
    let source = Arc::new(InMemoryStore::default());
    let contents = Contents::fill(&Storage::new(source.clone(), ())).await;
    (source, contents.counts())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_with_nothing_but_a_file_number_is_not_empty() {
    let (target, database) = store().await;
    database.sql("INSERT INTO file_numbers VALUES ('F-1', now())");
    let refused = target.take_over(&*source().await.0).await;
    let there = StoreCounts { file_numbers: 1, ..StoreCounts::default() };
    assert!(
        matches!(&refused, Err(MoveError::NotEmpty(counts)) if *counts == there),
        "{refused:?}"
    );
    assert_eq!(database.sql("SELECT file_number FROM file_numbers"), "F-1");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_is_being_placed_is_waited_for() {
    let (target, database) = store().await;
    let (target, (source, counts)) = (Arc::new(target), source().await);
    let placing = outsider(&database).await;
    // As the statement that places an order locks its tables, one after another.
    placing.batch_execute("BEGIN; LOCK TABLE file_numbers IN ROW EXCLUSIVE MODE").await.unwrap();
    let moving = tokio::spawn(async move { target.take_over(&*source).await });
    until("the move waits", async || sessions(&outsider(&database).await).await.1 == 1).await;
    for table in ["orders", "documents", "deliveries", "uploads"] {
        placing.batch_execute(&format!("LOCK TABLE {table} IN ROW EXCLUSIVE MODE")).await.unwrap();
    }
    placing.batch_execute("COMMIT").await.unwrap();
    assert_eq!(moving.await.unwrap().unwrap(), counts);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_the_server_neither_end_it_nor_make_it_less_durable() {
    let (target, database) = store().await;
    let asked_for = [
        "statement_timeout",
        "idle_in_transaction_session_timeout",
        "synchronous_commit",
        "transaction_isolation",
    ];
    database.sql(
        "CREATE TABLE seen (name text, value text);
        CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO seen SELECT name, setting FROM pg_settings; RETURN NULL; END $$;
        CREATE TRIGGER see AFTER INSERT ON api_keys EXECUTE FUNCTION see()",
    );
    for setting in [
        "statement_timeout = '1min'",
        "idle_in_transaction_session_timeout = '1min'",
        "synchronous_commit = off",
    ] {
        database.sql(&format!("ALTER DATABASE {} SET {setting}", database.name));
    }
    database.sql(&format!(
        "ALTER DATABASE {} SET default_transaction_isolation = 'repeatable read'",
        database.name
    ));
    target.take_over(&*source().await.0).await.unwrap();
    let seen = asked_for
        .map(|name| database.sql(&format!("SELECT value FROM seen WHERE name = '{name}'")));
    assert_eq!(seen, ["0", "0", "on", "read committed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_lost_half_way_leaves_nothing() {
    let (target, database) = store().await;
    let (source, counts) = source().await;
    let end = Arc::new(outsider(&database).await);
    let lost = InterruptedSource::new(source.clone(), move |call| {
        let end = end.clone();
        if call.method != "orders" {
            return ready(Ok(())).boxed();
        }
        async move {
            let query = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'orders'::regclass AND mode = 'ExclusiveLock'";
            end.execute(query, &[]).await.unwrap();
            Ok(())
        }
        .boxed()
    });
    match target.take_over(&lost).await {
        Err(MoveError::Target(error)) => drop(unavailable(Err::<(), _>(error))),
        other => panic!("{other:?}"),
    }
    assert_eq!(target.take_over(&*source).await.unwrap(), counts);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_postgresql_takes_for_no_text_is_moved() {
    let (target, source) = (store().await.0, Arc::new(InMemoryStore::default()));
    source.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    let lease = source.lease(NOW, Duration::MINUTE, 1).await.unwrap().remove(0);
    let failed = Settlement::Fail { at: NOW, error: "550 \0 no such user".to_owned() };
    assert!(source.settle(lease.delivery.id, lease.token, &failed).await.unwrap());
    target.take_over(&*source).await.unwrap();
    assert_eq!(
        DeliveryQueue::list(&target, true, 1).await.unwrap()[0].last_error.as_deref(),
        Some("550 \u{fffd} no such user")
    );
}
