//! Threads that serve requests, and create the orders of these on connections of their own.

use std::{sync::Arc, thread};

use domain::ports::ApiKeyRepo as _;
use futures_util::future::join_all;
use test_servers::{postgres::Cluster, proxy::Proxy};
use tokio::{runtime, sync::Notify};

use super::{PostgresStore, create, outsider, sessions, unavailable, until, url_through};

/// Runs work in the runtime of a new thread, which ends with the work.
fn on_a_request_thread<W: Future<Output = ()>>(
    work: impl FnOnce() -> W + Send + 'static,
) -> thread::JoinHandle<()> {
    thread::spawn(|| {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(work());
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_keep_the_connection_limit() {
    for (connections, threads) in [(6, 3), (16, 2), (3, 2), (1, 1)] {
        let database = Cluster::shared().database();
        let url = database.url();
        let store = Arc::new(PostgresStore::open_for_threads(&url, connections, threads).unwrap());
        store.migrate().await.unwrap();
        let end = Arc::new(Notify::new());
        // One more than announced.
        let serving: Vec<_> = (0..=threads)
            .map(|thread| {
                let (store, end) = (store.clone(), end.clone());
                on_a_request_thread(async move || {
                    let numbers: Vec<_> =
                        (0..50).map(|order| format!("{thread}-{order}")).collect();
                    let created = join_all(numbers.iter().map(|number| create(&store, number)));
                    assert!(created.await.iter().all(Result::is_ok));
                    end.notified().await;
                })
            })
            .collect();
        let orders = (50 * (threads + 1)).to_string();
        until("all orders are created", async || {
            database.sql("SELECT count(*) FROM orders") == orders
        })
        .await;
        store.list().await.unwrap();
        let open = sessions(&outsider(&database).await).await.0;
        assert!(open <= i64::try_from(connections).unwrap(), "{open} of {connections}");
        assert_eq!(open, i64::try_from(store.open_connections()).unwrap());
        while serving.iter().any(|thread| !thread.is_finished()) {
            end.notify_waiters();
            tokio::task::yield_now().await;
        }
        for thread in serving {
            thread.join().unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn order_of_a_thread_that_ends_holds_up_no_other() {
    let database = Cluster::shared().database();
    let store = Arc::new(PostgresStore::open_for_threads(&database.url(), 4, 1).unwrap());
    store.migrate().await.unwrap();
    let (holder, watcher) = (outsider(&database).await, outsider(&database).await);
    holder.batch_execute("BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let leave = Arc::new(Notify::new());
    let (ending, left) = (store.clone(), leave.clone());
    let serving = on_a_request_thread(async move || {
        tokio::select! {
            _ = create(&ending, "F-1") => {}
            () = left.notified() => {}
        }
    });
    until("the order waits for the lock", async || sessions(&watcher).await.1 == 1).await;
    leave.notify_one();
    serving.join().unwrap();
    holder.batch_execute("ROLLBACK").await.unwrap();
    create(&store, "F-2").await.unwrap();
    store.list().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn vanished_server_fails_one_call_of_all_threads() {
    let database = Cluster::shared().database();
    let proxy = Proxy::to(Cluster::shared().port());
    let url = url_through(proxy.port(), &database);
    let store = Arc::new(PostgresStore::open_for_threads(&url, 4, 1).unwrap());
    store.migrate().await.unwrap();
    store.list().await.unwrap();
    let (created, lost) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (serving, first, go_on) = (store.clone(), created.clone(), lost.clone());
    let serving = on_a_request_thread(async move || {
        create(&serving, "F-1").await.unwrap();
        first.notify_one();
        go_on.notified().await;
        create(&serving, "F-2").await.unwrap();
    });
    created.notified().await;
    proxy.lose();
    unavailable(store.list().await);
    lost.notify_one();
    serving.join().unwrap();
}
