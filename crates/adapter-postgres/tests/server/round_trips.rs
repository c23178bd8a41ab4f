//! Round trips of a call, counted on the wire.

use std::{collections::HashSet, future::Future};

use contract_tests::samples::{
    LIVE, NOW, WINDOW, access, api_key, attempt, claim, delivery, document, enqueue,
    idempotency_key, key_of, new_order, object_key, settle, to_sign,
};
use domain::{
    idempotency::IdempotentRequest,
    order::{Actor, OrderStatus},
    ports::{
        AccessFilter, AccessLog, ApiKeyRepo, Cursor, DeliveryQueue as _, IdempotencyLedger as _,
        ListFilter, NewOrder, OrderReader, OrderRepo as _, OrderUpdate, PageQuery, Settlement,
        UploadLedger as _, WriteError,
    },
};
use futures_util::future::join_all;
use test_servers::{postgres::Cluster, proxy::Proxy};
use time::Duration;

use super::{PostgresStore, database, is_duplicate, open, url_through};

/// Returns a store with one connection, and the proxy that counts its round trips.
async fn wired() -> (PostgresStore, Proxy) {
    let database = database().await;
    let proxy = Proxy::to(Cluster::shared().port());
    let store = open(&url_through(proxy.port(), &database), 1);
    (store, proxy)
}

async fn counted<T>(proxy: &Proxy, call: impl Future<Output = T>) -> (T, usize) {
    let before = proxy.round_trips();
    let outcome = call.await;
    (outcome, proxy.round_trips() - before)
}

fn order(number: usize, documents: usize) -> NewOrder {
    NewOrder {
        documents: (0..documents).map(|_| document()).collect(),
        ..new_order(&format!("F-{number}"), NOW)
    }
}

fn with_key(number: usize, documents: usize) -> NewOrder {
    let attempt = attempt(&idempotency_key(1, &format!("key {number}")), 7);
    let kept_until = NOW + Duration::DAY;
    let idempotent_request = Some(IdempotentRequest { attempt, kept_until });
    NewOrder { idempotent_request, ..order(number, documents) }
}

#[tokio::test]
async fn order_takes_one_round_trip_and_a_rejected_one_two_or_three() {
    let (store, proxy) = wired().await;
    for number in 0..8 {
        let documents = [0, 1, 20, 3][number % 4];
        for (order, again) in
            [(order(2 * number, documents), 2), (with_key(2 * number + 1, documents), 3)]
        {
            let keys: Vec<_> = order.documents.iter().map(key_of).collect();
            store.record(&keys, NOW).await.unwrap();
            let (stored, first) = counted(&proxy, store.create(&order, WINDOW)).await;
            stored.unwrap();
            let (rejected, second) = counted(&proxy, store.create(&order, WINDOW)).await;
            let (is_duplicate, rejected) = (is_duplicate(&rejected), rejected.unwrap_err());
            assert!(is_duplicate || matches!(rejected, WriteError::KeyInUse(_)), "{rejected:?}");
            // The first round prepares the statements.
            assert!(number == 0 || (first, second) == (1, again), "{order:?}: {first}, {second}");
        }
    }
}

#[tokio::test]
async fn waiting_orders_share_round_trips() {
    let (store, proxy) = wired().await;
    // Prepares the statements.
    store.create(&order(0, 0), WINDOW).await.unwrap();
    store.create(&order(0, 0), WINDOW).await.unwrap_err();
    let orders: Vec<_> = (1..=128).map(|number| order(number, 0)).collect();
    let create = || join_all(orders.iter().map(|order| store.create(order, WINDOW)));
    let (stored, round_trips) = counted(&proxy, create()).await;
    let ids: HashSet<_> = stored.into_iter().map(Result::unwrap).collect();
    assert_eq!((ids.len(), round_trips), (128, 2));
    let (rejected, round_trips) = counted(&proxy, create()).await;
    assert!(rejected.iter().all(is_duplicate));
    assert_eq!(round_trips, 4);
}

/// Counts the round trips of calls that must succeed.
macro_rules! round_trips {
    ($proxy:expr, $($call:expr),* $(,)?) => {[$({
        let (outcome, round_trips) = counted($proxy, $call).await;
        outcome.unwrap();
        round_trips
    }),*]};
}

#[tokio::test]
async fn other_calls_take_one_round_trip_an_order_and_a_later_page_three_or_four() {
    let (store, proxy) = wired().await;
    let sample = order(0, 3);
    let keys: Vec<_> = sample.documents.iter().map(key_of).collect();
    store.record(&keys, NOW).await.unwrap();
    let id = store.create(&sample, WINDOW).await.unwrap();
    let key = api_key(NOW);
    store.add(&key, "jane").await.unwrap();
    let claim = claim(&idempotency_key(2, "in progress"));
    let page = |cursor| PageQuery {
        filter: ListFilter::default(),
        limit: 20,
        cursor,
        cursor_starts: None,
    };
    let pages = [Cursor::Newest, Cursor::OlderThan(id), Cursor::NewerThan(id)].map(page);
    for round in 0..2 {
        let keys: Vec<_> = (0..20).map(|_| object_key()).collect();
        let took = round_trips!(
            &proxy,
            OrderReader::order(&store, LIVE, id),
            store.document(LIVE, to_sign(id, 2)),
            ApiKeyRepo::find(&store, &key.lookup),
            ApiKeyRepo::find(&store, "00000000000000aa"),
            store.claim(&claim, NOW, NOW + Duration::MINUTE),
            store.release(&claim),
            store.record(&keys, NOW),
            OrderReader::page(&store, LIVE, &pages[0]),
            OrderReader::page(&store, LIVE, &pages[1]),
            OrderReader::page(&store, LIVE, &pages[2]),
        );
        // The first round prepares the statements.
        assert!(round == 0 || took == [3, 1, 1, 1, 1, 1, 1, 1, 3, 4], "{took:?}");
    }
}

/// With the access that makes it. Accesses of reads are one statement too.
#[tokio::test]
async fn change_and_accesses_take_one_round_trip_each() {
    let (store, proxy) = wired().await;
    let id = store.create(&order(0, 0), WINDOW).await.unwrap();
    for round in 0..4 {
        let batch: Vec<_> = (0..500).map(|number| access(1000 * round + number, id)).collect();
        let update = OrderUpdate {
            owner: LIVE,
            only_service: None,
            id,
            expected: None,
            status: OrderStatus::named(format!("S{round}")),
            notary_id: None,
            notary: None,
            at: NOW,
            actor: Actor::Client,
            reason: None,
            access: Some(access(1000 * round + 999, id)),
        };
        let took = round_trips!(&proxy, store.update(&update), store.store(&batch));
        // The first round prepares the statements.
        assert!(round == 0 || took == [1, 1], "{took:?}");
    }
    assert_eq!(
        AccessLog::list(&store, &AccessFilter::default(), None, 9_999).await.unwrap().len(),
        2004
    );
}

#[tokio::test]
async fn lease_and_settlement_take_one_round_trip_each() {
    let (store, proxy) = wired().await;
    enqueue(&store, &order(0, 0), (0..8).map(delivery).collect()).await;
    let error = || "busy".to_owned();
    let due_at = NOW + Duration::HOUR;
    let settlements = [
        Settlement::Done,
        Settlement::RetryAt { due_at, error: error() },
        Settlement::Postpone { due_at, error: error() },
        Settlement::Fail { at: NOW, error: error() },
    ];
    for round in 0..2 {
        for settlement in &settlements {
            let (leased, first) = counted(&proxy, store.lease(NOW, Duration::MINUTE, 1)).await;
            let lease = &leased.unwrap()[0];
            let (settled, second) = counted(&proxy, settle(&store, lease, settlement)).await;
            assert!(settled);
            // The first round prepares the statements.
            assert!(round == 0 || (first, second) == (1, 1), "{settlement:?}: {first}, {second}");
        }
    }
}
