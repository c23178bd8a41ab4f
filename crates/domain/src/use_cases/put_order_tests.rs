use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, macros::datetime};

use super::*;
use crate::{
    access::{AccessFacts, AccessKind, RunId},
    duplicate_window::DuplicateWindow,
    idempotency::{Fingerprint, KeyUse},
    order::{Actor, ChangeKind, OrderChange, OrderCommand, OrderStatus},
    ports::{Changed, HistoryEntry, HistoryId, MaybeErased, NewOrder, OrderCommandRequest, Page},
    request::ViolationCode,
    test_support::{
        Mocks, access_facts, api_key, attempt, clock, document, minimal_request, stored_order,
    },
    use_cases::accesses::recorder::AccessRecorder,
};

const NOW: OffsetDateTime = datetime!(2026-12-01 12:00 UTC);
const EARLIER: OffsetDateTime = NOW.saturating_sub(Duration::HOUR);

fn order(id: i64, status: &str) -> StoredOrder {
    let status = OrderStatus::from_stored(status.to_owned()).unwrap();
    StoredOrder { id: OrderId(id), status, ..stored_order(EARLIER) }
}

fn put() -> Put {
    put_of(minimal_request())
}

fn put_of(request: Value) -> Put {
    Put {
        file_number: "REFI-1".to_owned(),
        request: serde_json::from_value(request).unwrap(),
        precondition: OrderPrecondition::NONE,
        may_create: true,
    }
}

/// The orders that a use case has created and changed.
#[derive(Clone, Default)]
struct Seen {
    created: Arc<Mutex<Vec<NewOrder>>>,
    changed: Arc<Mutex<Vec<OrderCommandRequest>>>,
}

impl Seen {
    /// Returns the orders that the created ones had to follow.
    fn followed(&self) -> Vec<Option<OrderId>> {
        self.created.lock().unwrap().iter().map(|new| new.only_after.unwrap()).collect()
    }

    fn changed(&self) -> Vec<OrderId> {
        self.changed.lock().unwrap().iter().map(|request| request.order).collect()
    }
}

type Outcomes<T> = Vec<Result<T, WriteError>>;

/// Returns a use case whose look-ups find these newest orders, the last one again and again, and whose store
/// has these outcomes.
fn use_case(
    newest: Vec<Option<StoredOrder>>,
    creations: Outcomes<OrderId>,
    changes: Outcomes<()>,
) -> (PutOrder, Seen) {
    with(Mocks::default(), newest, creations, changes)
}

fn with(
    mut mocks: Mocks,
    newest: Vec<Option<StoredOrder>>,
    creations: Outcomes<OrderId>,
    changes: Outcomes<()>,
) -> (PutOrder, Seen) {
    let newest: Mutex<VecDeque<_>> = Mutex::new(newest.into());
    mocks.reader.expect_newest().returning(move |_, file_number| {
        assert_eq!(file_number, "REFI-1");
        let mut newest = newest.lock().unwrap();
        let found = if newest.len() > 1 { newest.pop_front() } else { newest.front().cloned() };
        Ok(found.flatten().map(|order| (order.id, order.status)))
    });
    mocks
        .reader
        .expect_listed()
        .returning(|_, id| Ok(Some(MaybeErased::Whole(order(id.0, "NEW").into()))));
    let seen = Seen::default();
    let (created, creations) = (Arc::clone(&seen.created), Mutex::new(VecDeque::from(creations)));
    mocks.orders.expect_create().returning(move |new, _| {
        created.lock().unwrap().push(new.clone());
        creations.lock().unwrap().pop_front().unwrap()
    });
    let (requests, changes) = (Arc::clone(&seen.changed), Mutex::new(VecDeque::from(changes)));
    mocks.orders.expect_change().returning(move |request| {
        requests.lock().unwrap().push(request.clone());
        let outcome = changes.lock().unwrap().pop_front().unwrap();
        outcome.map(|()| Changed::Amended(Box::new(order(request.order.0, "NEW").into())))
    });
    let intake = mocks.intake(NOW);
    let change = ChangeOrder {
        orders: intake.orders.clone(),
        reader: intake.reader.clone(),
        clock: intake.clock.clone(),
    };
    let create = CreateOrder { intake, window: DuplicateWindow::default(), known_services: None };
    (PutOrder { create, change }, seen)
}

impl PutOrder {
    async fn run(&self, put: Put, attempt: Option<&Attempt>) -> Result<PutOutcome, OrderError> {
        let caller = Caller::from(api_key());
        self.put(&caller, Changer::of(&caller), put, attempt).await
    }
}

fn created(outcome: &Result<PutOutcome, OrderError>) -> Option<OrderId> {
    match outcome {
        Ok(PutOutcome::Created(created)) => Some(created.stored.id),
        _ => None,
    }
}

fn changed(outcome: &Result<PutOutcome, OrderError>) -> Option<OrderId> {
    match outcome {
        Ok(PutOutcome::Changed { order, .. }) => Some(order.stored.id),
        _ => None,
    }
}

fn duplicate() -> WriteError {
    WriteError::Duplicate { created_at: NOW }
}

#[tokio::test]
async fn newest_order_is_changed_if_it_takes_changes() {
    let (use_case, seen) = use_case(vec![Some(order(7, "CONFIRMED"))], vec![], vec![Ok(())]);
    let outcome = use_case.run(put(), None).await;
    assert_eq!(changed(&outcome), Some(OrderId(7)), "{outcome:?}");
    let requests = seen.changed.lock().unwrap();
    let OrderCommand::Amend(amendment) = &requests[0].command else { panic!() };
    assert!(amendment.only_open);
    assert_eq!((requests.len(), requests[0].at), (1, NOW));
}

#[tokio::test]
async fn order_is_created_after_one_that_takes_no_changes() {
    for (newest, after) in [(None, None), (Some(order(7, "SIGNED")), Some(OrderId(7)))] {
        let (use_case, seen) = use_case(vec![newest], vec![Ok(OrderId(9))], vec![]);
        assert_eq!(created(&use_case.run(put(), None).await), Some(OrderId(9)));
        assert_eq!(seen.followed(), [after]);
    }
}

#[tokio::test]
async fn file_number_may_be_left_out_of_the_body() {
    for number in [None, Some(json!(null)), Some(json!(" ")), Some(json!(" REFI-1 "))] {
        for newest in [None, Some(order(7, "NEW"))] {
            let mut body = minimal_request();
            let details = body["signingDetailsFormData"].as_object_mut().unwrap();
            details.remove("fileNumber");
            details.extend(number.clone().map(|number| ("fileNumber".to_owned(), number)));
            let (use_case, _) = use_case(vec![newest], vec![Ok(OrderId(9))], vec![Ok(())]);
            let outcome = use_case.run(put_of(body), None).await;
            assert!(outcome.is_ok(), "{number:?} {outcome:?}");
        }
    }
}

/// Whether the order exists or not. It is told with the other violations.
#[tokio::test]
async fn other_file_number_is_refused() {
    for newest in [None, Some(order(7, "NEW"))] {
        for (number, expected) in [
            (json!("refi-1"), ViolationCode::Immutable),
            (json!("x".repeat(101)), ViolationCode::TooLong),
        ] {
            let mut body = minimal_request();
            body["signingDetailsFormData"]["fileNumber"] = number;
            body["requestedBy"]["userId"] = json!(0);
            let (use_case, seen) = use_case(vec![newest.clone()], vec![], vec![]);
            let outcome = use_case.run(put_of(body), None).await;
            let Err(OrderError::Rejected(rejection)) = outcome else { panic!("{outcome:?}") };
            let mut found: Vec<_> =
                rejection.violations.iter().map(|it| (&*it.pointer, it.code)).collect();
            found.sort_unstable_by_key(|(pointer, _)| *pointer);
            let others = ("/requestedBy/userId", ViolationCode::OutOfRange);
            assert_eq!(found, [others, ("/signingDetailsFormData/fileNumber", expected)]);
            assert_eq!((seen.followed().len(), seen.changed().len()), (0, 0));
        }
    }
}

/// A number that stands elsewhere would be lost.
#[tokio::test]
async fn misplaced_file_number_is_named() {
    let mut body = minimal_request();
    let details = body["signingDetailsFormData"].as_object_mut().unwrap();
    let number = details.remove("fileNumber").unwrap();
    details.insert("file_number".to_owned(), number);
    let (use_case, _) = use_case(vec![None], vec![], vec![]);
    let outcome = use_case.run(put_of(body), None).await;
    let Err(OrderError::Rejected(rejection)) = outcome else { panic!("{outcome:?}") };
    let codes: Vec<_> = rejection.violations.iter().map(|violation| violation.code).collect();
    assert!(codes.contains(&ViolationCode::MisplacedMember), "{codes:?}");
}

#[tokio::test]
async fn order_that_another_request_has_created_is_changed() {
    let newest = vec![None, Some(order(9, "NEW"))];
    let (use_case, seen) = use_case(newest, vec![Err(duplicate())], vec![Ok(())]);
    assert_eq!(changed(&use_case.run(put(), None).await), Some(OrderId(9)));
    assert_eq!((seen.followed().len(), seen.changed().len()), (1, 1));
}

#[tokio::test]
async fn order_of_another_client_bars_a_creation() {
    for newest in [None, Some(order(7, "CANCELLED"))] {
        let (use_case, seen) = use_case(vec![newest], vec![Err(duplicate())], vec![]);
        let outcome = use_case.run(put(), None).await;
        assert!(matches!(outcome, Err(OrderError::Duplicate { retry_after: 60 })), "{outcome:?}");
        assert_eq!(seen.followed().len(), 1);
    }
}

#[tokio::test]
async fn order_that_was_closed_meanwhile_is_followed_by_another() {
    for refusal in [Refusal::Cancelled, Refusal::Over, Refusal::Erased, Refusal::NoSuchOrder] {
        let newest = vec![Some(order(7, "NEW")), Some(order(7, "CANCELLED"))];
        let changes = vec![Err(refusal.into())];
        let (use_case, seen) = use_case(newest, vec![Ok(OrderId(9))], changes);
        assert_eq!(created(&use_case.run(put(), None).await), Some(OrderId(9)), "{refusal:?}");
        assert_eq!(seen.followed(), [Some(OrderId(7))]);
    }
}

#[tokio::test]
async fn endless_contention_is_temporary() {
    let changes = (0..ATTEMPTS).map(|_| Err(Refusal::Cancelled.into())).collect();
    let (use_case, seen) = use_case(vec![Some(order(7, "NEW"))], vec![], changes);
    let outcome = use_case.run(put(), None).await;
    assert!(matches!(outcome, Err(OrderError::Store(_))), "{outcome:?}");
    assert_eq!(seen.changed().len(), ATTEMPTS);
}

#[tokio::test]
async fn refused_change_creates_nothing() {
    for refusal in [Refusal::Changed, Refusal::TooManyAddresses] {
        let newest = vec![Some(order(7, "NEW"))];
        let (use_case, seen) = use_case(newest, vec![], vec![Err(refusal.into())]);
        assert!(use_case.run(put(), None).await.is_err());
        assert_eq!((seen.followed().len(), seen.changed().len()), (0, 1));
    }
}

#[tokio::test]
async fn request_that_expects_a_version_creates_nothing() {
    let (use_case, seen) = use_case(vec![None], vec![], vec![]);
    let outcome = use_case.run(Put { may_create: false, ..put() }, None).await;
    assert!(matches!(outcome, Err(OrderError::NothingToChange)), "{outcome:?}");
    assert_eq!(seen.followed(), []);
}

fn answered(changed_at: Option<OffsetDateTime>) -> Answered {
    let (fingerprint, order_id) = (attempt().fingerprint, OrderId(7));
    Answered { fingerprint, order_id, added: None, changed_at }
}

fn in_use(answered: Answered) -> WriteError {
    WriteError::KeyInUse(KeyUse::Answered(answered))
}

fn entry(at: OffsetDateTime, status: OrderStatus, notary_id: Option<i64>) -> OrderChange {
    let (kind, actor) = (ChangeKind::Status, Actor::Service);
    OrderChange { kind, status, notary_id, actor, ..OrderChange::created(at) }
}

/// Order 7 was assigned, then changed by the request, and assigned again and again since, and cancelled. Its history has
/// more than two pages.
fn mocks_of_changed() -> Mocks {
    let mut mocks = Mocks::default();
    mocks.reader.expect_with_documents().returning(|_, id| {
        let mut found = order(id.0, "CANCELLED");
        found.documents = vec![document("a", EARLIER), document("b", NOW)];
        found.updated_at = NOW;
        found.order.signing.lender = Some("Another bank".to_owned());
        Ok(Some(MaybeErased::Whole(found)))
    });
    let mut history = vec![
        entry(EARLIER, OrderStatus::NEW, None),
        entry(NOW - Duration::MINUTE, OrderStatus::ASSIGNED, Some(5)),
    ];
    history.extend((0..250).map(|notary| entry(NOW, OrderStatus::ASSIGNED, Some(notary))));
    history.push(entry(NOW, OrderStatus::CANCELLED, None));
    mocks.reader.expect_history().returning(move |_, _, query| {
        let end = match query.cursor {
            Cursor::Newest => history.len(),
            Cursor::OlderThan(entry) => usize::try_from(entry.0).unwrap(),
            Cursor::NewerThan(_) => panic!("{query:?}"),
        };
        let begin = end.saturating_sub(query.limit);
        let entries = (0..).map(HistoryId).zip(history.clone()).skip(begin).take(end - begin);
        let entries = entries.map(|(id, change)| HistoryEntry { id, change });
        let items: Vec<_> = entries.collect::<Vec<_>>().into_iter().rev().collect();
        let page = Page { items, has_older: begin > 0, has_newer: true, stopped_at: None };
        Ok(Some(MaybeErased::Whole(Some(page))))
    });
    mocks
}

#[tokio::test]
async fn repeat_of_a_change_gets_the_order_as_it_was_then() {
    let at = NOW - Duration::MINUTE;
    // The newest order takes changes, or none does and the creation finds the key or is refused.
    for (newest, may_create) in
        [(Some(order(9, "NEW")), true), (Some(order(7, "CANCELLED")), true), (None, false)]
    {
        let mut mocks = mocks_of_changed();
        mocks.idempotency.expect_claim().returning(move |_, _, _| Err(in_use(answered(Some(at)))));
        let used = || in_use(answered(Some(at)));
        let (use_case, _) = with(mocks, vec![newest], vec![Err(used())], vec![Err(used())]);
        let outcome = use_case.run(Put { may_create, ..put() }, Some(&attempt())).await;
        let Ok(PutOutcome::Changed { order, replayed: true, .. }) = outcome else {
            panic!("{outcome:?}")
        };
        let stored = &order.stored;
        assert_eq!((stored.id, &stored.status), (OrderId(7), &OrderStatus::ASSIGNED));
        assert_eq!((stored.notary_id, stored.updated_at), (Some(5), at));
        assert_eq!(stored.order.signing.lender, None);
    }
}

#[tokio::test]
async fn repeat_of_a_creation_gets_the_order_as_it_was_created() {
    for newest in [Some(order(7, "NEW")), Some(order(7, "CANCELLED"))] {
        let mut mocks = Mocks::default();
        mocks.reader.expect_with_documents().returning(|_, id| {
            Ok(Some(MaybeErased::Whole(StoredOrder {
                updated_at: NOW,
                ..order(id.0, "CANCELLED")
            })))
        });
        let used = || in_use(answered(None));
        let (use_case, _) = with(mocks, vec![newest], vec![Err(used())], vec![Err(used())]);
        let outcome = use_case.run(put(), Some(&attempt())).await;
        let Ok(PutOutcome::Created(created)) = outcome else { panic!("{outcome:?}") };
        assert!(created.replayed);
        assert_eq!(created.stored.id, OrderId(7));
        assert_eq!((created.stored.status, created.stored.updated_at), (OrderStatus::NEW, EARLIER));
    }
}

#[tokio::test]
async fn key_of_another_request_is_refused() {
    for changed_at in [None, Some(NOW)] {
        let other = Answered { fingerprint: Fingerprint([9; 32]), ..answered(changed_at) };
        for newest in [None, Some(order(7, "NEW"))] {
            let mut mocks = Mocks::default();
            mocks.idempotency.expect_claim().returning(move |_, _, _| Err(in_use(other)));
            let outcomes = (vec![Err(in_use(other))], vec![Err(in_use(other))]);
            let (use_case, _) = with(mocks, vec![newest], outcomes.0, outcomes.1);
            let outcome = use_case.run(put(), Some(&attempt())).await;
            assert!(matches!(outcome, Err(OrderError::KeyReused)), "{outcome:?}");
        }
    }
}

#[tokio::test]
async fn request_is_stored_under_its_key_whatever_it_does() {
    let newest = vec![None, Some(order(7, "NEW"))];
    let (use_case, seen) = use_case(newest, vec![Ok(OrderId(9))], vec![Ok(())]);
    for _ in 0..2 {
        use_case.run(put(), Some(&attempt())).await.unwrap();
    }
    let expected = use_case.create.intake.idempotent_request(Some(&attempt()), NOW);
    assert_eq!(seen.created.lock().unwrap()[0].idempotent_request, expected);
    assert_eq!(seen.changed.lock().unwrap()[0].idempotent_request, expected);
}

/// The order itself tells of its creation.
#[tokio::test]
async fn change_leaves_an_access_of_its_order_and_creation_none() {
    for (newest, rows) in [(Some(order(7, "NEW")), 1), (None, 0)] {
        let recorder = Arc::new(AccessRecorder::new(RunId(1), clock(NOW)));
        let facts = AccessFacts { kind: AccessKind::Change, order: None, ..access_facts() };
        let access = BegunAccess::new(Arc::clone(&recorder), facts);
        let (use_case, seen) = use_case(vec![newest], vec![Ok(OrderId(9))], vec![Ok(())]);
        let caller = Caller::from(api_key());
        let changer = Changer { access: Some(access.clone()), ..Changer::of(&caller) };
        use_case.put(&caller, changer, put(), None).await.unwrap();
        access.end("ok".to_owned());
        assert_eq!(recorder.waiting(), rows);
        for request in &*seen.changed.lock().unwrap() {
            let stored = request.access.as_ref().unwrap();
            assert_eq!((stored.facts.order, stored.id.number), (Some(OrderId(7)), 1));
        }
    }
}
