//! The contract of `Outbox`.

use std::collections::BTreeSet;

use domain::{
    delivery::{Delivery, FARTHEST_DUE, MailContent, MailSubject, NewDelivery, Settling},
    order::{Actor, OrderId, Refusal, event::MAX_NOTES_OF_A_MAIL},
    ports::{Dispatch, Event, EventId, NewOrder, OrderUpdate, Settlement, WriteError},
    webhook::EventType,
};
use futures_util::future::join_all;
use time::{Duration, OffsetDateTime};

use crate::{
    order_repo::{added, addition, changing},
    samples::{
        self, MICROSECOND, NOW, Storage, WINDOW, at_once, delivery, mails, new_order,
        record_uploads,
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

/// By more than any delay.
pub async fn event_that_a_clock_ahead_has_put_off_is_not_passed(storage: &Storage) {
    create(storage, 1).await;
    create(storage, 2).await;
    let all = events(storage).await;
    let latest = NOW + FARTHEST_DUE;
    for (event, until) in [(&all[0], latest + MICROSECOND), (&all[1], latest)] {
        storage.outbox.put_off(&[event.id], until).await.unwrap();
    }
    assert_eq!(events(storage).await, all[..1]);
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

/// The instants of the events of [`several_events`], in seconds.
const EVENTS: [i64; 5] = [0, 20, 45, 110, 119];

fn second(second: i64) -> OffsetDateTime {
    NOW + Duration::seconds(second)
}

/// Creates an order, and changes it at the [`EVENTS`]. Returns its events.
async fn several_events(storage: &Storage) -> Vec<EventId> {
    let order = create(storage, 1).await;
    let mut seen = NOW;
    for (at, status) in EVENTS[1..].iter().zip(["A", "B", "C", "D"]) {
        let update = OrderUpdate { at: second(*at), ..changing::update(order, seen, status) };
        storage.orders.update(&update).await.unwrap().unwrap();
        seen = update.at;
    }
    let events = storage.outbox.events(second(1_000), 10).await.unwrap();
    events.into_iter().map(|event| event.id).collect()
}

/// Returns a mail to the recipient of that number that tells a note.
fn note(number: usize, text: &str) -> NewDelivery {
    let content = Some(MailContent::Note { author: Actor::Client, text: text.to_owned() });
    NewDelivery { subject: MailSubject::NoteAdded, content, ..delivery(number) }
}

/// Dispatches an event as soon as it has happened, and waits for more news for 30 seconds.
async fn gather(storage: &Storage, event: EventId, at: i64, mails: Vec<NewDelivery>) {
    let settling = Settling::of_secs(30);
    let dispatch = Dispatch { settling, ..samples::mails(event, mails) };
    assert_eq!(storage.outbox.dispatch(&[dispatch], second(at)).await.unwrap(), [event]);
}

/// Returns the notes of the mails that wait and the seconds at which they are due, the oldest mail first.
async fn notes(storage: &Storage) -> Vec<(Vec<String>, i64)> {
    let listed = storage.queue.list(false, 1_000).await.unwrap().into_iter();
    let notes = listed.map(|mail| {
        let notes = mail.task.content.as_ref().map(MailContent::notes).unwrap_or_default();
        let notes = notes.into_iter().map(|note| note.text).collect();
        (notes, (mail.due_at - NOW).whole_seconds())
    });
    notes.collect()
}

fn told(notes: &[&str], due: i64) -> (Vec<String>, i64) {
    (notes.iter().map(ToString::to_string).collect(), due)
}

/// It leaves 30 seconds after the last of them, and two minutes after the first at the latest. Mails of other
/// recipients and kinds are their own.
pub async fn news_that_gather_join_the_mail_that_waits(storage: &Storage) {
    let events = several_events(storage).await;
    gather(storage, events[0], 0, vec![note(1, "a"), note(2, "a")]).await;
    assert_eq!(notes(storage).await, [told(&["a"], 30), told(&["a"], 30)]);
    let key = |mails: Vec<Delivery>| mails[0].task.message_key.clone();
    let first = key(storage.queue.list(false, 1).await.unwrap());
    let early = storage.queue.lease(second(30) - MICROSECOND, Duration::MINUTE, 10).await.unwrap();
    assert_eq!(early, []);

    let documents = Some(MailContent::Documents(vec![1]));
    let subject = MailSubject::DocumentsAdded;
    let other = NewDelivery { subject, content: documents, ..delivery(1) };
    gather(storage, events[1], 20, vec![note(1, "b"), other, delivery(1)]).await;
    let kinds = [told(&["a", "b"], 50), told(&["a"], 30), told(&[], 50), told(&[], 20)];
    assert_eq!(notes(storage).await, kinds);
    gather(storage, events[2], 45, vec![note(1, "c")]).await;
    gather(storage, events[3], 110, vec![note(1, "d")]).await;
    assert_eq!(notes(storage).await[0], told(&["a", "b", "c", "d"], 120));
    let joined = storage.queue.list(false, 1).await.unwrap();
    assert_eq!((joined[0].created_at, joined[0].attempts), (NOW, 0));
    assert_ne!(key(joined), first, "it is another mail");
}

/// It is true when it leaves, and leaves no later. So is "New order", which tells later changes.
pub async fn news_join_a_mail_that_leaves_at_once(storage: &Storage) {
    let events = several_events(storage).await;
    let of = |subject| NewDelivery { subject, ..delivery(1) };
    let confirmed = || of(MailSubject::Confirmed);
    gather(storage, events[0], 0, vec![delivery(1), of(MailSubject::Changed)]).await;
    let other = NewDelivery { subject: MailSubject::Changed, ..delivery(2) };
    gather(storage, events[1], 20, vec![confirmed(), of(MailSubject::Changed), other]).await;
    let last = confirmed();
    gather(storage, events[2], 45, vec![confirmed(), last.clone()]).await;
    let listed = storage.queue.list(false, 10).await.unwrap();
    let found = listed.iter().map(|mail| (mail.task.subject, (mail.due_at - NOW).whole_seconds()));
    let expected =
        [(MailSubject::Created, 0), (MailSubject::Confirmed, 20), (MailSubject::Changed, 50)];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!(listed[1].task, last, "it is another mail");
}

/// It fails for good after a number of them.
pub async fn changes_that_new_order_tells_have_all_of_their_attempts(storage: &Storage) {
    let events = several_events(storage).await;
    gather(storage, events[0], 0, vec![delivery(1)]).await;
    let leased = storage.queue.lease(second(0), Duration::MINUTE, 1).await.unwrap().remove(0);
    let retry = Settlement::RetryAt { due_at: second(300), error: "451 greylisted".to_owned() };
    assert!(samples::settle(&*storage.queue, &leased, &retry).await);
    assert_eq!(storage.queue.list(false, 1).await.unwrap()[0].attempts, 1);
    let changed = NewDelivery { subject: MailSubject::Changed, ..delivery(1) };
    gather(storage, events[1], 20, vec![changed]).await;
    let [waiting] = <[_; 1]>::try_from(storage.queue.list(false, 10).await.unwrap()).unwrap();
    assert_eq!((waiting.attempts, waiting.due_at), (0, second(300)));
    assert_eq!(waiting.task, leased.delivery.task, "it is the same mail");
}

/// The events of a call, too.
pub async fn news_of_a_call_gather(storage: &Storage) {
    let events = several_events(storage).await;
    let settling = Settling::of_secs(30);
    let dispatches = ["a", "b", "c"]
        .iter()
        .zip(&events)
        .map(|(text, event)| Dispatch { settling, ..samples::mails(*event, vec![note(1, text)]) });
    let dispatches: Vec<_> = dispatches.collect();
    storage.outbox.dispatch(&dispatches, second(50)).await.unwrap();
    assert_eq!(notes(storage).await, [told(&["a", "b", "c"], 75)]);
    // Without a wait, each is due at once.
    let dispatches = [samples::mails(events[3], vec![note(2, "d")])];
    storage.outbox.dispatch(&dispatches, second(115)).await.unwrap();
    assert_eq!(notes(storage).await[1], told(&["d"], 110));
}

/// It may have left without them. One that failed for now waits on, and begins anew; one that may have arrived,
/// or that failed for good, stays as it is.
pub async fn news_do_not_join_a_mail_that_may_have_left(storage: &Storage) {
    let events = several_events(storage).await;
    let lease = async |at: i64| {
        let leases = storage.queue.lease(second(at), Duration::MINUTE, 10).await.unwrap();
        <[_; 1]>::try_from(leases).unwrap().into_iter().next().unwrap()
    };
    let error = || "451 greylisted".to_owned();
    gather(storage, events[0], 0, vec![note(1, "a")]).await;
    let leased = lease(30).await;
    gather(storage, events[1], 20, vec![note(1, "b")]).await;
    assert_eq!(notes(storage).await, [told(&["a"], 30), told(&["b"], 50)]);
    assert!(samples::settle(&*storage.queue, &leased, &Settlement::Done).await);

    let leased = lease(50).await;
    let retry = Settlement::RetryAt { due_at: second(300), error: error() };
    assert!(samples::settle(&*storage.queue, &leased, &retry).await);
    gather(storage, events[2], 45, vec![note(1, "c")]).await;
    assert_eq!(notes(storage).await, [told(&["b", "c"], 300)]);
    let [joined] = <[_; 1]>::try_from(storage.queue.list(false, 10).await.unwrap()).unwrap();
    assert_eq!((joined.attempts, joined.last_error), (0, Some(error())));

    let leased = lease(300).await;
    let unknown = Settlement::Unknown { due_at: second(400), error: error() };
    assert!(samples::settle(&*storage.queue, &leased, &unknown).await);
    gather(storage, events[3], 110, vec![note(1, "d")]).await;
    assert_eq!(notes(storage).await, [told(&["b", "c"], 400), told(&["d"], 140)]);

    let leased = lease(140).await;
    let failed = Settlement::Fail { at: second(140), error: error() };
    assert!(samples::settle(&*storage.queue, &leased, &failed).await);
    gather(storage, events[4], 119, vec![note(1, "e")]).await;
    assert_eq!(notes(storage).await, [told(&["b", "c"], 400), told(&["e"], 149)]);
}

/// None is lost, and none is told twice.
pub async fn concurrent_workers_gather_news_in_one_mail(storage: &Storage) {
    let events = several_events(storage).await;
    let workers = events.iter().zip(["a", "b", "c", "d", "e"]).map(|(&event, text)| async move {
        gather(storage, event, 120, vec![note(1, text), note(2, text)]).await;
    });
    join_all(workers).await;
    let mut gathered = notes(storage).await;
    for (notes, _) in &mut gathered {
        notes.sort_unstable();
    }
    let all = ["a", "b", "c", "d", "e"].map(str::to_owned);
    let [one, two] = <[_; 2]>::try_from(gathered).unwrap();
    assert!(one.0 == all && two.0 == all, "{one:?} {two:?}");
}

/// Each mail has a bound.
pub async fn notes_that_one_mail_cannot_tell_have_another(storage: &Storage) {
    let events = several_events(storage).await;
    let half = "x".repeat(MAX_NOTES_OF_A_MAIL / 2);
    for (event, at) in events.into_iter().zip(EVENTS).take(4) {
        gather(storage, event, at, vec![note(1, &half)]).await;
    }
    let numbers: Vec<_> = notes(storage).await.iter().map(|(notes, _)| notes.len()).collect();
    assert_eq!(numbers, [2, 2]);
}
