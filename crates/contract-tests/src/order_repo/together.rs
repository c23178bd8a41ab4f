//! Orders that are created at the same time. A store may commit them together; each has its own
//! outcome all the same.

use std::slice::from_ref;

use domain::{
    duplicate_window::DuplicateWindow,
    idempotency::{Answered, IdempotentRequest, KeyUse},
    order::OrderId,
    ports::{NewOrder, WriteError},
};
use futures_util::future::join_all;
use time::Duration;

use super::{create_at_once, found};
use crate::samples::{
    NOW, Storage, at_once, attempt, document, idempotency_key, keys_of, new_order, record_uploads,
    stored,
};

async fn assert_created(storage: &Storage, outcome: Result<OrderId, WriteError>, order: &NewOrder) {
    let id =
        outcome.unwrap_or_else(|error| panic!("{}: {error:?}", order.order.file_number.as_str()));
    assert_eq!(found(storage, order.client, id).await, Some(stored(id, order)));
}

fn with_key(order: NewOrder, key: &str) -> NewOrder {
    let kept_until = order.created_at + Duration::DAY;
    NewOrder {
        idempotent_request: Some(IdempotentRequest {
            attempt: attempt(&idempotency_key(1, key), 7),
            kept_until,
        }),
        ..order
    }
}

/// Duplicates, keys in use and swept uploads fail alone; the other orders are created.
pub async fn concurrent_orders_have_their_own_outcomes(storage: &Storage) {
    let before = storage.create(&with_key(new_order("before", NOW), "before")).await;
    let numbered = |number: usize, kind: &str| new_order(&format!("{kind} {number}"), NOW);
    let mut orders = Vec::new();
    for number in 0..20 {
        orders.push(numbered(number, "good"));
        orders.push(new_order("before", NOW));
        orders.push(with_key(numbered(number, "key in use"), "before"));
        orders.push(NewOrder { documents: vec![document()], ..numbered(number, "swept") });
        orders.push(new_order("twin", NOW));
        orders.push(with_key(numbered(number, "own key"), &format!("own {number}")));
    }
    let (mut twins, mut pending) = (0, 1);
    for (outcome, order) in create_at_once(storage, orders.clone()).await.into_iter().zip(&orders) {
        let kind = order.order.file_number.as_str();
        match outcome {
            Err(WriteError::Duplicate { created_at }) if ["before", "twin"].contains(&kind) => {
                assert_eq!(created_at, NOW);
            }
            Err(WriteError::KeyInUse(taken)) if kind.starts_with("key in use") => {
                let fingerprint = attempt(&idempotency_key(1, "before"), 7).fingerprint;
                assert_eq!(
                    taken,
                    KeyUse::Answered(Answered { fingerprint, order_id: before, added: None })
                );
            }
            Err(WriteError::UploadSwept) if kind.starts_with("swept") => {}
            outcome => {
                assert!(
                    ["good", "twin", "own key"].iter().any(|good| kind.starts_with(good)),
                    "{kind}: {outcome:?}"
                );
                twins += usize::from(kind == "twin");
                pending += 1;
                assert_created(storage, outcome, order).await;
            }
        }
    }
    assert_eq!((twins, pending), (1, 42));
    assert_eq!(storage.stats().await.events, pending, "rejected orders write nothing");
}

/// No order bars the file number, not even one that is created meanwhile.
pub async fn concurrent_orders_with_window_of_zero_are_created(storage: &Storage) {
    let none = DuplicateWindow(Duration::ZERO);
    let orders: Vec<_> = (0..30).map(|_| new_order("F-1", NOW)).collect();
    let calls = orders.iter().map(|order| storage.orders.create(order, none));
    for (outcome, order) in join_all(calls).await.into_iter().zip(&orders) {
        assert_created(storage, outcome, order).await;
    }
}

/// Each order is found with its own documents, and has one event.
pub async fn concurrent_orders_keep_their_documents_and_events(storage: &Storage) {
    let orders: Vec<_> = (0..40)
        .map(|number| NewOrder {
            documents: (0..number % 4).map(|_| document()).collect(),
            ..new_order(&format!("F-{number}"), NOW)
        })
        .collect();
    let keys: Vec<_> = orders.iter().flat_map(|order| keys_of(&order.documents)).collect();
    storage.record(&keys).await;
    let mut ids = Vec::new();
    for (outcome, order) in create_at_once(storage, orders.clone()).await.into_iter().zip(orders) {
        ids.push(*outcome.as_ref().unwrap());
        assert_created(storage, outcome, &order).await;
    }
    assert_eq!(storage.condemn(&keys).await, [], "all were adopted");
    let events = storage.outbox.events(NOW, 1_000).await.unwrap();
    let mut with_event: Vec<_> = events.iter().map(|event| event.order_id).collect();
    with_event.sort_unstable();
    ids.sort_unstable();
    assert_eq!(with_event, ids);
}

/// The uploads of the others are adopted. Its own stay in the ledger.
pub async fn concurrent_order_with_condemned_upload_fails_alone(storage: &Storage) {
    let (condemned, live) = (document(), document());
    let good: Vec<_> = (0..20)
        .map(|number| NewOrder {
            documents: vec![document()],
            ..new_order(&format!("F-{number}"), NOW)
        })
        .collect();
    let bad =
        NewOrder { documents: vec![condemned.clone(), live.clone()], ..new_order("bad", NOW) };
    let mut orders = good.clone();
    orders.insert(7, bad.clone());
    for order in &orders {
        record_uploads(storage, &order.documents).await;
    }
    storage.condemn(from_ref(&condemned.key)).await;
    for (outcome, order) in create_at_once(storage, orders.clone()).await.into_iter().zip(&orders) {
        if *order == bad {
            assert!(matches!(outcome, Err(WriteError::UploadSwept)), "{outcome:?}");
        } else {
            assert_created(storage, outcome, order).await;
        }
    }
    assert_eq!(storage.condemn(from_ref(&live.key)).await, [live.key]);
    storage.create(&NewOrder { documents: vec![], ..bad }).await;
}

/// Mixes test orders and real ones, and windows of different lengths.
pub async fn concurrent_orders_have_their_own_kinds_and_windows(storage: &Storage) {
    for number in 0..10 {
        storage.create(&new_order(&format!("F-{number}"), NOW)).await;
    }
    let later = NOW + Duration::seconds(30);
    let (short, long) =
        (DuplicateWindow(Duration::seconds(30)), DuplicateWindow(Duration::seconds(31)));
    let calls = (0..30).map(|number| {
        let repo = storage.orders.clone();
        let is_test = number >= 20;
        let order = NewOrder { is_test, ..new_order(&format!("F-{}", number % 10), later) };
        let window = if number % 2 == 0 { short } else { long };
        async move { repo.create(&order, window).await }
    });
    for (number, outcome) in at_once(calls).await.into_iter().enumerate() {
        let as_expected = match &outcome {
            // The earlier orders are real ones.
            Ok(_) => number >= 20 || number % 2 == 0,
            Err(WriteError::Duplicate { .. }) => number < 20,
            Err(_) => false,
        };
        assert!(as_expected, "{number}: {outcome:?}");
    }
    let stored = storage.stats().await.events;
    // Ten earlier orders, ten test orders, and one for each of five numbers with the short window.
    assert_eq!(stored, 25);
}
