use std::sync::Mutex;

use time::{Duration, OffsetDateTime, macros::datetime};

use super::*;
use crate::{
    api_key::ClientId,
    order::{FileNumber, StoredOrder},
    ports::{MaybeErased, MockOrderReader, MockOrderRepo, StoreError},
    test_support::{clock, minimal_request, stored_order},
};

const NOW: OffsetDateTime = datetime!(2026-12-01 12:00 UTC);
const ID: OrderId = OrderId(1);
const OWNER: Owner = Owner::client(ClientId(1), false);
const SERVICE: Changer = Changer {
    owner: Owner { party: Party::Service(SigningServiceId(42)), is_test: false },
    actor: Actor::Service,
    only_service: None,
    access: None,
};
const CLIENT: Changer =
    Changer { owner: OWNER, actor: Actor::Client, only_service: None, access: None };
const OPERATOR: Changer = Changer { actor: Actor::Operator, ..CLIENT };

fn status(text: &str) -> OrderStatus {
    OrderStatus::from_stored(text.to_owned()).unwrap()
}

fn order(text: &str) -> StoredOrder {
    StoredOrder { status: status(text), ..stored_order(NOW - Duration::HOUR) }
}

fn assign(text: &str, notary: i64) -> ChangeRequest {
    let notary_id = Some(Some(notary));
    ChangeRequest { status: Some(status(text)), notary_id, ..ChangeRequest::default() }
}

/// The use case on an order. The store takes every change, or none.
fn use_case(order: StoredOrder, takes: bool) -> (ChangeOrder, Arc<Mutex<Vec<OrderUpdate>>>) {
    let (mut reader, mut orders) = (MockOrderReader::new(), MockOrderRepo::new());
    let found = order.clone();
    reader
        .expect_listed()
        .returning(move |_, _| Ok(Some(MaybeErased::Whole(found.clone().into()))));
    let updates = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&updates);
    orders.expect_update().returning(move |update| {
        seen.lock().unwrap().push(update.clone());
        Ok(takes.then(|| order.clone().into()))
    });
    let (orders, reader) = (Arc::new(orders), Arc::new(reader));
    (ChangeOrder { orders, reader, clock: clock(NOW) }, updates)
}

#[tokio::test]
async fn change_is_stored_with_its_actor_and_without_a_read_before_it() {
    for changer in [SERVICE, OPERATOR] {
        let (mut use_case, updates) = use_case(order("NEW"), true);
        use_case.reader = Arc::new(MockOrderReader::new());
        let expected = Some(vec![NOW]);
        let request = assign("ASSIGNED", 5);
        let precondition = OrderPrecondition::expecting(vec![NOW]);
        let changed = use_case.change(changer.clone(), ID, &request, &precondition).await.unwrap();

        let update = OrderUpdate {
            owner: changer.owner,
            only_service: None,
            id: ID,
            expected,
            status: request.status,
            notary_id: request.notary_id,
            notary: None,
            at: NOW,
            actor: changer.actor,
            reason: None,
            access: None,
        };
        assert_eq!(*updates.lock().unwrap(), [update]);
        assert_eq!(changed, order("NEW").into());
    }
}

#[tokio::test]
async fn change_that_changes_nothing_returns_the_order() {
    for status in ["ASSIGNED", "CANCELLED"] {
        let before = StoredOrder { notary_id: Some(5), ..order(status) };
        for (request, stores) in [(ChangeRequest::default(), 0), (assign(status, 5), 1)] {
            let (use_case, updates) = use_case(before.clone(), false);
            let changed =
                use_case.change(SERVICE, ID, &request, &OrderPrecondition::NONE).await.unwrap();
            assert_eq!(changed, before.clone().into());
            assert_eq!(updates.lock().unwrap().len(), stores);
        }
    }
}

/// The status stays.
#[tokio::test]
async fn reason_of_a_signing_without_signatures_is_given_later() {
    for (text, reason, is_given) in [
        ("DID_NOT_SIGN", Some("ill"), true),
        ("DID_NOT_SIGN", None, false),
        ("ON_HOLD", Some("ill"), false),
    ] {
        let (mut use_case, _) = use_case(order(text), false);
        let mut orders = MockOrderRepo::new();
        orders.expect_update().returning(|_| Ok(None));
        orders.expect_change().times(usize::from(is_given)).returning(|request| {
            let new = NewReason {
                actor: Actor::Service,
                reason: "ill".to_owned(),
                precondition: OrderPrecondition::NONE,
            };
            assert_eq!(request.command, OrderCommand::GiveReason(new));
            assert_eq!((request.owner, request.order), (Some(SERVICE.owner), ID));
            Ok(Changed::ReasonGiven)
        });
        use_case.orders = Arc::new(orders);
        let reason = reason.map(str::to_owned);
        let request =
            ChangeRequest { status: Some(status(text)), reason, ..ChangeRequest::default() };
        let changed = use_case.change(SERVICE, ID, &request, &OrderPrecondition::NONE).await;
        assert_eq!(changed.unwrap(), order(text).into());
    }
}

#[tokio::test]
async fn unexpected_version_is_not_changed() {
    let seen = order("NEW").updated_at;
    for (expected, is_seen) in [(vec![], false), (vec![NOW], false), (vec![NOW, seen], true)] {
        let (use_case, _) = use_case(order("NEW"), false);
        let request = ChangeRequest { status: Some(status("NEW")), ..ChangeRequest::default() };
        let changed = use_case
            .change(SERVICE, ID, &request, &OrderPrecondition::expecting(expected.clone()))
            .await;
        assert_eq!(changed.is_ok(), is_seen);
        assert!(is_seen || matches!(changed, Err(OrderError::Changed)));
        let request = CancelRequest::default();
        let cancelled =
            use_case.cancel(CLIENT, ID, &request, &OrderPrecondition::expecting(expected)).await;
        assert_eq!(matches!(cancelled, Err(OrderError::Changed)), !is_seen);
    }
}

/// The statement expects the version that was compared.
#[tokio::test]
async fn other_preconditions_are_compared_with_the_version_of_now() {
    let seen = order("NEW").updated_at;
    let excluding = |excluded| OrderPrecondition { excluded, ..OrderPrecondition::NONE };
    let since = |unmodified_since| OrderPrecondition {
        unmodified_since: Some(unmodified_since),
        ..OrderPrecondition::NONE
    };
    for (precondition, is_true) in [
        (excluding(Versions::Any), false),
        (excluding(Versions::These(vec![seen])), false),
        (excluding(Versions::These(vec![NOW])), true),
        (since(seen - Duration::SECOND), false),
        (since(seen), true),
    ] {
        let (use_case, updates) = use_case(order("NEW"), is_true);
        let changed = use_case.change(SERVICE, ID, &assign("ASSIGNED", 5), &precondition).await;
        let cancelled = use_case.cancel(CLIENT, ID, &CancelRequest::default(), &precondition).await;
        for outcome in [changed, cancelled] {
            assert_eq!(outcome.is_ok(), is_true);
            assert!(is_true || matches!(outcome, Err(OrderError::Changed)));
        }
        let expected = Some(Vec::from_iter(is_true.then_some(seen)));
        assert!(updates.lock().unwrap().iter().all(|update| update.expected == expected));
    }
}

/// As Python and macOS write the same name.
#[tokio::test]
async fn file_number_that_looks_equal_is_no_change() {
    let mut found = order("NEW");
    found.order.file_number = FileNumber::new("Jos\u{e9}".to_owned()).unwrap();
    let stored = found.order.file_number.clone();
    let (use_case, amendments) = amending(found);
    let sent = request(|request| {
        request["signingDetailsFormData"]["fileNumber"] = "Jose\u{301}".into();
    });
    use_case.amend(CLIENT, ID, sent, OrderPrecondition::NONE).await.unwrap();
    let amendments = amendments.lock().unwrap();
    let OrderCommand::Amend(amendment) = &amendments[0].command else { panic!() };
    assert!(amendment.order.file_number == stored);
}

#[tokio::test]
async fn limited_key_changes_orders_of_its_service_only() {
    let changer = Changer { only_service: Some(SigningServiceId(43)), ..CLIENT };
    let (use_case, updates) = use_case(order("NEW"), false);
    let cancelled = use_case
        .cancel(changer.clone(), ID, &CancelRequest::default(), &OrderPrecondition::NONE)
        .await;
    assert!(matches!(cancelled, Err(OrderError::Forbidden)));
    assert_eq!(updates.lock().unwrap()[0].only_service, changer.only_service);
}

#[tokio::test]
async fn cancelled_order_does_not_change() {
    let (use_case, _) = use_case(order("CANCELLED"), false);
    for request in [assign("NEW", 5), assign("CANCELLED", 5)] {
        let changed = use_case.change(SERVICE, ID, &request, &OrderPrecondition::NONE).await;
        assert!(matches!(changed, Err(OrderError::Cancelled)));
    }
}

#[tokio::test]
async fn either_side_cancels_once() {
    let request = CancelRequest { reason: Some("the borrower is ill".to_owned()) };
    for changer in [CLIENT, SERVICE] {
        let (use_case, updates) = use_case(order("ASSIGNED"), true);
        use_case.cancel(changer.clone(), ID, &request, &OrderPrecondition::NONE).await.unwrap();
        let updates = updates.lock().unwrap();
        let [update] = &updates[..] else { panic!("{updates:?}") };
        assert_eq!(update.status, Some(OrderStatus::CANCELLED));
        assert_eq!((update.actor, &update.reason), (changer.actor, &request.reason));
    }
    let (use_case, _) = use_case(order("CANCELLED"), false);
    let again = use_case
        .cancel(CLIENT, ID, &request, &OrderPrecondition::expecting(Vec::new()))
        .await
        .unwrap();
    assert_eq!(again, order("CANCELLED").into());
}

#[tokio::test]
async fn signed_or_completed_order_is_not_cancelled() {
    for closed in ["SIGNED", "COMPLETED"] {
        let (use_case, _) = use_case(order(closed), false);
        let by_cancel =
            use_case.cancel(CLIENT, ID, &CancelRequest::default(), &OrderPrecondition::NONE).await;
        assert!(matches!(by_cancel, Err(OrderError::Closed)));
        let by_change =
            use_case.change(SERVICE, ID, &assign("CANCELLED", 5), &OrderPrecondition::NONE).await;
        assert!(matches!(by_change, Err(OrderError::Closed)));
    }
}

#[tokio::test]
async fn refusal_without_a_reason_is_temporary() {
    let (use_case, _) = use_case(order("NEW"), false);
    let changed =
        use_case.change(SERVICE, ID, &assign("ASSIGNED", 5), &OrderPrecondition::NONE).await;
    assert!(matches!(changed, Err(OrderError::Store(StoreError::Unavailable(_)))));
}

/// Returns the request of the order with changes of its JSON.
fn request(change: impl Fn(&mut serde_json::Value)) -> OrderRequest {
    let mut request = minimal_request();
    change(&mut request);
    serde_json::from_value(request).unwrap()
}

/// The use case on an order. The store takes every amendment.
fn amending(order: StoredOrder) -> (ChangeOrder, Arc<Mutex<Vec<OrderCommandRequest>>>) {
    let (mut use_case, _) = use_case(order.clone(), false);
    let (mut orders, seen) = (MockOrderRepo::new(), Arc::new(Mutex::new(Vec::new())));
    let amendments = Arc::clone(&seen);
    orders.expect_change().returning(move |amendment| {
        amendments.lock().unwrap().push(amendment.clone());
        Ok(Changed::Amended(Box::new(order.clone().into())))
    });
    use_case.orders = Arc::new(orders);
    (use_case, seen)
}

#[tokio::test]
async fn amendment_is_stored_as_it_was_sent() {
    let (use_case, amendments) = amending(order("ASSIGNED"));
    let sent = request(|request| {
        request["signingDetailsFormData"]["fileNumber"] = " REFI-1 ".into();
        request["signingDetailsFormData"]["signerName"] = "Jane Roe".into();
        request["utcTimeDate"] = "2026-12-01T20:00:00Z".into();
    });
    let precondition = OrderPrecondition::expecting(vec![NOW]);
    let amended = use_case.amend(CLIENT, ID, sent.clone(), precondition.clone()).await.unwrap();
    assert_eq!(amended, (order("ASSIGNED").into(), vec!["utcTimeDate"]));
    let order = sent.parse().unwrap().order;
    let amendment = OrderCommandRequest {
        owner: Some(OWNER),
        order: ID,
        command: OrderCommand::Amend(Amendment { precondition, order, only_open: false }),
        at: NOW,
        idempotent_request: None,
        access: None,
    };
    assert_eq!(*amendments.lock().unwrap(), [amendment]);
}

#[tokio::test]
async fn file_number_and_service_are_immutable() {
    let (use_case, amendments) = amending(order("NEW"));
    let both: fn(&mut serde_json::Value) = |request| {
        request["signingDetailsFormData"]["fileNumber"] = "refi-1".into();
        request["signingServiceId"] = 43.into();
    };
    let with_others: fn(&mut serde_json::Value) = |request| {
        request["signingDetailsFormData"]["fileNumber"] = "refi-1".into();
        request["signingServiceId"] = (-1).into();
        request["requestedBy"]["userId"] = 0.into();
    };
    for (change, expected) in [
        (
            both,
            &[
                ("/signingDetailsFormData/fileNumber", ViolationCode::Immutable),
                ("/signingServiceId", ViolationCode::Immutable),
            ][..],
        ),
        (
            with_others,
            &[
                ("/requestedBy/userId", ViolationCode::OutOfRange),
                ("/signingServiceId", ViolationCode::OutOfRange),
                ("/signingDetailsFormData/fileNumber", ViolationCode::Immutable),
            ],
        ),
    ] {
        let refused = use_case.amend(CLIENT, ID, request(change), OrderPrecondition::NONE).await;
        let Err(OrderError::Rejected(rejection)) = refused else { panic!("{refused:?}") };
        let found: Vec<_> =
            rejection.violations.iter().map(|one| (&*one.pointer, one.code)).collect();
        assert_eq!(found, expected);
    }
    assert_eq!(*amendments.lock().unwrap(), []);
}

#[tokio::test]
async fn limited_key_amends_orders_of_its_service_only() {
    let (use_case, amendments) = amending(order("NEW"));
    let only = |service| Changer { only_service: Some(SigningServiceId(service)), ..CLIENT };
    let refused = use_case.amend(only(43), ID, request(|_| ()), OrderPrecondition::NONE).await;
    assert!(matches!(refused, Err(OrderError::Forbidden)), "{refused:?}");
    assert_eq!(*amendments.lock().unwrap(), []);
    use_case.amend(only(42), ID, request(|_| ()), OrderPrecondition::NONE).await.unwrap();
}
