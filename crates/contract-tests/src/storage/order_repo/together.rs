//! Orders that are created at the same time. A store may commit them together; each has its own
//! outcome all the same.

use domain::{
    duplicate_window::DuplicateWindow,
    idempotency::{Answered, KeyUse},
    ports::{NewOrder, WriteError},
};
use time::Duration;

use super::{create_at_once, found};
use crate::samples::{
    LIVE, NOW, Storage, at_once, attempt, document, idempotency_key, key_of, keys_of, new_order,
    record_uploads, stored, with_key,
};

/// Duplicates, keys in use and swept uploads fail alone; the other orders are created with their
/// documents, and each has one event. Uploads of rejected orders stay in the ledger.
pub async fn concurrent_orders_have_their_own_outcomes(storage: &Storage) {
    let under = |order, key: &str| with_key(order, &attempt(&idempotency_key(1, key), 7));
    let before = storage.create(&under(new_order("before", NOW), "before")).await;
    let numbered = |number: usize, kind: &str, documents: usize| NewOrder {
        documents: (0..documents).map(|_| document()).collect(),
        ..new_order(&format!("{kind} {number}"), NOW)
    };
    let (mut orders, mut adopted, mut left) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..20 {
        let (good, swept) = (numbered(number, "good", number % 4), numbered(number, "swept", 2));
        adopted.extend(keys_of(&good.documents));
        record_uploads(storage, &good.documents).await;
        record_uploads(storage, &swept.documents).await;
        storage.condemn(&[key_of(&swept.documents[0])]).await;
        left.push(key_of(&swept.documents[1]));
        orders.extend([good, swept, new_order("before", NOW), new_order("twin", NOW)]);
        orders.push(under(numbered(number, "key in use", 0), "before"));
        orders.push(under(numbered(number, "own key", 0), &format!("own {number}")));
    }
    let (mut twins, mut created) = (0, vec![before]);
    for (outcome, order) in create_at_once(storage, orders.clone()).await.into_iter().zip(&orders) {
        let kind = order.order.file_number.as_str();
        match outcome {
            Err(WriteError::Duplicate { created_at }) if ["before", "twin"].contains(&kind) => {
                assert_eq!(created_at, NOW);
            }
            Err(WriteError::KeyInUse(taken)) if kind.starts_with("key in use") => {
                let fingerprint = attempt(&idempotency_key(1, "before"), 7).fingerprint;
                let answered =
                    Answered { fingerprint, order_id: before, added: None, changed_at: None };
                assert_eq!(taken, KeyUse::Answered(answered));
            }
            Err(WriteError::UploadSwept) if kind.starts_with("swept") => {}
            Ok(id) if ["good", "twin", "own key"].iter().any(|good| kind.starts_with(good)) => {
                twins += usize::from(kind == "twin");
                created.push(id);
                assert_eq!(found(storage, LIVE, id).await, Some(stored(id, order)));
            }
            outcome => panic!("{kind}: {outcome:?}"),
        }
    }
    assert_eq!((twins, created.len()), (1, 42));
    let events = storage.outbox.events(NOW, 1_000).await.unwrap();
    let mut with_event: Vec<_> = events.iter().map(|event| event.order_id).collect();
    with_event.sort_unstable();
    created.sort_unstable();
    assert_eq!(with_event, created, "rejected orders write nothing");
    assert_eq!(storage.condemn(&adopted).await, []);
    assert_eq!(storage.condemn(&left).await.len(), left.len());
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
