//! Round trips of a call, counted on the wire.

use std::{collections::HashSet, future::Future};

use contract_tests::samples::{
    CLIENT, MICROSECOND, NOW, WINDOW, api_key, attempt, claim, delivery, document, enqueue,
    idempotency_key, new_order, object_key, settle,
};
use domain::{
    idempotency::IdempotentRequest,
    ports::{
        ApiKeyRepo, CreateError, Cursor, DeliveryQueue as _, IdempotencyLedger as _, NewOrder,
        OrderReader, OrderRepo as _, PageQuery, Settlement, UploadLedger as _,
    },
};
use futures_util::future::join_all;
use test_servers::{postgres::Cluster, proxy::Proxy};
use time::Duration;

use super::{PostgresStore, is_duplicate, url_through};

/// Returns a store with one connection, and the proxy that counts its round trips.
async fn wired() -> (PostgresStore, Proxy) {
    let database = Cluster::shared().database();
    let proxy = Proxy::to(Cluster::shared().port());
    let store = PostgresStore::open(&url_through(proxy.port(), &database), 1).unwrap();
    store.migrate().await.unwrap();
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

#[tokio::test]
async fn order_is_created_in_one_round_trip() {
    let (store, proxy) = wired().await;
    let mut number = 0;
    for round in 0..2 {
        for documents in [0, 1, 20, 3] {
            number += 1;
            let order = order(number, documents);
            let keys: Vec<_> =
                order.documents.iter().map(|document| document.key.clone()).collect();
            store.record(&keys, NOW).await.unwrap();
            let (stored, round_trips) = counted(&proxy, store.create(&order, WINDOW)).await;
            stored.unwrap();
            // The first round prepares the statements.
            assert!(round == 0 || round_trips == 1, "{documents} documents: {round_trips}");
        }
    }
}

#[tokio::test]
async fn waiting_orders_share_a_round_trip() {
    let (store, proxy) = wired().await;
    // Prepares the statement.
    let first: Vec<_> = (129..=130).map(|number| order(number, 0)).collect();
    join_all(first.iter().map(|order| store.create(order, WINDOW))).await;
    let orders: Vec<_> = (1..=128).map(|number| order(number, 0)).collect();
    let (stored, round_trips) =
        counted(&proxy, join_all(orders.iter().map(|order| store.create(order, WINDOW)))).await;
    let ids: HashSet<_> = stored.into_iter().map(Result::unwrap).collect();
    assert_eq!((ids.len(), round_trips), (128, 2));
}

#[tokio::test]
async fn duplicates_of_a_batch_share_a_round_trip() {
    let (store, proxy) = wired().await;
    store.create(&order(0, 0), WINDOW).await.unwrap();
    store.create(&order(0, 0), WINDOW).await.unwrap_err();
    let orders: Vec<_> = (1..=32).map(|number| order(number, 0)).collect();
    join_all(orders.iter().map(|order| store.create(order, WINDOW))).await;
    let (rejected, round_trips) =
        counted(&proxy, join_all(orders.iter().map(|order| store.create(order, WINDOW)))).await;
    assert!(rejected.iter().all(is_duplicate));
    assert_eq!(round_trips, 2);
}

#[tokio::test]
async fn idempotency_key_takes_no_extra_round_trip() {
    let (store, proxy) = wired().await;
    let with_key = |number: usize| {
        let attempt = attempt(&idempotency_key(1, &format!("key {number}")), 7);
        NewOrder {
            idempotent_request: Some(IdempotentRequest {
                attempt,
                kept_until: NOW + Duration::DAY,
            }),
            ..order(number, 0)
        }
    };
    store.create(&with_key(0), WINDOW).await.unwrap();
    store.create(&with_key(0), WINDOW).await.unwrap_err();
    for number in 1..4 {
        let (stored, round_trips) = counted(&proxy, store.create(&with_key(number), WINDOW)).await;
        stored.unwrap();
        assert_eq!(round_trips, 1);
        let (rejected, round_trips) =
            counted(&proxy, store.create(&with_key(number), WINDOW)).await;
        assert!(matches!(rejected, Err(CreateError::KeyInUse(_))), "{rejected:?}");
        assert_eq!(round_trips, 2);
    }
    for round in 0..2 {
        let claim = claim(&idempotency_key(2, "in progress"));
        let (claimed, first) =
            counted(&proxy, store.claim(&claim, NOW, NOW + Duration::MINUTE)).await;
        let (released, second) = counted(&proxy, store.release(&claim)).await;
        claimed.unwrap();
        released.unwrap();
        assert!(round == 0 || (first, second) == (1, 1), "{first}, {second}");
    }
}

#[tokio::test]
async fn duplicate_takes_a_second_round_trip() {
    let (store, proxy) = wired().await;
    store.create(&order(0, 0), WINDOW).await.unwrap();
    store.create(&order(0, 0), WINDOW).await.unwrap_err();
    let (rejected, round_trips) = counted(&proxy, store.create(&order(0, 0), WINDOW)).await;
    assert!(matches!(rejected, Err(CreateError::Duplicate { .. })), "{rejected:?}");
    assert_eq!(round_trips, 2);
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
            let (leased, for_the_lease) =
                counted(&proxy, store.lease(NOW, Duration::MINUTE, 1)).await;
            let lease = &leased.unwrap()[0];
            let (settled, for_the_settlement) =
                counted(&proxy, settle(&store, lease, settlement)).await;
            assert!(settled);
            // The first round prepares the statements.
            assert!(
                round == 0 || (for_the_lease, for_the_settlement) == (1, 1),
                "{settlement:?}: {for_the_lease}, {for_the_settlement}"
            );
        }
    }
}

#[tokio::test]
async fn read_takes_one_round_trip_and_a_later_page_two() {
    let (store, proxy) = wired().await;
    let order = order(0, 3);
    let keys: Vec<_> = order.documents.iter().map(|document| document.key.clone()).collect();
    store.record(&keys, NOW).await.unwrap();
    let id = store.create(&order, WINDOW).await.unwrap();
    let page = |cursor| PageQuery {
        file_number: None,
        created_after: None,
        created_before: None,
        limit: 20,
        cursor,
    };
    let pages = [Cursor::Newest, Cursor::OlderThan(id), Cursor::NewerThan(id)].map(page);
    for round in 0..2 {
        let mut took = Vec::new();
        let (read, round_trips) = counted(&proxy, OrderReader::order(&store, CLIENT, id)).await;
        assert!(read.unwrap().is_some());
        took.push(round_trips);
        let (read, round_trips) = counted(&proxy, store.document(CLIENT, id, 2)).await;
        assert!(read.unwrap().is_some());
        took.push(round_trips);
        for page in &pages {
            let (read, round_trips) =
                counted(&proxy, OrderReader::page(&store, CLIENT, page)).await;
            assert!(read.unwrap().is_some());
            took.push(round_trips);
        }
        // The first round prepares the statements.
        assert!(round == 0 || took == [1, 1, 1, 2, 2], "{took:?}");
    }
    let reads = (0..64).map(|_| OrderReader::order(&store, CLIENT, id));
    let (read, round_trips) = counted(&proxy, join_all(reads)).await;
    assert!(read.into_iter().all(|read| read.unwrap().is_some()));
    assert_eq!(round_trips, 1);
}

#[tokio::test]
async fn key_is_found_in_one_round_trip() {
    let (store, proxy) = wired().await;
    let key = api_key(NOW);
    store.add(&key, "jane").await.unwrap();
    ApiKeyRepo::find(&store, &key.lookup).await.unwrap();
    for lookup in [key.lookup.as_str(), "00000000000000aa", &key.lookup] {
        let (found, round_trips) = counted(&proxy, ApiKeyRepo::find(&store, lookup)).await;
        assert_eq!((found.unwrap().is_some(), round_trips), (lookup == key.lookup, 1));
    }
}

#[tokio::test]
async fn upload_calls_take_one_round_trip_each() {
    let (store, proxy) = wired().await;
    for round in 0..2 {
        let keys: Vec<_> = (0..20).map(|_| object_key()).collect();
        let (recorded, first) = counted(&proxy, store.record(&keys, NOW)).await;
        let (condemned, second) = counted(&proxy, store.condemn(&keys)).await;
        let (swept, third) =
            counted(&proxy, store.condemn_recorded_before(NOW + MICROSECOND, 50)).await;
        let (forgotten, fourth) = counted(&proxy, store.forget(&keys)).await;
        recorded.and(forgotten).unwrap();
        assert_eq!((condemned.unwrap().len(), swept.unwrap().len()), (20, 20));
        assert!(
            round == 0 || [first, second, third, fourth] == [1; 4],
            "{first}, {second}, {third}, {fourth}"
        );
    }
}
