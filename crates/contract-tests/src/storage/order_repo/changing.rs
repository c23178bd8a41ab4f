//! Changes of status and notary.

use domain::{
    api_key::{ClientId, Owner, Party},
    order::{Actor, OrderChange, OrderId, OrderStatus, SigningServiceId, StoredOrder},
    ports::{Event, Kept, NewDocuments, NewOrder, OrderUpdate, WriteError},
    webhook::EventType,
};
use time::{Duration, OffsetDateTime};

use super::adding::{self, add};
use crate::{
    ForeignChange,
    samples::{LIVE, MICROSECOND, NOW, Storage, at_once, new_order},
};

const SERVICE: Owner = Owner { party: Party::Service(SigningServiceId(42)), is_test: false };

async fn found(storage: &Storage, id: OrderId) -> StoredOrder {
    storage.reader.order(LIVE, id).await.unwrap().and_then(Kept::whole).unwrap()
}

fn change(status: &str, at: OffsetDateTime) -> OrderChange {
    OrderChange {
        at,
        status: OrderStatus::from_stored(status.to_owned()).unwrap(),
        notary_id: Some(7),
        actor: Actor::Service,
        reason: Some("é, 'because'".to_owned()),
    }
}

fn update(id: OrderId, seen: OffsetDateTime, status: &str) -> OrderUpdate {
    OrderUpdate { owner: SERVICE, id, seen, change: change(status, seen + MICROSECOND) }
}

/// Returns the events but those of creations: the statuses before and after, and the actor.
async fn events(storage: &Storage) -> Vec<(EventType, String, String, Actor)> {
    let events = storage.outbox.events(NOW + 400 * Duration::DAY, 10_000).await.unwrap();
    let told = |Event { event, change, .. }: Event| {
        let change = change?;
        Some((event, change.previous_status, change.order_status, change.actor))
    };
    events.into_iter().filter_map(told).collect()
}

/// With its history, its event, and the instant of the change.
pub async fn change_is_found_as_stored(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let first = update(id, NOW, "ASSIGNED");
    assert!(storage.orders.update(&first).await.unwrap());
    let second = update(id, first.change.at, "CANCELLED");
    assert!(storage.orders.update(&second).await.unwrap());
    let order = found(storage, id).await;
    assert_eq!((&order.status, order.notary_id), (&OrderStatus::CANCELLED, Some(7)));
    assert_eq!(order.updated_at, second.change.at);
    assert_eq!(order.changes, [first.change, second.change]);
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
        OrderUpdate { seen: NOW - MICROSECOND, ..own.clone() },
    ] {
        assert!(!storage.orders.update(&other).await.unwrap(), "{other:?}");
    }
    assert!(storage.orders.update(&OrderUpdate { owner: LIVE, ..own.clone() }).await.unwrap());
    storage.admin.erase(id, NOW).await.unwrap();
    assert!(!storage.orders.update(&update(id, own.change.at, "SIGNED")).await.unwrap());
}

/// The instant of the addition is not later than that of the change: a clock was behind.
pub async fn documents_added_after_a_change_keep_the_history(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let first = update(id, NOW, "ASSIGNED");
    assert!(storage.orders.update(&first).await.unwrap());
    let addition = NewDocuments { at: NOW, ..adding::addition(id, 1) };
    add(storage, &addition).await.unwrap();
    let order = found(storage, id).await;
    assert_eq!(order.changes, std::slice::from_ref(&first.change));
    assert!(order.updated_at > first.change.at);
    assert!(!storage.orders.update(&update(id, first.change.at, "SIGNED")).await.unwrap());

    assert!(storage.orders.update(&update(id, order.updated_at, "CANCELLED")).await.unwrap());
    let added = add(storage, &adding::addition(id, 1)).await;
    assert!(matches!(added, Err(WriteError::Cancelled)), "{added:?}");
    assert_eq!(found(storage, id).await.documents.len(), 1);
}

/// The history has each change once.
pub async fn one_of_concurrent_changes_of_a_version_is_stored(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let orders = storage.orders.clone();
    let changes = (0..8).map(|number| {
        let (orders, update) = (orders.clone(), update(id, NOW, &format!("S{number}")));
        async move { orders.update(&update).await.unwrap() }
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

/// The service names itself for one change only.
pub async fn change_by_another_system_after_one_of_the_service_is_of_the_database(
    storage: &Storage,
) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    assert!(storage.orders.update(&update(id, NOW, "ASSIGNED")).await.unwrap());
    storage.other_system.change_order(id, ForeignChange::Status("SIGNED")).await;
    let changes = found(storage, id).await.changes;
    assert_eq!((changes[1].actor, &changes[1].reason), (Actor::Database, &None));
}

/// Reasons may name people.
pub async fn erasure_leaves_statuses_and_instants_without_reasons(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    assert!(storage.orders.update(&update(id, NOW, "CANCELLED")).await.unwrap());
    let reason = update(id, NOW, "CANCELLED").change.reason.unwrap();
    assert!(storage.other_system.remains(id).await.data.contains(&reason));
    storage.admin.erase(id, NOW).await.unwrap();
    let remains = storage.other_system.remains(id).await;
    assert_eq!((remains.history, remains.data), (vec!["CANCELLED".to_owned()], Vec::new()));
}
