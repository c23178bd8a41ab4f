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
use crate::{
    ForeignChange,
    samples::{
        LIVE, NOW, Storage, WINDOW, attempt, claim, idempotency_key, idempotent_request, key_use,
        new_order,
    },
};

/// How many requests arrive at the same time.
const REQUESTS: u32 = 32;

fn following(after: Option<OrderId>, at: OffsetDateTime) -> NewOrder {
    NewOrder { only_after: Some(after), ..new_order("F-1", at) }
}

async fn set_status(storage: &Storage, id: OrderId, status: &'static str) {
    storage.other_system.change_order(id, ForeignChange::Status(status)).await;
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
        let orders = u64::try_from(round).unwrap();
        assert_eq!(storage.stats().await.events, orders * 2 - 1, "each before was ended");
        set_status(storage, *id, "SIGNED").await;
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
    set_status(storage, mine, "CANCELLED").await;
    let next = storage.create(&following(Some(mine), NOW)).await;
    set_status(storage, next, "DID_NOT_SIGN").await;
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

/// It may have been reinstated since the caller looked. An erased one takes none, whatever its status was.
pub async fn order_follows_only_one_that_takes_no_changes(storage: &Storage) {
    let mine = storage.create(&following(None, NOW)).await;
    for status in ["NEW", "ASSIGNED", "With the notary"] {
        set_status(storage, mine, status).await;
        for at in [NOW, NOW + WINDOW.0 * 9] {
            assert_eq!(duplicate_of(storage, &following(Some(mine), at), WINDOW).await, NOW);
        }
    }
    // It holds its file number all the while.
    assert_eq!(duplicate_of(storage, &new_order("F-1", NOW), WINDOW).await, NOW);
    // Also if the order of another client has taken it.
    let foreign = NewOrder { client: ClientId(77), ..following(None, NOW + WINDOW.0) };
    storage.create(&foreign).await;
    let later = NOW + WINDOW.0 * 9;
    assert_eq!(duplicate_of(storage, &following(Some(mine), later), WINDOW).await, NOW);

    let mut last = mine;
    for status in ["SIGNED", "COMPLETED", "DID_NOT_SIGN", "CANCELLED"] {
        set_status(storage, last, status).await;
        last = storage.create(&following(Some(last), later)).await;
    }
    storage.admin.erase(last, later, None).await.unwrap();
    storage.create(&following(Some(last), later)).await;
}

/// An instance of version 0.1.0 beside stores the decomposed form.
pub async fn file_number_in_another_form_is_in_use(storage: &Storage) {
    let order = |at| new_order("Jos\u{e9}-1", at);
    let mine = storage.create(&order(NOW)).await;
    storage.other_system.decompose_file_number(mine).await;
    let within = NOW + WINDOW.0 - Duration::MICROSECOND;
    assert_eq!(duplicate_of(storage, &order(within), WINDOW).await, NOW);
    let follower = |after, at| NewOrder { only_after: Some(after), ..order(at) };
    for after in [None, Some(mine)] {
        let later = NOW + WINDOW.0 * 9;
        assert_eq!(duplicate_of(storage, &follower(after, later), WINDOW).await, NOW, "{after:?}");
    }
    let newest = storage.reader.newest(LIVE, "Jos\u{e9}-1").await.unwrap();
    assert_eq!(newest.map(|(id, _)| id), Some(mine));
    set_status(storage, mine, "CANCELLED").await;
    let next = storage.create(&follower(Some(mine), NOW)).await;
    // Both forms stand beside each other now.
    assert_eq!(duplicate_of(storage, &follower(Some(mine), NOW), WINDOW).await, NOW);
    let newest = storage.reader.newest(LIVE, "Jos\u{e9}-1").await.unwrap();
    assert_eq!(newest.map(|(id, _)| id), Some(next));
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
