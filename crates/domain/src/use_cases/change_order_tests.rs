use std::sync::Mutex;

use time::{Duration, OffsetDateTime, macros::datetime};

use super::*;
use crate::{
    api_key::ClientId,
    ports::{Kept, MockOrderReader, MockOrderRepo},
    test_support::{clock, stored_order},
};

const NOW: OffsetDateTime = datetime!(2026-12-01 12:00 UTC);
const ID: OrderId = OrderId(1);
const OWNER: Owner = Owner::client(ClientId(1), false);
const SERVICE: Changer = Changer {
    owner: Owner { party: Party::Service(SigningServiceId(42)), is_test: false },
    actor: Actor::Service,
    only_service: None,
};
const CLIENT: Changer = Changer { owner: OWNER, actor: Actor::Client, only_service: None };
const OPERATOR: Changer = Changer { actor: Actor::Operator, ..CLIENT };

fn status(text: &str) -> OrderStatus {
    OrderStatus::from_stored(text.to_owned()).unwrap()
}

fn order(text: &str) -> StoredOrder {
    StoredOrder { status: status(text), ..stored_order(NOW - Duration::HOUR) }
}

fn assign(text: &str, notary: i64) -> ChangeRequest {
    ChangeRequest { status: Some(status(text)), notary_id: Some(Some(notary)) }
}

/// The use case on an order. The store takes a change after it has refused some.
fn use_case(order: StoredOrder, refused: usize) -> (ChangeOrder, Arc<Mutex<Vec<OrderUpdate>>>) {
    let (mut reader, mut orders) = (MockOrderReader::new(), MockOrderRepo::new());
    reader.expect_order().returning(move |_, _| Ok(Some(Kept::Whole(order.clone()))));
    let updates = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&updates);
    orders.expect_update().returning(move |update| {
        let mut seen = seen.lock().unwrap();
        seen.push(update.clone());
        Ok(seen.len() > refused)
    });
    let (orders, reader) = (Arc::new(orders), Arc::new(reader));
    (ChangeOrder { orders, reader, clock: clock(NOW) }, updates)
}

#[tokio::test]
async fn change_is_stored_with_its_actor_and_returned_with_its_history() {
    for changer in [SERVICE, OPERATOR] {
        let (use_case, updates) = use_case(order("NEW"), 0);
        let changed = use_case.change(changer, ID, &assign("ASSIGNED", 5), |_| true).await.unwrap();

        let change = OrderChange {
            at: NOW,
            status: status("ASSIGNED"),
            notary_id: Some(5),
            actor: changer.actor,
            reason: None,
        };
        let seen = NOW - Duration::HOUR;
        let update = OrderUpdate { owner: changer.owner, id: ID, seen, change: change.clone() };
        assert_eq!(*updates.lock().unwrap(), [update]);
        assert_eq!((&changed.status, changed.notary_id), (&status("ASSIGNED"), Some(5)));
        assert_eq!(changed.updated_at, NOW);
        let history: Vec<_> = changed.history().map(|entry| entry.actor).collect();
        assert_eq!(history, [Actor::Client, changer.actor]);
        assert_eq!(changed.history().last(), Some(change));
    }
}

#[tokio::test]
async fn absent_member_stays_and_null_unassigns() {
    let before = StoredOrder { notary_id: Some(5), ..order("ASSIGNED") };
    for (request, expected) in [
        (ChangeRequest { status: Some(status("SIGNED")), notary_id: None }, ("SIGNED", Some(5))),
        (ChangeRequest { status: None, notary_id: Some(None) }, ("ASSIGNED", None)),
    ] {
        let (use_case, _) = use_case(before.clone(), 0);
        let changed = use_case.change(SERVICE, ID, &request, |_| true).await.unwrap();
        assert_eq!((changed.status.as_str(), changed.notary_id), expected);
    }
}

#[tokio::test]
async fn change_that_changes_nothing_is_not_stored() {
    for status in ["ASSIGNED", "CANCELLED"] {
        let before = StoredOrder { notary_id: Some(5), ..order(status) };
        for request in [ChangeRequest::default(), assign(status, 5)] {
            let (use_case, updates) = use_case(before.clone(), 0);
            let changed = use_case.change(SERVICE, ID, &request, |_| true).await.unwrap();
            assert_eq!(changed, before);
            assert!(updates.lock().unwrap().is_empty());
        }
    }
}

#[tokio::test]
async fn concurrent_change_is_read_again() {
    let (use_case, updates) = use_case(order("NEW"), 2);
    use_case.change(SERVICE, ID, &assign("ASSIGNED", 5), |_| true).await.unwrap();
    assert_eq!(updates.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn unexpected_version_is_not_changed() {
    let (use_case, updates) = use_case(order("NEW"), 0);
    let changed = use_case.change(SERVICE, ID, &assign("ASSIGNED", 5), |_| false).await;
    assert!(matches!(changed, Err(OrderError::Changed)));
    let cancelled = use_case.cancel(CLIENT, ID, &CancelRequest::default(), |_| false).await;
    assert!(matches!(cancelled, Err(OrderError::Changed)));
    assert!(updates.lock().unwrap().is_empty());
}

#[tokio::test]
async fn limited_key_changes_orders_of_its_service_only() {
    for (service, is_own) in [(42, true), (43, false)] {
        let (use_case, updates) = use_case(order("NEW"), 0);
        let changer = Changer { only_service: Some(SigningServiceId(service)), ..CLIENT };
        let cancelled = use_case.cancel(changer, ID, &CancelRequest::default(), |_| true).await;
        assert_eq!(cancelled.is_ok(), is_own);
        assert!(is_own || matches!(cancelled, Err(OrderError::Forbidden)));
        assert_eq!(updates.lock().unwrap().len(), usize::from(is_own));
    }
}

#[tokio::test]
async fn instants_of_an_order_increase() {
    let later = NOW + Duration::SECOND;
    let (use_case, _) = use_case(StoredOrder { updated_at: later, ..order("NEW") }, 0);
    let changed = use_case.change(SERVICE, ID, &assign("ASSIGNED", 5), |_| true).await.unwrap();
    assert_eq!(changed.updated_at, later + Duration::MICROSECOND);
}

#[tokio::test]
async fn cancelled_order_does_not_change() {
    let (use_case, updates) = use_case(order("CANCELLED"), 0);
    for request in [assign("NEW", 5), assign("CANCELLED", 5)] {
        let changed = use_case.change(SERVICE, ID, &request, |_| true).await;
        assert!(matches!(changed, Err(OrderError::Cancelled)));
    }
    assert!(updates.lock().unwrap().is_empty());
}

#[tokio::test]
async fn either_side_cancels_once() {
    let request = CancelRequest { reason: Some("the borrower is ill".to_owned()) };
    for changer in [CLIENT, SERVICE] {
        let (use_case, updates) = use_case(order("ASSIGNED"), 0);
        let cancelled = use_case.cancel(changer, ID, &request, |_| true).await.unwrap();
        assert_eq!(cancelled.status, OrderStatus::CANCELLED);
        let last = cancelled.history().last().unwrap();
        assert_eq!((last.actor, &last.reason), (changer.actor, &request.reason));
        assert_eq!(updates.lock().unwrap().len(), 1);
    }
    let (use_case, updates) = use_case(order("CANCELLED"), 0);
    assert_eq!(use_case.cancel(CLIENT, ID, &request, |_| true).await.unwrap(), order("CANCELLED"));
    assert!(updates.lock().unwrap().is_empty());
}

#[tokio::test]
async fn signed_or_completed_order_is_not_cancelled() {
    for closed in ["SIGNED", "COMPLETED"] {
        let (use_case, updates) = use_case(order(closed), 0);
        let by_cancel = use_case.cancel(CLIENT, ID, &CancelRequest::default(), |_| true).await;
        assert!(matches!(by_cancel, Err(OrderError::Closed)));
        let by_change = use_case.change(SERVICE, ID, &assign("CANCELLED", 5), |_| true).await;
        assert!(matches!(by_change, Err(OrderError::Closed)));
        assert!(updates.lock().unwrap().is_empty());
        assert!(use_case.change(SERVICE, ID, &assign("NEW", 5), |_| true).await.is_ok());
    }
}
