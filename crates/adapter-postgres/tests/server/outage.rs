//! Servers that stop, freeze and return.

use std::{sync::Arc, time::Duration};

use contract_tests::samples::{NOW, WINDOW, document, keys_of, new_order, object_key};
use domain::ports::{
    ApiKeyRepo, DeliveryQueue as _, NewOrder, OrderRepo as _, UploadLedger as _, WriteError,
};
use test_servers::postgres::{Cluster, Stop};

use super::{
    PostgresStore, SHORT, create, not_created, outsider, sessions, sleep, store, store_at,
    unanswered, unavailable, until,
};

/// Waits until a store creates orders again.
async fn recover(store: &PostgresStore, file_number: &str) {
    until("the store creates orders", async || create(store, file_number).await.is_ok()).await;
}

/// Returns a store on a database whose server will not answer.
async fn impatient_store_at(url: &str) -> Arc<PostgresStore> {
    let store = PostgresStore::open(url, 4, SHORT).unwrap();
    store.migrate().await.unwrap();
    Arc::new(store)
}

async fn every_port_is_unavailable(store: &PostgresStore) {
    not_created(create(store, "F-0").await);
    unavailable(store.check().await);
    unavailable(ApiKeyRepo::find(store, "00000000000000aa").await);
    unavailable(store.lease(NOW, time::Duration::MINUTE, 1).await);
    unavailable(store.record(&[object_key()], NOW).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_and_return_of_the_server_are_noticed() {
    let cluster = Cluster::start(&[]);
    let database = cluster.database();
    let store = store_at(&database.url()).await;
    for (round, how) in [Stop::Fast, Stop::Kill].into_iter().enumerate() {
        create(&store, &format!("before {round}")).await.unwrap();
        cluster.stop(how);
        every_port_is_unavailable(&store).await;
        cluster.resume_after_stop();
        recover(&store, &format!("after {round}")).await;
    }
    assert_eq!(database.sql("SELECT count(*) FROM orders"), "4", "acknowledged orders are stored");
}

#[tokio::test]
async fn frozen_server_times_out_and_stores_no_partial_order() {
    let cluster = Cluster::start(&[]);
    let database = cluster.database();
    let store = impatient_store_at(&database.url()).await;
    create(&store, "before").await.unwrap();
    let documents: Vec<_> = (0..20).map(|_| document()).collect();
    store.record(&keys_of(&documents), NOW).await.unwrap();

    cluster.freeze();
    let order = NewOrder { documents, ..new_order("frozen", NOW) };
    let calls = (0..8).map(|number| {
        let (store, order) = (store.clone(), order.clone());
        tokio::spawn(async move {
            // The first takes a connection before the others come.
            sleep(Duration::from_millis(number)).await;
            match number {
                0 => not_created(store.create(&order, WINDOW).await),
                1 => unavailable(store.check().await),
                2 => unavailable(ApiKeyRepo::find(&*store, "00000000000000aa").await),
                _ => not_created(create(&store, &format!("frozen {number}")).await),
            };
        })
    });
    let calls = futures_util::future::join_all(calls);
    unanswered(calls).await.into_iter().for_each(Result::unwrap);
    cluster.thaw();
    recover(&store, "after").await;

    // The server may still run statements that it received before.
    let outsider = outsider(&database).await;
    until("abandoned connections have ended", async || sessions(&outsider).await.0 <= 4).await;
    let partial = "SELECT count(*) FROM orders o WHERE NOT holds_file_number \
        OR (SELECT count(*) FROM events WHERE order_id = o.id) <> 1 \
        OR (SELECT count(*) FROM documents WHERE order_id = o.id) \
            <> CASE file_number WHEN 'frozen' THEN 20 ELSE 0 END";
    assert_eq!(database.sql(partial), "0", "orders are stored whole");
    assert_eq!(
        database.sql("SELECT (SELECT count(*) FROM documents) + (SELECT count(*) FROM uploads)"),
        "20",
        "an upload is adopted or in the ledger"
    );
}

#[tokio::test]
async fn order_missing_on_standby_is_not_acknowledged() {
    let cluster = Cluster::start(&[]);
    let database = cluster.database();
    let store = impatient_store_at(&database.url()).await;
    create(&store, "before").await.unwrap();
    // A setting for all sessions does not turn off the wait for the disk.
    cluster.sql("postgres", "ALTER SYSTEM SET synchronous_commit = off");
    cluster.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'gone'");
    cluster.sql("postgres", "SELECT pg_reload_conf()");
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    // The server reads its settings later.
    let other = outsider(&database).await;
    let change = "SET synchronous_commit = on; SELECT pg_logical_emit_message(true, 'x', '')";
    let changing = tokio::spawn(async move { while other.batch_execute(change).await.is_ok() {} });
    until("changes wait", async || cluster.sql("postgres", waiting) == "1").await;
    changing.abort();

    let call = || {
        let store = Arc::clone(&store);
        tokio::spawn(async move { create(&store, "F-1").await })
    };
    let first = call();
    until("the order waits", async || cluster.sql("postgres", waiting) == "2").await;
    not_created(unanswered(first).await.unwrap());
    let second = call();
    let outsider = outsider(&database).await;
    until("it waits for the first one", async || sessions(&outsider).await.1 == 1).await;
    not_created(unanswered(second).await.unwrap());
    cluster.sql("postgres", "ALTER SYSTEM RESET synchronous_standby_names");
    cluster.sql("postgres", "SELECT pg_reload_conf()");
    until("the order is stored", async || database.sql("SELECT count(*) FROM orders") == "2").await;
    assert!(matches!(create(&store, "F-1").await, Err(WriteError::Duplicate { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_connections_are_replaced() {
    let (store, database) = store().await;
    let outsider = outsider(&database).await;
    create(&store, "F-0").await.unwrap();
    for round in 1..=5 {
        let end = "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity \
            WHERE application_name = 'notary-orders' AND datname = current_database()";
        let rows = outsider.query(end, &[]).await.unwrap();
        let processes: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
        // An order may get a second connection before the first returns to the pool.
        let mut ended = processes.len();
        assert!((1..=2).contains(&ended), "{ended}");
        // The call may arrive before the end of its connection. Each ended connection fails one
        // call at most.
        loop {
            let outcome = create(&store, &format!("F-{round}")).await;
            if outcome.is_ok() {
                break;
            }
            not_created(outcome);
            ended = ended.checked_sub(1).expect("one failed call for each ended connection");
        }
        // The server may still list a connection whose client has seen its end.
        until("the server has forgotten the ended connections", async || {
            let listed = "SELECT FROM pg_stat_activity WHERE pid = ANY ($1)";
            outsider.query(listed, &[&processes]).await.unwrap().is_empty()
        })
        .await;
    }
}
