//! Servers that make the store wait, and pools without a free connection.

use std::{sync::Arc, time::Duration};

use adapter_postgres::TimeLimits;
use contract_tests::samples::{
    CLIENT, LIVE, NOW, WINDOW, add_documents, add_note, document, key_of, new_order, to_sign,
    withdraw,
};
use domain::{
    api_key::{ClientId, Owner},
    document::DocumentKind,
    order::{Actor, Due, OrderId, OrderStatus, Retained},
    ports::{
        ApiKeyRepo as _, Download, NewOrder, OrderRepo as _, OrderUpdate, UploadLedger as _,
        WriteError,
    },
};
use futures_util::future::join_all;
use test_servers::{postgres::Cluster, proxy::Proxy};

use super::{
    GENEROUS, PostgresStore, SHORT, create, database, log_line, not_created, open, outsider,
    sessions, sleep, store_with, unanswered, unavailable, until, url_through,
};

/// Connections of a start: two look for a pooler, of which one looks for missing migrations, and another
/// applies them.
const AT_START: usize = 3;

#[tokio::test]
async fn server_ends_statement_before_caller() {
    let limits = TimeLimits { statement: Duration::from_secs(1), ..GENEROUS };
    let (store, database) = store_with(limits).await;
    let holder = outsider(&database).await;
    holder.batch_execute("BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let message = not_created(create(&store, "F-1").await);
    assert!(message.contains("statement timeout"), "{message}");
    holder.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(database.sql("SELECT count(*) FROM orders"), "0", "the order was not created");
    create(&open(&database.url(), 1), "F-1").await.unwrap();
}

#[tokio::test]
async fn call_without_a_connection_fails() {
    for connections in [1, 2] {
        let database = database().await;
        let proxy = Proxy::to(Cluster::shared().port());
        let url = url_through(proxy.port(), &database);
        let store = Arc::new(PostgresStore::open(&url, connections, SHORT).unwrap());
        create(&store, "F-0").await.unwrap();
        proxy.stall();
        let calls = (0..10).map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                // The first takes a connection before the others come.
                sleep(Duration::from_millis(number)).await;
                create(&store, &format!("F-{number}")).await
            })
        });
        for rejected in unanswered(join_all(calls)).await.into_iter().map(Result::unwrap) {
            not_created(rejected);
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
    let store = Arc::new(open(&url_through(proxy.port(), &database), 3));
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
    let store = Arc::new(open(&url_through(proxy.port(), &database), 1));
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
    let store = Arc::new(open(&url_through(proxy.port(), &database), 1));
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

#[tokio::test]
async fn vanished_server_fails_one_call_only() {
    let database = database().await;
    let proxy = Proxy::to(Cluster::shared().port());
    let url = url_through(proxy.port(), &database);
    let store = Arc::new(PostgresStore::open(&url, 4, SHORT).unwrap());
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
    unavailable(unanswered(store.list()).await);
    store.list().await.unwrap();
    create(&store, "F-1").await.unwrap();
}

/// A change of another system may hold an order for long.
#[tokio::test(flavor = "multi_thread")]
async fn orders_are_created_while_changes_wait_for_a_locked_order() {
    let database = database().await;
    let store = Arc::new(open(&database.url(), 8));
    let id = create(&store, "F-0").await.unwrap();
    let holder = outsider(&database).await;
    holder.batch_execute("BEGIN; UPDATE orders SET notary_id = 5").await.unwrap();
    let changes = (0..20).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.update(&signed(id)).await })
    });
    let changes: Vec<_> = changes.collect();
    let uploads = (0..20).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(
            async move { store.record_for(LIVE.party, id, &[key_of(&document())], NOW).await },
        )
    });
    let uploads: Vec<_> = uploads.collect();
    let watcher = outsider(&database).await;
    until("changes wait", async || sessions(&watcher).await.1 == 1).await;
    for number in 1..20 {
        create(&store, &format!("F-{number}")).await.unwrap();
    }
    assert!(!changes.iter().any(tokio::task::JoinHandle::is_finished), "the order is locked");
    holder.batch_execute("ROLLBACK").await.unwrap();
    let outcomes = join_all(changes).await.into_iter().map(|change| change.unwrap().unwrap());
    assert_eq!(outcomes.flatten().count(), 1, "the others name a version that is gone");
    assert!(join_all(uploads).await.into_iter().all(|recorded| recorded.unwrap().unwrap()));
}

/// One client changes an order that another system holds, and adds documents to it.
#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_locked_order_do_not_hold_up_those_of_other_clients() {
    let database = database().await;
    let store = Arc::new(open(&database.url(), 8));
    let id = create(&store, "F-0").await.unwrap();
    let other = Owner::client(ClientId(CLIENT.0 + 1), false);
    let of_other = NewOrder { client: ClientId(CLIENT.0 + 1), ..new_order("F-1", NOW) };
    let free = store.create(&of_other, WINDOW).await.unwrap();
    let holder = outsider(&database).await;
    let lock = format!("BEGIN; SELECT FROM orders WHERE id = {} FOR UPDATE", id.0);
    holder.batch_execute(&lock).await.unwrap();
    let changes: Vec<_> = (0..40)
        .map(|at| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                if at % 2 == 0 {
                    drop(store.update(&signed(id)).await);
                } else {
                    drop(store.record_for(LIVE.party, id, &[key_of(&document())], NOW).await);
                }
            })
        })
        .collect();
    let watcher = outsider(&database).await;
    until("a change waits", async || sessions(&watcher).await.1 > 0).await;

    let of_free = OrderUpdate { owner: other, ..signed(free) };
    assert!(store.update(&of_free).await.unwrap().is_some());
    let key = key_of(&document());
    assert!(store.record_for(other.party, free, &[key], NOW).await.unwrap());

    assert!(!changes.iter().any(tokio::task::JoinHandle::is_finished), "the order is locked");
    holder.batch_execute("ROLLBACK").await.unwrap();
    join_all(changes).await.into_iter().for_each(Result::unwrap);
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

/// Another system holds the order. Each operation that touches it fails after the limit of locks, long before
/// that of statements, or passes over it.
#[tokio::test]
async fn no_operation_of_a_client_or_worker_waits_longer_for_a_locked_order() {
    let limits = TimeLimits { lock: Duration::from_millis(100), ..GENEROUS };
    let (store, database) = store_with(limits).await;
    let first = document();
    store.record(&[key_of(&first)], NOW).await.unwrap();
    let order = NewOrder { documents: vec![first], ..new_order("F-0", NOW) };
    let id = store.create(&order, WINDOW).await.unwrap();
    let added = document();
    store.record(&[key_of(&added)], NOW).await.unwrap();
    let holder = outsider(&database).await;
    holder.batch_execute("BEGIN; SELECT FROM orders FOR UPDATE").await.unwrap();

    let due = Due { what: Retained::Orders, before: NOW + time::Duration::days(9_000), now: NOW };
    for what in [Retained::Orders, Retained::Documents] {
        let erased = domain::ports::OrderAdmin::erase_due(
            &store,
            Due { what, ..due },
            vec![id],
            Arc::new(|_: OrderId| None),
        )
        .await;
        assert_eq!(erased.unwrap().unwrap().orders, [], "{what:?}");
    }
    let commands = [
        add_documents(id, DocumentKind::ToSign, vec![added.clone()]),
        add_documents(id, DocumentKind::Signed, vec![added]),
        add_note(id, Actor::Client, "a"),
        withdraw(to_sign(id, 0)),
    ];
    let mut outcomes = Vec::new();
    for command in &commands {
        let refused = store.change(command).await.unwrap_err();
        assert!(matches!(refused, WriteError::Unavailable(_)), "{refused}");
        outcomes.push(log_line(&refused));
    }
    outcomes.push(unavailable(store.update(&signed(id)).await));
    outcomes.push(unavailable(store.record_for(LIVE.party, id, &[key_of(&document())], NOW).await));
    let download = Download { document: to_sign(id, 0), at: NOW };
    outcomes.push(unavailable(store.note_downloads(&[download]).await));
    // It takes the file number of the locked order.
    outcomes.push(not_created(store.create(&new_order("F-0", NOW + WINDOW.0), WINDOW).await));
    for outcome in outcomes {
        assert!(outcome.contains("lock timeout"), "{outcome}");
    }
    holder.batch_execute("ROLLBACK").await.unwrap();
    assert!(store.record_for(LIVE.party, id, &[key_of(&document())], NOW).await.unwrap());
}

/// A transaction, and a single statement, which sets its limit itself.
#[tokio::test]
async fn change_of_a_locked_order_fails_after_the_limit_of_locks() {
    let limits = TimeLimits { lock: Duration::from_millis(100), ..GENEROUS };
    let (store, database) = store_with(limits).await;
    let id = create(&store, "F-0").await.unwrap();
    let holder = outsider(&database).await;
    holder.batch_execute("BEGIN; UPDATE orders SET notary_id = 5").await.unwrap();
    let document = document();
    store.record(&[key_of(&document)], NOW).await.unwrap();
    let new = add_documents(id, DocumentKind::ToSign, vec![document]);
    let rejected = store.change(&new).await.unwrap_err();
    assert!(matches!(rejected, WriteError::Unavailable(_)), "{rejected}");
    let message = unavailable(store.update(&signed(id)).await);
    assert!(message.contains("lock timeout"), "{message}");
    holder.batch_execute("ROLLBACK").await.unwrap();
    store.change(&new).await.unwrap();
}
