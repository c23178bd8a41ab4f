//! Servers that make the store wait, and pools without a free connection.

use std::{sync::Arc, time::Duration};

use contract_tests::samples::{LIVE, NOW, WINDOW, add_documents, document, key_of, new_order};
use domain::{
    document::DocumentKind,
    order::{Actor, OrderId, OrderStatus},
    ports::{ApiKeyRepo as _, OrderRepo as _, OrderUpdate, UploadLedger as _, WriteError},
};
use futures_util::future::join_all;
use test_servers::{postgres::Cluster, proxy::Proxy};
use tokio::time::Instant;

use super::{
    PostgresStore, create, not_created, outsider, sessions, store, unavailable, until, url_through,
};

/// Connections of a start: two look for a pooler, of which one looks for missing migrations, and another
/// applies them.
const AT_START: usize = 3;

#[tokio::test]
async fn server_ends_statement_before_caller() {
    let (store, database) = store().await;
    let holder = outsider(&database).await;
    holder.batch_execute("BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let began = Instant::now();
    let message = not_created(create(&store, "F-1").await);
    assert!(message.contains("statement timeout"), "{message}");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    holder.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(database.sql("SELECT count(*) FROM orders"), "0", "the order was not created");
    create(&store, "F-1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_connection_fails_call_in_time() {
    for connections in [1, 2] {
        let database = Cluster::shared().database();
        let proxy = Proxy::to(Cluster::shared().port());
        let store = Arc::new(
            PostgresStore::open(&url_through(proxy.port(), &database), connections).unwrap(),
        );
        store.migrate().await.unwrap();
        create(&store, "F-0").await.unwrap();
        proxy.stall();
        let calls = (0..10).map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let began = Instant::now();
                (create(&store, &format!("F-{number}")).await, began.elapsed())
            })
        });
        for (rejected, waited) in join_all(calls).await.into_iter().map(Result::unwrap) {
            not_created(rejected);
            assert!(waited < Duration::from_secs(3), "{waited:?}");
        }
        proxy.go_on();
        for number in 100..110 {
            create(&store, &format!("F-{number}")).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pool_keeps_connection_limit() {
    let database = Cluster::shared().database();
    let proxy = Proxy::to(Cluster::shared().port());
    let store = Arc::new(PostgresStore::open(&url_through(proxy.port(), &database), 3).unwrap());
    store.migrate().await.unwrap();
    let calls = (0..100).map(|number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { create(&store, &format!("F-{number}")).await.map(drop) })
    });
    join_all(calls).await.into_iter().for_each(|call| call.unwrap().unwrap());
    let outsider = outsider(&database).await;
    assert!(sessions(&outsider).await.0 <= 3);
    assert!(proxy.accepted() <= AT_START + 3, "none was replaced: {}", proxy.accepted());
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_call_finishes_and_frees_connection() {
    let database = Cluster::shared().database();
    let proxy = Proxy::to(Cluster::shared().port());
    let store = Arc::new(PostgresStore::open(&url_through(proxy.port(), &database), 1).unwrap());
    store.migrate().await.unwrap();
    let holder = outsider(&database).await;
    holder.batch_execute("BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE").await.unwrap();

    let caller = Arc::clone(&store);
    let call = tokio::spawn(async move { create(&caller, "F-1").await });
    let watcher = outsider(&database).await;
    until("the order waits for the lock", async || sessions(&watcher).await == (1, 1)).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    holder.batch_execute("ROLLBACK").await.unwrap();
    until("the order is created", async || database.sql("SELECT count(*) FROM orders") == "1")
        .await;

    create(&store, "F-2").await.unwrap();
    assert_eq!(proxy.accepted(), AT_START + 1, "one in the pool");
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_outlives_runtime_of_its_call() {
    let database = Cluster::shared().database();
    let proxy = Proxy::to(Cluster::shared().port());
    let store = Arc::new(PostgresStore::open(&url_through(proxy.port(), &database), 1).unwrap());
    store.migrate().await.unwrap();
    for round in 0..5 {
        let store = Arc::clone(&store);
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(create(&store, &format!("F-{round}"))).unwrap();
            // A call that is in progress when its runtime ends.
            runtime.spawn(async move {
                store.create(&new_order(&format!("G-{round}"), NOW), WINDOW).await
            });
        });
        thread.join().unwrap();
    }
    store.check().await.unwrap();
    store.list().await.unwrap();
    assert_eq!(proxy.accepted(), AT_START + 1, "one in the pool");
}

#[tokio::test(flavor = "multi_thread")]
async fn vanished_server_fails_one_call_only() {
    let database = Cluster::shared().database();
    let proxy = Proxy::to(Cluster::shared().port());
    let store = Arc::new(PostgresStore::open(&url_through(proxy.port(), &database), 4).unwrap());
    store.migrate().await.unwrap();
    let (holder, watcher) = (outsider(&database).await, outsider(&database).await);
    holder.batch_execute("BEGIN; LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let calls: Vec<_> = (0..4)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.list().await })
        })
        .collect();
    until("there are four connections", async || sessions(&watcher).await == (4, 4)).await;
    holder.batch_execute("ROLLBACK").await.unwrap();
    join_all(calls).await.into_iter().for_each(|call| drop(call.unwrap().unwrap()));

    proxy.lose();
    unavailable(store.list().await);
    store.list().await.unwrap();
    create(&store, "F-1").await.unwrap();
}

/// A change of another system may hold an order for long. Orders of others are created meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn locked_order_delays_its_changes_shortly_and_other_orders_not_at_all() {
    let database = Cluster::shared().database();
    let store = Arc::new(PostgresStore::open(&database.url(), 8).unwrap());
    store.migrate().await.unwrap();
    let id = create(&store, "F-0").await.unwrap();
    let holder = outsider(&database).await;
    holder.batch_execute("BEGIN; UPDATE orders SET notary_id = 5").await.unwrap();
    let changes = (0..20).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { (store.update(&signed(id)).await, Instant::now()) })
    });
    let (began, changes): (_, Vec<_>) = (Instant::now(), changes.collect());
    for number in 1..20 {
        create(&store, &format!("F-{number}")).await.unwrap();
    }
    let created = began.elapsed();
    for (outcome, ended) in join_all(changes).await.into_iter().map(Result::unwrap) {
        let message = unavailable(outcome);
        assert!(ended - began < Duration::from_secs(3), "{message}");
    }
    assert!(created < Duration::from_secs(2), "{created:?}");
    holder.batch_execute("ROLLBACK").await.unwrap();
    assert!(store.update(&signed(id)).await.unwrap().is_some());
}

fn signed(id: OrderId) -> OrderUpdate {
    OrderUpdate {
        owner: LIVE,
        only_service: None,
        id,
        expected: Some(vec![NOW]),
        status: Some(OrderStatus::SIGNED),
        notary_id: None,
        notary: None,
        at: NOW + time::Duration::SECOND,
        actor: Actor::Service,
        reason: None,
        access: None,
    }
}

/// Another system has locked the order, and another client adds documents to it.
#[tokio::test]
async fn documents_wait_shortly_for_a_locked_order() {
    let (store, database) = store().await;
    let id = create(&store, "F-0").await.unwrap();
    let holder = outsider(&database).await;
    holder.batch_execute("BEGIN; UPDATE orders SET notary_id = 5").await.unwrap();
    let document = document();
    store.record(&[key_of(&document)], NOW).await.unwrap();
    let new = add_documents(id, DocumentKind::ToSign, vec![document]);
    let began = Instant::now();
    let rejected = store.change(&new).await.unwrap_err();
    assert!(matches!(rejected, WriteError::Unavailable(_)), "{rejected}");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    holder.batch_execute("ROLLBACK").await.unwrap();
    store.change(&new).await.unwrap();
}
