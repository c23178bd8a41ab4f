//! The contract of `Outbox`.

use std::collections::BTreeSet;

use domain::{
    delivery::NewDelivery,
    order::{OrderId, Refusal},
    ports::{Event, EventId, NewOrder, WriteError},
    webhook::EventType,
};
use time::Duration;

use crate::{
    order_repo::{added, addition},
    samples::{
        MICROSECOND, NOW, Storage, WINDOW, at_once, delivery, mails, new_order, record_uploads,
    },
};

async fn create(storage: &Storage, number: usize) -> OrderId {
    storage.create(&new_order(&format!("F-{number}"), NOW)).await
}

async fn events(storage: &Storage) -> Vec<Event> {
    storage.outbox.events(NOW, 1_000).await.unwrap()
}

async fn dispatch(storage: &Storage, event: EventId, deliveries: Vec<NewDelivery>) -> usize {
    storage.outbox.dispatch(&[mails(event, deliveries)], NOW).await.unwrap().len()
}

/// Test orders too. An order that is not created adds none.
pub async fn each_order_adds_one_event(storage: &Storage) {
    let real = create(storage, 1).await;
    let test = NewOrder { is_test: true, ..new_order("F-1", NOW) };
    let test = storage.create(&test).await;
    storage.orders.create(&new_order("F-1", NOW), WINDOW).await.unwrap_err();
    let orders: Vec<_> = events(storage).await.iter().map(|event| event.order_id).collect();
    assert_eq!(orders, [real, test]);
    assert!(events(storage).await.iter().all(|event| event.event == EventType::OrderCreated));
}

/// One that is rejected adds none.
pub async fn each_addition_of_documents_adds_one_event(storage: &Storage) {
    let order = create(storage, 1).await;
    let mut addition = addition(order, 2);
    record_uploads(storage, &added(&addition).documents).await;
    storage.orders.change(&addition).await.unwrap();
    addition.order = OrderId(i64::MAX);
    let rejected = storage.orders.change(&addition).await;
    assert!(matches!(rejected, Err(WriteError::Refused(Refusal::NoSuchOrder))), "{rejected:?}");
    let found: Vec<_> =
        events(storage).await.iter().map(|event| (event.order_id, event.event)).collect();
    assert_eq!(found, [(order, EventType::OrderCreated), (order, EventType::DocumentsAdded)]);
}

/// At most the limit.
pub async fn oldest_events_come_first(storage: &Storage) {
    for number in 0..5 {
        create(storage, number).await;
    }
    let all = events(storage).await;
    assert!(all.is_sorted_by(|one, other| one.id < other.id) && all[0].id.0 > 0);
    assert_eq!(storage.outbox.events(NOW, 2).await.unwrap(), all[..2]);
    assert_eq!(storage.outbox.events(NOW, 0).await.unwrap(), []);
    assert_eq!(events(storage).await.len(), 5, "they stay until they are dispatched");
}

/// They keep their order and their content, and are as old as the event.
pub async fn deliveries_of_an_event_are_due_at_once(storage: &Storage) {
    let order = create(storage, 1).await;
    let tasks: Vec<_> = (0..5).map(delivery).collect();
    assert_eq!(dispatch(storage, events(storage).await[0].id, tasks.clone()).await, 1);
    assert_eq!(events(storage).await, []);
    let early = storage.queue.lease(NOW - MICROSECOND, Duration::MINUTE, 10).await.unwrap();
    assert_eq!(early, []);
    let leases = storage.queue.lease(NOW, Duration::MINUTE, 10).await.unwrap();
    let found: Vec<_> = leases.iter().map(|lease| lease.delivery.task.clone()).collect();
    assert_eq!(found, tasks);
    for delivery in leases.into_iter().map(|lease| lease.delivery) {
        assert!(delivery.id.0 > 0);
        assert_eq!(
            (delivery.order_id, delivery.attempts, delivery.last_error, delivery.failed_at),
            (order, 0, None, None)
        );
        assert_eq!((delivery.created_at, delivery.due_at), (NOW, NOW));
    }
}

/// A second call, and one with an unknown event, adds nothing.
pub async fn event_is_dispatched_once(storage: &Storage) {
    create(storage, 1).await;
    let event = events(storage).await[0].id;
    assert_eq!(dispatch(storage, event, vec![delivery(1)]).await, 1);
    assert_eq!(dispatch(storage, event, vec![delivery(2)]).await, 0);
    assert_eq!(dispatch(storage, EventId(i64::MAX), vec![delivery(3)]).await, 0);
    let listed = storage.queue.list(false, 10).await.unwrap();
    assert_eq!(listed.len(), 1);
}

/// One that is gone does not keep the others.
pub async fn events_of_a_call_are_dispatched_together(storage: &Storage) {
    let mut orders = Vec::new();
    for number in 0..4 {
        orders.push(create(storage, number).await);
    }
    let events = events(storage).await;
    assert_eq!(dispatch(storage, events[1].id, vec![delivery(1)]).await, 1);
    let dispatches: Vec<_> = (0..)
        .zip(&events[..3])
        .map(|(number, event)| mails(event.id, (0..number).map(delivery).collect()))
        .collect();
    let removed: BTreeSet<_> =
        storage.outbox.dispatch(&dispatches, NOW).await.unwrap().into_iter().collect();
    assert_eq!(removed, BTreeSet::from([events[0].id, events[2].id]));
    let listed = storage.queue.list(false, 10).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|delivery| delivery.order_id).collect();
    assert_eq!(listed, [orders[1], orders[2], orders[2]]);
    assert_eq!(storage.outbox.events(NOW, 10).await.unwrap(), events[3..]);
    assert_eq!(storage.outbox.dispatch(&[], NOW).await.unwrap(), []);
}

/// A clock that was ahead made the event.
pub async fn deliveries_of_an_event_from_the_future_are_due(storage: &Storage) {
    let ahead = NOW + Duration::DAY;
    storage.create(&new_order("F-1", ahead)).await;
    let event = storage.outbox.events(ahead, 1).await.unwrap().remove(0).id;
    let dispatches = [mails(event, vec![delivery(0)])];
    assert_eq!(storage.outbox.dispatch(&dispatches, NOW).await.unwrap(), [event]);
    assert_eq!(storage.queue.lease(NOW, Duration::MINUTE, 1).await.unwrap().len(), 1);
}

/// The others add no deliveries.
pub async fn concurrent_workers_dispatch_each_event_once(storage: &Storage) {
    for number in 0..24 {
        create(storage, number).await;
    }
    let workers = (0..4).map(|_| {
        let outbox = storage.outbox.clone();
        async move {
            let mut count = 0;
            loop {
                let events = outbox.events(NOW, 7).await.unwrap();
                if events.is_empty() {
                    return count;
                }
                let deliveries = || (0..2).map(delivery).collect();
                let with = |event: Event| mails(event.id, deliveries());
                let dispatches: Vec<_> = events.into_iter().map(with).collect();
                count += outbox.dispatch(&dispatches, NOW).await.unwrap().len();
            }
        }
    });
    let dispatched: usize = at_once(workers).await.into_iter().sum();
    assert_eq!((dispatched, storage.queue.list(false, 100).await.unwrap().len()), (24, 48));
}

/// Until the instant. Others come meanwhile.
pub async fn event_put_off_is_passed(storage: &Storage) {
    create(storage, 1).await;
    create(storage, 2).await;
    let all = events(storage).await;
    let until = NOW + Duration::MINUTE;
    storage.outbox.put_off(&[all[0].id, EventId(i64::MAX)], until).await.unwrap();
    assert_eq!(events(storage).await, all[1..]);
    assert_eq!(storage.outbox.events(until - MICROSECOND, 10).await.unwrap(), all[1..]);
    assert_eq!(storage.outbox.events(until, 10).await.unwrap(), all);
    assert_eq!(dispatch(storage, all[0].id, vec![delivery(1)]).await, 1);
}

/// A newer version of the program has written it.
pub async fn event_of_an_unknown_type_is_left_alone(storage: &Storage) {
    create(storage, 1).await;
    storage.other_system.make_events_unknown().await;
    create(storage, 2).await;
    assert_eq!(events(storage).await.len(), 1);
    assert_eq!(storage.stats().await.events, 2);
}

/// A worker may have read the event that had it.
pub async fn identifier_of_an_event_is_never_given_again(storage: &Storage) {
    create(storage, 1).await;
    let first = events(storage).await[0].id;
    dispatch(storage, first, Vec::new()).await;
    create(storage, 2).await;
    assert!(events(storage).await[0].id > first);
}

/// It is read again later.
pub async fn unreadable_event_holds_up_no_other(storage: &Storage) {
    let ids = storage.create_all(["F-1", "F-2"]).await;
    let [damaged, _] = events(storage).await.try_into().unwrap();
    storage.other_system.damage_event(damaged.id).await;
    let faults = crate::samples::faults(storage).await;
    assert_eq!(faults, [format!("row {} of events cannot be read: change", damaged.id.0)]);
    for _ in 0..2 {
        let found = storage.outbox.events(NOW, 1).await.unwrap();
        let found: Vec<_> = found.iter().map(|event| event.order_id).collect();
        // The first time, it was in the way.
        if !found.is_empty() {
            assert_eq!(found, ids[1..]);
            return;
        }
    }
    panic!("it holds up the other");
}

/// More than one statement can take: a client decides how many addresses know its orders.
pub async fn mails_of_a_call_are_as_many_as_clients_cause(storage: &Storage) {
    const ORDERS: usize = 60;
    const MAILS: usize = 160;
    for number in 0..ORDERS {
        create(storage, number).await;
    }
    let all = events(storage).await;
    let dispatches: Vec<_> =
        all.iter().map(|event| mails(event.id, (0..MAILS).map(delivery).collect())).collect();
    assert_eq!(storage.outbox.dispatch(&dispatches, NOW).await.unwrap().len(), ORDERS);
    assert_eq!(storage.stats().await.pending, u64::try_from(ORDERS * MAILS).unwrap());
    let leases = storage.queue.lease(NOW, Duration::MINUTE, ORDERS * MAILS).await.unwrap();
    let tasks = leases.iter().map(|lease| &lease.delivery.task);
    assert!(tasks.eq(dispatches.iter().flat_map(|one| &one.mails)), "they keep their order");
}
