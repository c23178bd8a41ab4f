//! Changes of status and notary.

use domain::{
    api_key::{ClientId, Owner, Party},
    delivery::MailContent,
    order::{
        Actor, ChangeKind, EmailAddress, Notary, OrderChange, OrderId, OrderStatus,
        SigningServiceId, StoredOrder, event::NotaryThen,
    },
    ports::{Changed, Event, MaybeErased, NewOrder, OrderFilter, OrderUpdate},
    webhook::EventType,
};
use time::{Duration, OffsetDateTime};

use super::adding::{self, add};
use crate::{
    ForeignChange, Remains,
    samples::{self, LIVE, MICROSECOND, NOW, Storage, at_once, new_order},
};

const SERVICE: Owner = Owner { party: Party::Service(SigningServiceId(42)), is_test: false };

async fn found(storage: &Storage, id: OrderId) -> StoredOrder {
    storage.reader.order(LIVE, id).await.unwrap().and_then(MaybeErased::whole).unwrap()
}

/// Returns the update of a version.
pub(crate) fn update(id: OrderId, seen: OffsetDateTime, status: &str) -> OrderUpdate {
    OrderUpdate {
        owner: SERVICE,
        only_service: None,
        id,
        expected: Some(vec![seen]),
        status: OrderStatus::from_stored(status.to_owned()),
        notary_id: Some(Some(7)),
        notary: None,
        at: seen + MICROSECOND,
        actor: Actor::Service,
        reason: Some("é, 'because'".to_owned()),
        access: None,
    }
}

/// Returns the entry of an update in the history.
fn entry(update: &OrderUpdate) -> OrderChange {
    let OrderUpdate { at, status, notary_id, actor, reason, .. } = update.clone();
    let (status, notary_id) = (status.unwrap(), notary_id.unwrap());
    let kind = ChangeKind::Status;
    OrderChange { kind, status, notary_id, actor, reason, ..OrderChange::created(at) }
}

/// Changes an order, and returns whether that was done.
async fn is_changed(storage: &Storage, update: &OrderUpdate) -> bool {
    storage.orders.update(update).await.unwrap().is_some()
}

/// Returns the events but those of creations: the statuses before and after, and the actor.
async fn events(storage: &Storage) -> Vec<(EventType, String, String, Actor)> {
    let events = storage.outbox.events(NOW + 400 * Duration::DAY, 10_000).await.unwrap();
    let told = |Event { event, change, .. }: Event| {
        let change = change?.order()?.clone();
        Some((event, change.previous_status, change.order_status, change.actor))
    };
    events.into_iter().filter_map(told).collect()
}

/// Status and notary are columns of their own. A failure would hide that the change is there.
pub async fn order_whose_record_cannot_be_read_changes_all_the_same(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    storage.other_system.damage_order(id).await;
    let mut seen = NOW;
    for status in ["ASSIGNED", "CANCELLED"] {
        let changed = storage.orders.update(&update(id, seen, status)).await.unwrap().unwrap();
        let listed = storage.reader.listed(SERVICE, id).await.unwrap().and_then(MaybeErased::whole);
        assert_eq!(listed.as_ref(), Some(&changed));
        assert_eq!((changed.stored.status.as_str(), changed.stored.notary_id), (status, Some(7)));
        seen = changed.stored.updated_at;
    }
    let Remains { history, .. } = storage.other_system.remains(id).await;
    assert_eq!(history, ["ASSIGNED", "CANCELLED"]);
    assert_eq!(events(storage).await.len(), 2);
}

/// With its history, its event, and the instant of the change.
pub async fn change_is_found_as_stored(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let first = update(id, NOW, "ASSIGNED");
    assert!(is_changed(storage, &first).await);
    let second = update(id, first.at, "CANCELLED");
    assert!(is_changed(storage, &second).await);
    let order = found(storage, id).await;
    assert_eq!((&order.status, order.notary_id), (&OrderStatus::CANCELLED, Some(7)));
    assert_eq!(order.updated_at, second.at);
    assert_eq!(order.changes, [entry(&first), entry(&second)]);
    // The mails about a cancellation name its reason.
    let [(_, mailed)] = &storage.queue.orders(&[id]).await.unwrap()[..] else { panic!() };
    assert_eq!(mailed.as_ref().unwrap(), &order);
    let expected = [
        (EventType::OrderUpdated, "NEW", "ASSIGNED"),
        (EventType::OrderCancelled, "ASSIGNED", "CANCELLED"),
    ];
    let expected =
        expected.map(|(event, before, after)| (event, before.into(), after.into(), Actor::Service));
    assert_eq!(events(storage).await, expected);
}

/// Also by another system, and whatever else stands in the history. A mail about a notary does not leave when the
/// order has another one.
pub async fn event_has_the_notary_of_its_change(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let pat = Notary { name: "Pat \"P\" O'Hara".to_owned(), phone: None, email: None };
    let named = OrderUpdate { notary: Some(Some(pat.clone())), ..update(id, NOW, "ASSIGNED") };
    assert!(is_changed(storage, &named).await);
    let confirmed = OrderUpdate { notary_id: None, ..update(id, named.at, "CONFIRMED") };
    assert!(is_changed(storage, &confirmed).await);
    let unassigned = OrderUpdate { notary_id: Some(None), ..update(id, confirmed.at, "NEW") };
    assert!(is_changed(storage, &unassigned).await);
    let events = storage.outbox.events(NOW + 400 * Duration::DAY, 10).await.unwrap();
    let is_new = |event: &Event| event.change.as_ref()?.order()?.notary_changed;
    let news: Vec<_> = events.iter().map(is_new).collect();
    assert_eq!(news, [None, Some(true), Some(false), Some(true)]);
    let contents: Vec<_> = events.into_iter().map(|event| event.content).collect();
    let then = |notary_id, notary| Some(MailContent::Notary(NotaryThen { notary_id, notary }));
    let named = then(Some(7), Some(pat));
    assert!(contents == [None, named.clone(), named, then(None, None)], "{contents:?}");
}

/// The status stays. A reason that the order has changes nothing.
pub async fn reason_of_a_signing_without_signatures_is_given_later(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let not_signed = OrderUpdate { reason: None, ..update(id, NOW, "DID_NOT_SIGN") };
    assert!(is_changed(storage, &not_signed).await);
    for (reason, is_new) in [("ill", true), ("ill", false), ("late", true)] {
        let before = found(storage, id).await;
        let given = storage.orders.change(&samples::give_reason(id, reason)).await.unwrap();
        assert_eq!(given, Changed::ReasonGiven);
        let after = found(storage, id).await;
        assert_eq!(after.reason_of_status(), Some(reason));
        let entries = after.changes.len() - before.changes.len();
        assert_eq!((entries, after.updated_at > before.updated_at), (is_new.into(), is_new));
    }
    let (event, before, after) = (EventType::OrderUpdated, "NEW", "DID_NOT_SIGN");
    let expected = [(event, before, after), (event, after, after), (event, after, after)];
    let expected =
        expected.map(|(event, before, after)| (event, before.into(), after.into(), Actor::Service));
    assert_eq!(events(storage).await, expected);
}

/// Nor that of an erased order.
pub async fn order_of_another_owner_or_version_is_not_changed(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let test = storage.create(&NewOrder { is_test: true, ..new_order("F-1", NOW) }).await;
    let own = update(id, NOW, "ASSIGNED");
    let foreign = Owner { party: Party::Service(SigningServiceId(43)), is_test: false };
    for other in [
        OrderUpdate { owner: foreign, ..own.clone() },
        OrderUpdate { owner: Owner::client(ClientId(99), false), ..own.clone() },
        OrderUpdate { owner: Owner { is_test: true, ..SERVICE }, ..own.clone() },
        OrderUpdate { id: test, ..own.clone() },
        OrderUpdate { id: OrderId(test.0 + 1), ..own.clone() },
        OrderUpdate { expected: Some(vec![NOW - MICROSECOND]), ..own.clone() },
        OrderUpdate { expected: Some(Vec::new()), ..own.clone() },
        OrderUpdate { only_service: Some(SigningServiceId(43)), ..own.clone() },
    ] {
        assert!(!is_changed(storage, &other).await, "{other:?}");
    }
    assert!(is_changed(storage, &OrderUpdate { owner: LIVE, ..own.clone() }).await);
    storage.admin.erase(id, NOW, None).await.unwrap();
    assert!(!is_changed(storage, &update(id, own.at, "SIGNED")).await);
}

/// The instant of the addition is not later than that of the change: a clock was behind.
pub async fn documents_added_after_a_change_keep_the_history(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let first = update(id, NOW, "ASSIGNED");
    assert!(is_changed(storage, &first).await);
    add(storage, &adding::addition_at(id, 1, NOW)).await.unwrap();
    let order = found(storage, id).await;
    assert_eq!(order.changes, [entry(&first)]);
    assert!(order.updated_at > first.at);
    assert!(!is_changed(storage, &update(id, first.at, "SIGNED")).await);
}

/// With what was not to change, and with the number of its documents.
pub async fn changed_order_is_returned(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    add(storage, &adding::addition(id, 2)).await.unwrap();
    let before = found(storage, id).await;
    let assigned = OrderUpdate {
        expected: None,
        status: None,
        at: NOW,
        only_service: Some(SigningServiceId(42)),
        ..update(id, NOW, "")
    };
    let changed = storage.orders.update(&assigned).await.unwrap().unwrap();
    assert_eq!((&changed.stored.status, changed.stored.notary_id), (&before.status, Some(7)));
    assert_eq!(changed.counts.documents, before.documents.len());
    // The instant of the change was that of the addition, or earlier.
    assert_eq!(changed.stored.updated_at, before.updated_at + MICROSECOND);
    let unassigned = OrderUpdate { notary_id: Some(None), ..assigned };
    let changed = storage.orders.update(&unassigned).await.unwrap().unwrap();
    assert_eq!(changed, found(storage, id).await.into());
    assert_eq!(changed.stored.notary_id, None);
}

/// Nor is a signed or completed order cancelled.
pub async fn change_of_nothing_or_of_a_cancelled_order_is_not_stored(storage: &Storage) {
    let any = |id, status| OrderUpdate { expected: None, ..update(id, NOW, status) };
    for (index, closed) in ["SIGNED", "COMPLETED", "CANCELLED"].into_iter().enumerate() {
        let id = storage.create(&new_order(&format!("F-{index}"), NOW)).await;
        assert!(is_changed(storage, &any(id, closed)).await);
        let order = found(storage, id).await;
        let cancels = OrderUpdate { notary_id: None, ..any(id, "CANCELLED") };
        for refused in [any(id, closed), OrderUpdate { status: None, ..any(id, "") }, cancels] {
            assert!(!is_changed(storage, &refused).await, "{refused:?}");
        }
        let reopens = OrderUpdate { notary_id: Some(Some(8)), ..any(id, "NEW") };
        assert_eq!(found(storage, id).await, order);
        assert_eq!(is_changed(storage, &reopens).await, closed != "CANCELLED");
    }
}

/// The history has each change once.
pub async fn one_of_concurrent_changes_of_a_version_is_stored(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let orders = storage.orders.clone();
    let changes = (0..8).map(|number| {
        let (orders, update) = (orders.clone(), update(id, NOW, &format!("S{number}")));
        async move { orders.update(&update).await.unwrap().is_some() }
    });
    let stored = at_once(changes).await;
    assert_eq!(stored.iter().filter(|stored| **stored).count(), 1);
    assert_eq!(found(storage, id).await.changes.len(), 1);
    assert_eq!(events(storage).await.len(), 1);
}

/// At an instant after every instant of the order. A change of neither leaves no trace.
pub async fn change_by_another_system_has_the_same_history_and_event(storage: &Storage) {
    let ahead = NOW + 365 * Duration::DAY;
    let ids = storage.create_all(["F-1", "F-2"]).await;
    let future = storage.create(&new_order("F-3", ahead)).await;
    for id in [ids[0], future] {
        for change in [
            ForeignChange::Both("ASSIGNED, é", Some(7)),
            ForeignChange::Both("ASSIGNED, é", Some(7)),
            ForeignChange::Nothing,
            ForeignChange::Notary(None),
            ForeignChange::Status("CANCELLED"),
        ] {
            storage.other_system.change_order(id, change).await;
        }
        let order = found(storage, id).await;
        let changes: Vec<_> = order
            .changes
            .iter()
            .map(|change| (change.status.as_str(), change.notary_id, change.actor))
            .collect();
        let expected = [("ASSIGNED, é", Some(7)), ("ASSIGNED, é", None), ("CANCELLED", None)];
        let expected = expected.map(|(status, notary)| (status, notary, Actor::Database));
        assert_eq!(changes, expected);
        let mut instants: Vec<_> = order.history().map(|change| change.at).collect();
        assert_eq!(instants.last(), Some(&order.updated_at));
        let read = instants.clone();
        instants.dedup();
        instants.sort_unstable();
        assert_eq!(instants, read, "instants increase");
    }
    let kinds: Vec<_> = events(storage).await.into_iter().map(|(event, ..)| event).collect();
    let each = [EventType::OrderUpdated, EventType::OrderUpdated, EventType::OrderCancelled];
    assert_eq!(kinds, [each, each].concat());
    assert_eq!(found(storage, ids[1]).await.changes, []);
}

fn notary(name: &str) -> Notary {
    Notary { name: name.to_owned(), phone: None, email: None }
}

/// An update that assigns another notary without naming it forgets the name; one that names it again
/// keeps it. The history and the event tell the number only.
pub async fn notary_is_found_as_named(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let whole = Some(Notary {
        name: "Pat \"Ink\" O'Neil, é\\".to_owned(),
        phone: Some("+1 555 010 0100".to_owned()),
        email: Some(EmailAddress::from_stored("pat@example.com".to_owned())),
    });
    let any = OrderUpdate { expected: None, status: None, notary_id: None, ..update(id, NOW, "") };
    let named =
        |notary: &Option<Notary>| OrderUpdate { notary: Some(notary.clone()), ..any.clone() };
    let assigned = |number| OrderUpdate { notary_id: Some(number), ..any.clone() };
    let both = |number, notary| OrderUpdate { notary_id: Some(number), ..named(notary) };
    let pat = Some(notary("Pat"));
    for (number, (update, expected)) in [
        (both(Some(7), &whole), (Some(7), &whole)),
        (named(&pat), (Some(7), &pat)),
        (
            OrderUpdate { status: OrderStatus::named("NEXT".to_owned()), ..assigned(Some(7)) },
            (Some(7), &pat),
        ),
        (both(Some(8), &pat), (Some(8), &pat)),
        (assigned(Some(9)), (Some(9), &None)),
        (named(&pat), (Some(9), &pat)),
        (assigned(None), (None, &None)),
        (named(&whole), (None, &whole)),
        (named(&None), (None, &None)),
    ]
    .into_iter()
    .enumerate()
    {
        let changed = storage.orders.update(&update).await.unwrap().unwrap();
        let order = found(storage, id).await;
        assert_eq!((order.notary_id, &order.notary), expected, "{update:?}");
        assert_eq!((order.changes.len(), events(storage).await.len()), (number + 1, number + 1));
        assert_eq!(changed, order.into());
        assert!(!is_changed(storage, &update).await, "{update:?}");
    }
    assert!(is_changed(storage, &both(Some(7), &whole)).await);
    storage.admin.erase(id, NOW, None).await.unwrap();
    let remains = storage.other_system.remains(id).await;
    assert_eq!((remains.history.len(), remains.data), (10, Vec::new()));
}

/// Also when the database changes it: an old name never stands beside a new number.
pub async fn name_leaves_with_a_number_that_another_system_changes(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    for (number, (change, expected)) in [
        (ForeignChange::Named(Some(7), "Pat"), (Some(7), Some(notary("Pat")))),
        (ForeignChange::Status("assigned"), (Some(7), Some(notary("Pat")))),
        (ForeignChange::Named(Some(7), "Kim"), (Some(7), Some(notary("Kim")))),
        (ForeignChange::Named(Some(8), "Pat"), (Some(8), Some(notary("Pat")))),
        (ForeignChange::Both("canceled", Some(9)), (Some(9), None)),
        (ForeignChange::Named(None, "Pat"), (None, Some(notary("Pat")))),
        (ForeignChange::Notary(Some(7)), (Some(7), None)),
    ]
    .into_iter()
    .enumerate()
    {
        for _ in 0..2 {
            storage.other_system.change_order(id, change).await;
        }
        let order = found(storage, id).await;
        assert_eq!((order.notary_id, &order.notary), (expected.0, &expected.1), "{number}");
        assert_eq!((order.changes.len(), events(storage).await.len()), (number + 1, number + 1));
        assert_eq!(order.changes[number].at, order.updated_at);
    }
}

/// The service names itself for one change only.
pub async fn change_by_another_system_after_one_of_the_service_is_of_the_database(
    storage: &Storage,
) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    assert!(is_changed(storage, &update(id, NOW, "ASSIGNED")).await);
    storage.other_system.change_order(id, ForeignChange::Status("SIGNED")).await;
    let changes = found(storage, id).await.changes;
    assert_eq!((changes[1].actor, &changes[1].reason), (Actor::Database, &None));
}

/// Reasons may name people.
pub async fn erasure_leaves_statuses_and_instants_without_reasons(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    assert!(is_changed(storage, &update(id, NOW, "CANCELLED")).await);
    let reason = update(id, NOW, "CANCELLED").reason.unwrap();
    assert!(storage.other_system.remains(id).await.data.contains(&reason));
    storage.admin.erase(id, NOW, None).await.unwrap();
    let remains = storage.other_system.remains(id).await;
    assert_eq!((remains.history, remains.data), (vec!["CANCELLED".to_owned()], Vec::new()));
}

/// Whether it changes an order or adds one. A text that only looks similar stays.
pub async fn near_spelling_by_another_system_is_the_usual_status(storage: &Storage) {
    for (number, (written, status)) in [
        ("assigned", "ASSIGNED"),
        ("Confirmed ", "CONFIRMED"),
        ("On-Hold", "ON_HOLD"),
        ("on hold", "ON_HOLD"),
        ("S\u{a0}igned", "SIGNED"),
        ("DidNotSign", "DID_NOT_SIGN"),
        ("completed", "COMPLETED"),
        ("canceled", "CANCELLED"),
        ("CANCELLED", "CANCELLED"),
        ("Re-assigned", "Re-assigned"),
        ("---", "---"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = storage.create(&new_order(&format!("F-{number}"), NOW)).await;
        for _ in 0..2 {
            storage.other_system.change_order(id, ForeignChange::Status(written)).await;
        }
        storage.other_system.change_order(id, ForeignChange::Status(status)).await;
        let order = found(storage, id).await;
        let changes: Vec<_> = order.changes.iter().map(|change| change.status.as_str()).collect();
        assert_eq!((order.status.as_str(), changes), (status, vec![status]), "{written}");
        storage.other_system.copy_order(id, written).await;
        let copy = storage.admin.list(&OrderFilter::default(), None, 1).await.unwrap().remove(0);
        assert!(copy.stored.id > id);
        assert_eq!(
            (copy.stored.status.as_str(), copy.stored.changes),
            (status, vec![]),
            "{written}"
        );
        let events = storage.outbox.events(order.updated_at, 1_000).await.unwrap();
        let cancelled = events
            .iter()
            .filter(|event| event.order_id == id && event.event == EventType::OrderCancelled);
        assert_eq!(cancelled.count(), usize::from(status == "CANCELLED"), "{written}");
    }
}
