//! Orders that are created as their client's newest with a file number, and amendments under idempotency keys: what
//! `PUT /api/order?file_number=` needs.

use domain::{
    api_key::ClientId,
    idempotency::{Answered, KeyUse},
    order::{OrderId, StoredOrder},
    ports::{Changed, NewOrder, OrderCommandRequest, WriteError},
};
use time::{Duration, OffsetDateTime};

use super::{amending::amendment, changing, create_at_once, duplicate_of, found};
use crate::samples::{
    LIVE, NOW, Storage, WINDOW, attempt, claim, idempotency_key, idempotent_request, key_use,
    new_order,
};

/// How many requests arrive at the same time.
const REQUESTS: u32 = 32;

fn following(after: Option<OrderId>, at: OffsetDateTime) -> NewOrder {
    NewOrder { only_after: Some(after), ..new_order("F-1", at) }
}

/// Returns requests to follow an order. Each is later by a window than the one before: the clock of its instance is
/// ahead, or it has waited so long.
fn concurrent_followers(after: Option<OrderId>, from: OffsetDateTime) -> Vec<NewOrder> {
    (0..REQUESTS).map(|number| following(after, from + number * WINDOW.0)).collect()
}

/// Whatever the window and the clocks, for a new file number and after an order that takes no changes any more.
pub async fn one_of_concurrent_orders_after_the_newest_is_created(storage: &Storage) {
    let mut after = None;
    for round in 1..4 {
        let from = NOW + Duration::DAY * round;
        let outcomes = create_at_once(storage, concurrent_followers(after, from)).await;
        let created: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
        let [id] = created[..] else { panic!("{outcomes:?}") };
        let StoredOrder { created_at, .. } = found(storage, LIVE, *id).await.unwrap();
        for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
            let of_that_one =
                matches!(error, WriteError::Duplicate { created_at: at } if *at == created_at);
            assert!(of_that_one, "{error}");
        }
        after = Some(*id);
        assert_eq!(storage.stats().await.events, u64::try_from(round).unwrap());
    }
}

/// An order of another client bars its file number within its window, and nothing after it.
pub async fn order_follows_only_the_newest_of_its_client(storage: &Storage) {
    let later = |windows: i32| NOW + windows * WINDOW.0;
    let mine = storage.create(&following(None, NOW)).await;
    // The order that is followed bars nothing, and any other one does, whatever the window.
    for at in [NOW, later(1), later(9)] {
        assert_eq!(duplicate_of(storage, &following(None, at), WINDOW).await, NOW);
    }
    let next = storage.create(&following(Some(mine), NOW)).await;
    assert_eq!(duplicate_of(storage, &following(Some(mine), later(9)), WINDOW).await, NOW);

    // Another client takes the file number: its order bars, and the newest of the client stays the newest.
    let foreign = NewOrder { client: ClientId(77), ..following(None, later(2)) };
    storage.create(&foreign).await;
    let barred = following(Some(next), later(3) - Duration::MICROSECOND);
    assert_eq!(duplicate_of(storage, &barred, WINDOW).await, later(2));
    assert_eq!(duplicate_of(storage, &following(Some(mine), later(9)), WINDOW).await, NOW);
    let last = storage.create(&following(Some(next), later(3))).await;

    // Test orders have file numbers of their own, and an erased order has none.
    storage.create(&NewOrder { is_test: true, ..following(None, later(3)) }).await;
    storage.admin.erase(last, later(3), None).await.unwrap();
    storage.create(&following(Some(next), later(3))).await;
}

/// The key then stands for the order as of the change, also if nothing was changed.
pub async fn amendment_is_stored_under_its_key(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let later = NOW + Duration::DAY;
    for (key, lender, changes) in [("first", "A", 1), ("same", "A", 2), ("other", "B", 3)] {
        let attempt = attempt(&idempotency_key(3, key), 7);
        let new = amendment(id, "F-1", lender);
        let idempotent_request = idempotent_request(&attempt, new.at);
        let new = OrderCommandRequest { idempotent_request, ..new };
        let Changed::Amended(amended) = storage.orders.change(&new).await.unwrap() else {
            panic!()
        };
        let order = found(storage, LIVE, id).await.unwrap();
        assert_eq!(order.changes.len(), changes, "{key}");
        // Changes since do not change the answer.
        let update = changing::update(id, amended.stored.updated_at, "ASSIGNED");
        storage.orders.update(&update).await.unwrap();
        let (fingerprint, changed_at) = (attempt.fingerprint, Some(amended.stored.updated_at));
        let answered = Answered { fingerprint, order_id: id, added: None, changed_at };
        let (claims, key) = (&storage.idempotency, &attempt.claim.key);
        assert_eq!(
            key_use(claims.claim(&claim(key), NOW, later).await),
            KeyUse::Answered(answered)
        );
        // Also before anything else of the order.
        for order in [id, OrderId(0)] {
            let again = OrderCommandRequest { order, ..new.clone() };
            let taken = key_use(storage.orders.change(&again).await);
            assert_eq!(taken, KeyUse::Answered(answered));
        }
    }
}
