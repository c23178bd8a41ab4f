//! The contract of `DeliveryQueue`.

use std::collections::HashSet;

use domain::{
    api_key::ClientId,
    delivery::{
        Audience, Delivery, DeliveryId, FARTHEST_DUE, MailContent, MailSubject, NewDelivery,
        Recipient, Settling,
    },
    order::{EmailAddress, OrderId, record::OrderColumns},
    ports::{
        Attempted, Begun, Dispatch, Lease, NewOrder, OrderUpdate, QueueStats, Retried, Settlement,
    },
};
use futures_util::future::join_all;
use time::{Duration, OffsetDateTime};

use crate::samples::{
    self, MICROSECOND, NOW, Storage, at_once, create_to_be_named, create_with_uploads, delivery,
    document, mails, names_order, new_order, recipient, stored,
};
use crate::{ForeignChange, order_repo::changing};

const LEASE: Duration = Duration::minutes(2);

/// Creates an order with one delivery, to the recipient of that number.
async fn enqueue(storage: &Storage, number: usize, at: OffsetDateTime) {
    enqueue_all(storage, number, at, vec![delivery(number)]).await;
}

async fn enqueue_all(
    storage: &Storage,
    number: usize,
    at: OffsetDateTime,
    deliveries: Vec<NewDelivery>,
) {
    let order = new_order(&format!("F-{number}"), at);
    let id = storage.create(&order).await;
    samples::dispatch(&*storage.outbox, id, deliveries).await;
}

async fn lease(storage: &Storage, now: OffsetDateTime, limit: usize) -> Vec<Lease> {
    storage.queue.lease(now, LEASE, limit).await.unwrap()
}

/// Leases the only delivery that is due.
async fn lease_one(storage: &Storage, now: OffsetDateTime) -> Lease {
    let [only] = <[_; 1]>::try_from(lease(storage, now, 10).await).unwrap();
    only
}

async fn settle(storage: &Storage, lease: &Lease, settlement: Settlement) -> bool {
    samples::settle(&*storage.queue, lease, &settlement).await
}

fn retry_at(due_at: OffsetDateTime) -> Settlement {
    Settlement::RetryAt { due_at, error: "no route to hôst".to_owned() }
}

fn postpone_until(due_at: OffsetDateTime) -> Settlement {
    Settlement::Postpone { due_at, error: "no route to hôst".to_owned() }
}

fn fail_at(at: OffsetDateTime) -> Settlement {
    Settlement::Fail { at, error: "no such mailbox".to_owned() }
}

fn recipients<'a>(deliveries: impl IntoIterator<Item = &'a Delivery>) -> Vec<EmailAddress> {
    deliveries.into_iter().map(|delivery| delivery.task.recipient.clone()).collect()
}

async fn listed(storage: &Storage, failed: bool) -> Vec<Delivery> {
    storage.queue.list(failed, 100).await.unwrap()
}

/// Leases at most the limit, whatever the order of insertion.
pub async fn longest_due_deliveries_are_leased_first(storage: &Storage) {
    for (number, age) in [(1, 10), (2, 30), (3, 20), (4, 0)] {
        enqueue(storage, number, NOW - Duration::seconds(age)).await;
    }
    for (limit, numbers) in [(0, &[][..]), (3, &[2, 3, 1]), (3, &[4])] {
        let leases = lease(storage, NOW, limit).await;
        let expected: Vec<_> = numbers.iter().copied().map(recipient).collect();
        assert_eq!(recipients(leases.iter().map(|lease| &lease.delivery)), expected);
    }
}

/// A microsecond earlier it is not.
pub async fn delivery_is_leased_when_due(storage: &Storage) {
    enqueue(storage, 1, NOW).await;
    assert_eq!(lease(storage, NOW - MICROSECOND, 10).await, []);
    lease_one(storage, NOW).await;
}

/// The new lease has another token. A microsecond before its end, the first lease holds.
pub async fn expired_lease_is_given_again(storage: &Storage) {
    enqueue(storage, 1, NOW).await;
    let first = lease_one(storage, NOW).await;
    assert_eq!(lease(storage, NOW + LEASE - MICROSECOND, 10).await, []);
    let second = lease_one(storage, NOW + LEASE).await;
    assert_eq!(second.delivery, first.delivery);
    assert_ne!(second.token, first.token);
}

/// A store that several instances share cannot tell which are dead.
pub async fn leases_of_dead_processes_are_free(storage: &Storage) {
    enqueue(storage, 1, NOW).await;
    let held = lease_one(storage, NOW).await;
    let ended = storage.queue.end_dead_leases(NOW).await.unwrap();
    assert_eq!(lease(storage, NOW, 10).await.len(), ended);
    assert_eq!(settle(storage, &held, Settlement::Done).await, ended == 0);
    assert!(ended <= 1);
}

/// Each delivery goes to exactly one worker.
pub async fn concurrent_workers_never_share_a_delivery(storage: &Storage) {
    enqueue_all(storage, 1, NOW, (0..60).map(delivery).collect()).await;
    let workers = (0..8).map(|_| {
        let queue = storage.queue.clone();
        async move {
            let mut mine = Vec::new();
            loop {
                let leases = queue.lease(NOW, LEASE, 4).await.unwrap();
                if leases.is_empty() {
                    return mine;
                }
                mine.extend(leases.into_iter().map(|lease| lease.delivery.id));
            }
        }
    });
    let leased = at_once(workers).await.concat();
    assert_eq!((leased.len(), HashSet::<_>::from_iter(&leased).len()), (60, 60));
}

/// Counts the attempt, unless it is postponed, and keeps the error.
pub async fn failed_attempt_is_due_at_the_given_instant(storage: &Storage) {
    enqueue(storage, 1, NOW).await;
    let mut expected = lease_one(storage, NOW).await;
    let settlements = [retry_at, retry_at, postpone_until, retry_at];
    for (attempts, settlement) in [1, 2, 2, 3].into_iter().zip(settlements) {
        let due_at = expected.delivery.due_at + Duration::seconds(5);
        assert!(settle(storage, &expected, settlement(due_at)).await);
        assert_eq!(lease(storage, due_at - MICROSECOND, 10).await, []);
        let leased = lease_one(storage, due_at).await;
        assert_ne!(leased.token, expected.token);
        let last_error = Some("no route to hôst".to_owned());
        assert_eq!(leased.delivery, Delivery { attempts, due_at, last_error, ..expected.delivery });
        expected = leased;
    }
}

/// Another worker has the lease.
pub async fn lost_lease_settles_nothing(storage: &Storage) {
    enqueue(storage, 1, NOW).await;
    let old = lease_one(storage, NOW).await;
    let new = lease_one(storage, NOW + LEASE).await;
    let before = listed(storage, false).await;
    for settlement in [Settlement::Done, retry_at(NOW), postpone_until(NOW), fail_at(NOW)] {
        assert!(!settle(storage, &old, settlement).await);
        assert_eq!(listed(storage, false).await, before);
        assert_eq!(lease(storage, NOW + LEASE, 10).await, [], "the new lease holds");
    }
    assert!(settle(storage, &new, Settlement::Done).await);
    assert_eq!(listed(storage, false).await, []);
}

/// A second settlement changes nothing.
pub async fn lease_settles_once(storage: &Storage) {
    let due_at = NOW + Duration::HOUR;
    let settlements = [Settlement::Done, retry_at(due_at), postpone_until(due_at), fail_at(NOW)];
    for (number, settlement) in settlements.into_iter().enumerate() {
        enqueue(storage, number, NOW).await;
        let leased = lease_one(storage, NOW).await;
        assert!(settle(storage, &leased, settlement).await);
        let before = (listed(storage, false).await, listed(storage, true).await);
        for again in [Settlement::Done, retry_at(NOW), postpone_until(NOW), fail_at(NOW)] {
            assert!(!settle(storage, &leased, again).await);
        }
        assert_eq!((listed(storage, false).await, listed(storage, true).await), before);
    }
}

/// The work is done and need not be repeated.
pub async fn expired_lease_settles_until_taken(storage: &Storage) {
    enqueue(storage, 1, NOW).await;
    let leased = lease_one(storage, NOW).await;
    assert_eq!(lease(storage, NOW + LEASE, 0).await, []);
    assert!(settle(storage, &leased, Settlement::Done).await);
    assert_eq!(lease(storage, NOW + LEASE, 10).await, []);
}

/// Covers unknown tokens and identifiers.
pub async fn unleased_delivery_is_not_settled(storage: &Storage) {
    enqueue(storage, 1, NOW).await;
    let id = listed(storage, false).await[0].id;
    for (id, token) in [(id, 0), (id, 1), (DeliveryId(id.0 + 1), 0), (DeliveryId(i64::MAX), 1)] {
        let attempted = Attempted { id, token, settlement: Settlement::Done };
        assert_eq!(storage.queue.settle(&[attempted]).await.unwrap(), []);
    }
    assert_eq!(listed(storage, false).await.len(), 1);
}

/// Lists pending deliveries, leased or not; or failed ones.
pub async fn deliveries_are_listed_by_age(storage: &Storage) {
    for (number, age) in [(1, 0), (2, 20), (3, 10)] {
        enqueue(storage, number, NOW - Duration::seconds(age)).await;
    }
    lease(storage, NOW, 1).await;
    assert_eq!(recipients(&listed(storage, false).await), [2, 3, 1].map(recipient));
    assert_eq!(recipients(&storage.queue.list(false, 2).await.unwrap()), [2, 3].map(recipient));
    for leased in lease(storage, NOW + LEASE, 10).await {
        assert!(settle(storage, &leased, fail_at(NOW + LEASE)).await);
    }
    assert_eq!(listed(storage, false).await, []);
    assert_eq!(recipients(&listed(storage, true).await), [2, 3, 1].map(recipient));
    assert_eq!(recipients(&storage.queue.list(true, 1).await.unwrap()), [recipient(2)]);
}

/// Resets the attempts, and keeps the instant of the event and the last error.
pub async fn retry_resets_a_failed_delivery(storage: &Storage) {
    enqueue(storage, 1, NOW).await;
    let leased = lease_one(storage, NOW).await;
    settle(storage, &leased, fail_at(NOW)).await;
    let later = NOW + Duration::weeks(1);
    assert_eq!(storage.queue.retry(leased.delivery.id, later).await.unwrap(), Retried::Due);
    let last_error = Some("no such mailbox".to_owned());
    let expected = Delivery {
        attempts: 0,
        unknown_outcomes: 0,
        due_at: later,
        failed_at: None,
        last_error,
        ..leased.delivery
    };
    assert_eq!(listed(storage, true).await, []);
    assert_eq!(listed(storage, false).await, std::slice::from_ref(&expected));
    assert_eq!(lease(storage, later - MICROSECOND, 10).await, []);
    assert_eq!(lease_one(storage, later).await.delivery, expected);
}

/// It does not wait for the backoff.
pub async fn retry_makes_a_waiting_delivery_due(storage: &Storage) {
    enqueue(storage, 1, NOW).await;
    let leased = lease_one(storage, NOW).await;
    let (id, later) = (leased.delivery.id, NOW + Duration::SECOND);
    assert!(settle(storage, &leased, retry_at(NOW + Duration::HOUR)).await);
    assert_eq!(storage.queue.retry(id, later).await.unwrap(), Retried::Due);
    let leased = lease_one(storage, later).await;
    assert_eq!(leased.delivery.attempts, 0);
    // Completed deliveries are unknown.
    assert!(settle(storage, &leased, Settlement::Done).await);
    for id in [id, DeliveryId(0), DeliveryId(i64::MAX)] {
        assert_eq!(storage.queue.retry(id, NOW).await.unwrap(), Retried::NotFound);
    }
}

/// Its counts stay, and its worker settles it. A lease that has ended, or was taken while a clock was
/// wrong, protects nothing.
pub async fn retry_changes_no_delivery_in_progress(storage: &Storage) {
    enqueue(storage, 1, NOW).await;
    let first = lease_one(storage, NOW).await;
    assert!(settle(storage, &first, retry_at(NOW)).await);
    let leased = lease_one(storage, NOW).await;
    let (id, before) = (leased.delivery.id, listed(storage, false).await);
    let end = NOW + LEASE;
    for now in [NOW, end - MICROSECOND] {
        assert_eq!(storage.queue.retry(id, now).await.unwrap(), Retried::Leased);
    }
    assert_eq!(listed(storage, false).await, before);
    assert!(settle(storage, &leased, retry_at(end)).await);
    for (lease_at, retry_at) in [(end, end + LEASE), (NOW + Duration::DAY, NOW)] {
        lease_one(storage, lease_at).await;
        assert_eq!(storage.queue.retry(id, retry_at).await.unwrap(), Retried::Due);
    }
}

/// The client has moved a confirmed appointment, and moved it back. Nobody has confirmed it since, and the mail about
/// the change says so also when it leaves late.
pub async fn retried_mail_tells_its_order_as_it_is(storage: &Storage) {
    let order = new_order("F-1", NOW).order;
    let id = storage.create(&new_order("F-1", NOW)).await;
    let previous = MailContent::Previous(OrderColumns::of(&order).unwrap());
    let of = |subject, content| NewDelivery { subject, content, ..delivery(1) };
    let confirmed = of(MailSubject::Confirmed, None);
    let changed = of(MailSubject::Changed, Some(previous));
    samples::dispatch(&*storage.outbox, id, vec![confirmed, changed]).await;
    for leased in lease(storage, NOW, 10).await {
        assert!(settle(storage, &leased, fail_at(NOW)).await);
    }
    let read = async || samples::order_of(&*storage.queue, id).await.unwrap().unwrap();
    let confirmation = changing::update(id, NOW, "CONFIRMED");
    storage.orders.update(&confirmation).await.unwrap().unwrap();
    let mut moved = order.clone();
    "9 Elm St".clone_into(&mut moved.signing.property.address);
    for place in [moved, order] {
        let at = read().await.updated_at + MICROSECOND;
        storage.orders.change(&samples::amend(id, place, at)).await.unwrap();
    }

    let later = NOW + Duration::weeks(1);
    for mail in listed(storage, true).await {
        assert_eq!(storage.queue.retry(mail.id, later).await.unwrap(), Retried::Due);
    }
    let now = read().await;
    let told = |Lease { delivery, .. }: Lease| {
        let NewDelivery { subject, content, .. } = delivery.task;
        (subject, subject.is_true_of(content.as_ref(), delivery.created_at, &now))
    };
    let leases = lease(storage, later, 10).await.into_iter().map(told);
    let expected = [(MailSubject::Confirmed, false), (MailSubject::Changed, true)];
    assert_eq!(leases.collect::<Vec<_>>(), expected);
}

/// Whatever their clients. An erased or unknown order is not found.
pub async fn orders_of_deliveries_are_found(storage: &Storage) {
    let new = NewOrder { documents: vec![document()], ..new_order("F-1", NOW) };
    let test = NewOrder { is_test: true, ..new_order("F-2", NOW) };
    let id = create_with_uploads(storage, &new).await;
    let other = storage.create(&test).await;
    let erased = storage.create(&new_order("F-3", NOW)).await;
    storage.admin.erase(erased, NOW, None).await.unwrap();
    let unknown = OrderId(erased.0 + 1);
    let mut found = storage.queue.orders(&[unknown, other, erased, id]).await.unwrap();
    found.sort_by_key(|(id, _)| *id);
    let found: Vec<_> = found.into_iter().map(|(id, order)| (id, order.unwrap())).collect();
    assert_eq!(found, [(id, stored(id, &new)), (other, stored(other, &test))]);
    assert!(storage.queue.orders(&[]).await.unwrap().is_empty());
}

/// The others are found.
pub async fn unreadable_order_of_a_delivery_is_an_error_of_its_own(storage: &Storage) {
    let ids = create_to_be_named(storage).await;
    storage.other_system.damage_order(ids[1]).await;
    let mut found = storage.queue.orders(&ids).await.unwrap();
    found.sort_by_key(|(id, _)| *id);
    assert_eq!(found.len(), 3);
    for ((found, order), id) in found.into_iter().zip(ids) {
        assert_eq!(found, id);
        assert!(if id == ids[1] {
            order.is_err_and(|error| names_order(&error, id))
        } else {
            order.is_ok()
        });
    }
}

/// Each with its own outcome. A lease that was lost changes nothing for the others.
pub async fn settlements_of_a_call_are_stored_together(storage: &Storage) {
    for number in 0..6 {
        enqueue(storage, number, NOW + MICROSECOND * i32::try_from(number).unwrap()).await;
    }
    let lost = lease(storage, NOW, 1).await.remove(0);
    let leases = lease(storage, NOW + LEASE, 6).await;
    let due_at = NOW + Duration::DAY;
    let settlements = [
        Settlement::Done,
        retry_at(due_at),
        postpone_until(due_at),
        fail_at(NOW + LEASE),
        Settlement::Done,
    ];
    let outcome = |(lease, settlement): (&Lease, &Settlement)| Attempted {
        id: lease.delivery.id,
        token: lease.token,
        settlement: settlement.clone(),
    };
    // In any order. The first delivery is also settled by its lost lease.
    let mut attempted: Vec<_> = leases.iter().zip(&settlements).map(outcome).rev().collect();
    attempted.push(outcome((&lost, &fail_at(NOW))));
    let mut held = storage.queue.settle(&attempted).await.unwrap();
    held.sort_unstable();
    let expected: Vec<_> = leases[..5].iter().map(|lease| lease.delivery.id).collect();
    assert_eq!(held, expected);

    let error = |text: &str| Some(text.to_owned());
    let deliveries: Vec<_> = leases.into_iter().map(|lease| lease.delivery).collect();
    let [_, retried, postponed, failed, _, other] = <[_; 6]>::try_from(deliveries).unwrap();
    let retried =
        Delivery { attempts: 1, due_at, last_error: error("no route to hôst"), ..retried };
    let postponed = Delivery { due_at, last_error: error("no route to hôst"), ..postponed };
    let failed = Delivery {
        attempts: 1,
        failed_at: Some(NOW + LEASE),
        last_error: error("no such mailbox"),
        ..failed
    };
    assert_eq!(listed(storage, false).await, [retried, postponed, other]);
    assert_eq!(listed(storage, true).await, [failed]);
    assert_eq!(storage.queue.settle(&[]).await.unwrap(), []);
    // Neither one that is done nor one that failed for good is leased again.
    let later = lease(storage, NOW + Duration::weeks(5_000), 10).await;
    let later = recipients(later.iter().map(|lease| &lease.delivery));
    assert_eq!(later, [5, 1, 2].map(recipient));
}

/// Leased deliveries are pending. Failed ones have no age. The age is that of the oldest event or
/// pending delivery.
pub async fn stats_count_events_and_deliveries(storage: &Storage) {
    let expected = |events, pending, failed, oldest: i64| QueueStats {
        events,
        pending,
        over_limit: 0,
        failed,
        put_off: 0,
        put_off_order: None,
        oldest_created_at: Some(NOW + Duration::seconds(oldest)),
        latest_due_at: Some(NOW + Duration::seconds(3)),
    };
    assert_eq!(storage.stats().await, QueueStats::default());
    for number in 0..4 {
        enqueue(storage, number, NOW + Duration::seconds(number.try_into().unwrap())).await;
    }
    let oldest = lease_one(storage, NOW).await;
    assert_eq!(storage.stats().await, expected(0, 4, 0, 0));
    settle(storage, &oldest, fail_at(NOW)).await;
    let second = lease_one(storage, NOW + Duration::SECOND).await;
    settle(storage, &second, Settlement::Done).await;
    assert_eq!(storage.stats().await, expected(0, 2, 1, 2));
    for (number, seconds) in [(4, 1), (5, -1)] {
        let order = new_order(&format!("F-{number}"), NOW + Duration::seconds(seconds));
        storage.create(&order).await;
    }
    assert_eq!(storage.stats().await, expected(2, 2, 1, -1));
    let event = storage.outbox.events(NOW, 10).await.unwrap()[1].id;
    storage.outbox.dispatch(&[mails(event, Vec::new())], NOW).await.unwrap();
    assert_eq!(storage.stats().await, expected(1, 2, 1, 1));
    let [event] = <[_; 1]>::try_from(storage.outbox.events(NOW, 10).await.unwrap()).unwrap();
    storage.outbox.put_off(&[event.id], NOW + Duration::MINUTE).await.unwrap();
    let stats = storage.stats().await;
    assert_eq!((stats.put_off, stats.put_off_order), (1, Some(event.order_id)));
}

/// A clock was ahead when they were put off.
pub async fn mails_that_wait_longer_than_any_delay_are_brought_forward(storage: &Storage) {
    for number in 0..3 {
        enqueue(storage, number, NOW).await;
    }
    let (latest, years) = (NOW + FARTHEST_DUE, NOW + Duration::days(3_650));
    let leases = lease(storage, NOW, 10).await;
    for (lease, due_at) in leases.iter().zip([latest, latest + MICROSECOND, years]) {
        assert!(settle(storage, lease, retry_at(due_at)).await);
    }
    assert_eq!(storage.stats().await.latest_due_at, Some(years));
    for (limit, brought) in [(1, 1), (10, 1), (10, 0)] {
        assert_eq!(storage.queue.bring_forward(NOW, limit).await.unwrap(), brought);
    }
    assert_eq!(storage.stats().await.latest_due_at, Some(latest));
    let due = lease(storage, NOW, 10).await;
    assert_eq!(recipients(due.iter().map(|lease| &lease.delivery)), [1, 2].map(recipient));
}

/// Creates an order with one delivery to an address.
async fn enqueue_to(storage: &Storage, address: &str, number: usize, at: OffsetDateTime) {
    let recipient = EmailAddress::from_stored(address.to_owned());
    enqueue_all(storage, number, at, vec![NewDelivery { recipient, ..delivery(number) }]).await;
}

/// Begins mails with the current versions of their orders, and a limit.
async fn begin(storage: &Storage, leases: &[Lease], now: OffsetDateTime, limit: u32) -> Vec<Begun> {
    let mut mails = Vec::new();
    for Lease { delivery: Delivery { id, order_id, .. }, .. } in leases {
        let order = samples::order_of(&*storage.queue, *order_id).await.unwrap().unwrap();
        mails.push((*id, order.updated_at));
    }
    let mut begun = storage.queue.begin(&mails, now, limit).await.unwrap();
    begun.sort_by_key(|one| mails.iter().position(|(id, _)| *id == one.id));
    assert_eq!(begun.len(), mails.len());
    begun
}

/// Leases mails and begins them. Returns which mails of the hour they are.
async fn counted(storage: &Storage, now: OffsetDateTime, limit: usize) -> Vec<Option<u64>> {
    let leases = lease(storage, now, limit).await;
    begin(storage, &leases, now, 0).await.iter().map(|one| one.mail_of_hour).collect()
}

/// The longest due mail comes first. The case of the address does not count, and neither does a
/// second attempt. Each hour of the clock begins at 1.
pub async fn mails_to_a_recipient_are_counted_per_hour(storage: &Storage) {
    let addresses = ["anna@example.com", "Anna@Example.com", "ben@example.com", "ANNA@EXAMPLE.COM"];
    for (number, address) in (0..).zip(addresses) {
        enqueue_to(storage, address, number, NOW).await;
    }
    let first = lease(storage, NOW, 3).await;
    let begun = begin(storage, &first, NOW, 0).await;
    let numbers: Vec<_> = begun.iter().map(|one| one.mail_of_hour).collect();
    assert_eq!(numbers, [Some(1), Some(2), Some(1)]);
    let minute = NOW + Duration::MINUTE;
    let last = lease(storage, minute, 1).await;
    assert_eq!(begin(storage, &last, minute, 0).await[0].mail_of_hour, Some(3));

    let later = NOW + Duration::HOUR;
    for lease in first.iter().chain(&last) {
        settle(storage, lease, retry_at(later)).await;
    }
    enqueue_to(storage, "anna@example.com", 4, later).await;
    assert_eq!(counted(storage, later, 5).await, [None, None, None, None, Some(1)]);
}

/// The worker drops a mail that its order has made wrong, and such a mail uses up no other.
pub async fn mail_that_does_not_begin_is_not_counted(storage: &Storage) {
    for number in 0..3 {
        enqueue_to(storage, "anna@example.com", number, NOW).await;
    }
    let leases = lease(storage, NOW, 3).await;
    for lease in &leases[..2] {
        settle(storage, lease, Settlement::Obsolete).await;
    }
    assert_eq!(begin(storage, &leases[2..], NOW, 1).await[0].mail_of_hour, Some(1));
    let gone = [(leases[0].delivery.id, NOW), (DeliveryId(i64::MAX), NOW)];
    assert_eq!(storage.queue.begin(&gone, NOW, 1).await.unwrap(), []);
}

/// Its mails may have left, or may have waited for the limit.
pub async fn mail_of_a_lost_worker_is_counted_again(storage: &Storage) {
    for number in 0..2 {
        enqueue_to(storage, "anna@example.com", number, NOW).await;
    }
    assert_eq!(counted(storage, NOW, 2).await, [Some(1), Some(2)]);
    assert_eq!(counted(storage, NOW + LEASE, 2).await, [Some(3), Some(4)]);
    let later = NOW + Duration::HOUR;
    assert_eq!(counted(storage, later, 2).await, [Some(1), Some(2)]);
}

/// A mail that waits for the limit is counted again, and waits no longer after another outcome. Its
/// recipient is told of nothing.
pub async fn mail_above_the_limit_waits_and_is_counted_again(storage: &Storage) {
    for number in 0..2 {
        enqueue_to(storage, "anna@example.com", number, NOW).await;
    }
    let leases = lease(storage, NOW, 2).await;
    let begun = begin(storage, &leases, NOW, 1).await;
    assert_eq!(begun.iter().map(|one| one.mail_of_hour).collect::<Vec<_>>(), [Some(1), Some(2)]);
    let orders = [&leases[0], &leases[1]].map(|lease| lease.delivery.order_id);
    let told = storage.queue.told(&orders).await.unwrap();
    assert_eq!(told.iter().map(|one| one.order_id).collect::<Vec<_>>(), orders[..1]);
    assert!(settle(storage, &leases[0], Settlement::Done).await);
    let due_at = NOW + Duration::HOUR;
    let over_limit = Settlement::OverLimit { due_at, error: "over the limit".to_owned() };
    assert!(settle(storage, &leases[1], over_limit).await);
    let stats = storage.stats().await;
    assert_eq!((stats.pending, stats.over_limit, stats.oldest_created_at), (1, 1, None));
    let [listed] = <[_; 1]>::try_from(listed(storage, false).await).unwrap();
    assert_eq!((listed.attempts, listed.last_error.as_deref()), (0, Some("over the limit")));
    assert_eq!(lease(storage, due_at - MICROSECOND, 10).await, []);

    let again = lease_one(storage, due_at).await;
    let begun = begin(storage, std::slice::from_ref(&again), due_at, 1).await;
    assert_eq!((begun[0].mail_of_hour, begun[0].sequence), (Some(1), Some(0)));
    assert_eq!(storage.queue.told(&orders).await.unwrap().len(), 2);
    assert!(settle(storage, &again, retry_at(due_at)).await);
    assert_eq!(storage.stats().await.over_limit, 0);
    assert_eq!(counted(storage, due_at, 1).await, [None]);
}

/// A client does not use up the mails of another. Addresses of signing services have no limit.
pub async fn mails_are_counted_for_each_client_and_not_for_services(storage: &Storage) {
    let enqueue = async |number, client, audience| {
        let order = NewOrder { client, ..new_order(&format!("F-{number}"), NOW) };
        let id = storage.create(&order).await;
        let recipient = EmailAddress::from_stored("anna@example.com".to_owned());
        let mail = NewDelivery { recipient, audience, ..delivery(number) };
        samples::dispatch(&*storage.outbox, id, vec![mail]).await;
    };
    for (number, client, audience) in [
        (1, 1, Audience::Client),
        (2, 2, Audience::Client),
        (3, 1, Audience::Service),
        (4, 1, Audience::Client),
    ] {
        enqueue(number, ClientId(client), audience).await;
    }
    assert_eq!(counted(storage, NOW, 10).await, [Some(1), Some(1), None, Some(2)]);
}

/// Each mail has a number of its own.
pub async fn concurrent_workers_count_every_mail(storage: &Storage) {
    for number in 0..12 {
        enqueue_to(storage, "anna@example.com", number, NOW).await;
    }
    let mut numbers = join_all((0..4).map(|_| counted(storage, NOW, 3))).await.concat();
    // A worker skips deliveries that another one locks at the same time.
    while numbers.len() < 12 {
        numbers.extend(counted(storage, NOW, 3).await);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=12).map(Some).collect::<Vec<_>>());
}

/// A newer version of the service has written it. It waits for that, and the others leave.
pub async fn mail_of_an_unknown_subject_holds_up_no_other(storage: &Storage) {
    let [id] = storage.create_all(["F-1"]).await;
    crate::samples::dispatch(&*storage.outbox, id, vec![delivery(0), delivery(1)]).await;
    let unknown = storage.queue.list(false, 1).await.unwrap().remove(0).id;
    storage.other_system.make_mail_unknown(unknown).await;
    let listed = storage.queue.list(false, 10).await.unwrap();
    let leased = storage.queue.lease(NOW, Duration::MINUTE, 1).await.unwrap();
    assert_eq!((listed.len(), leased.len()), (1, 1));
    assert!(listed[0].id != unknown && leased[0].delivery.id != unknown);
    assert_eq!(storage.queue.lease(NOW, Duration::MINUTE, 1).await.unwrap(), []);
    let faults = samples::faults(storage).await;
    assert_eq!(faults, [format!("row {} of deliveries cannot be read: subject", unknown.0)]);
}

/// A lease that is lost or settled is not renewed.
pub async fn renewed_lease_holds_longer(storage: &Storage) {
    enqueue_all(storage, 1, NOW, vec![delivery(1), delivery(2)]).await;
    let lost = lease(storage, NOW, 10).await;
    let kept: Vec<_> = lease(storage, NOW + LEASE, 10).await;
    let key = |lease: &Lease| (lease.delivery.id, lease.token);
    let until = NOW + LEASE + LEASE + Duration::MINUTE;
    storage.queue.renew(&[], until).await.unwrap();
    storage.queue.renew(&[key(&kept[0]), key(&lost[1])], until).await.unwrap();
    let free = lease(storage, NOW + LEASE + LEASE, 10).await;
    assert_eq!(recipients(free.iter().map(|lease| &lease.delivery)), [recipient(2)]);
    assert!(settle(storage, &kept[0], Settlement::Done).await);
    storage.queue.renew(&[key(&kept[0])], until).await.unwrap();
    assert_eq!(listed(storage, false).await.len(), 1);
}

/// A retry of an operator begins anew.
pub async fn unknown_outcomes_are_counted(storage: &Storage) {
    enqueue(storage, 1, NOW).await;
    for count in 1..=2 {
        let leased = lease_one(storage, NOW).await;
        let unknown = Settlement::Unknown { due_at: NOW, error: "no reply".to_owned() };
        assert!(settle(storage, &leased, unknown).await);
        let [listed] = <[_; 1]>::try_from(listed(storage, false).await).unwrap();
        assert_eq!((listed.attempts, listed.unknown_outcomes), (count, count));
        assert_eq!(listed.last_error.as_deref(), Some("no reply"));
    }
    let leased = lease_one(storage, NOW).await;
    assert!(settle(storage, &leased, retry_at(NOW)).await);
    let [waiting] = <[_; 1]>::try_from(listed(storage, false).await).unwrap();
    assert_eq!((waiting.attempts, waiting.unknown_outcomes), (3, 2));
    assert_eq!(storage.queue.retry(waiting.id, NOW).await.unwrap(), Retried::Due);
    assert_eq!(listed(storage, false).await[0].unknown_outcomes, 0);
}

/// An order that has changed since it was read, or is erased, remembers no recipient.
pub async fn recipients_of_mails_that_begin_are_remembered(storage: &Storage) {
    let to_service = NewDelivery { audience: Audience::Service, ..delivery(2) };
    enqueue_all(storage, 1, NOW, vec![delivery(1), to_service.clone()]).await;
    enqueue_all(storage, 2, NOW, vec![delivery(1)]).await;
    enqueue_all(storage, 3, NOW, vec![delivery(1)]).await;
    let leases = lease(storage, NOW, 10).await;
    let mails: Vec<_> = leases.iter().map(|lease| (lease.delivery.id, NOW)).collect();
    let [order, _, other, erased] =
        <[_; 4]>::try_from(leases).unwrap().map(|lease| lease.delivery.order_id);
    storage.admin.erase(erased, NOW, None).await.unwrap();
    let assigned = storage.orders.update(&changing::update(other, NOW, "ASSIGNED")).await;
    let version = assigned.unwrap().unwrap().stored.updated_at;
    let sequences = async |mails: &[(DeliveryId, OffsetDateTime)]| {
        let mut begun = storage.queue.begin(mails, NOW, 0).await.unwrap();
        begun.sort_unstable_by_key(|one| one.id);
        begun.into_iter().map(|one| one.sequence).collect::<Vec<_>>()
    };
    assert_eq!(sequences(&mails).await, [Some(0), Some(0), None, None]);
    // "New order" tells all changes before it.
    let recipient = |order_id, NewDelivery { recipient, audience, .. }, version| Recipient {
        order_id,
        address: recipient,
        audience,
        changes_told_at: Some(version),
    };
    let told = [recipient(order, delivery(1), NOW), recipient(order, to_service, NOW)];
    let orders = [order, other, erased, OrderId(i64::MAX)];
    assert_eq!(storage.queue.told(&orders).await.unwrap(), told);

    let current = [mails[0], (mails[2].0, version)];
    assert_eq!(sequences(&current).await, [Some(0), Some(0)]);
    let all = [&told[..], &[recipient(other, delivery(1), version)]].concat();
    assert_eq!(storage.queue.told(&orders).await.unwrap(), all);
    assert_eq!(sequences(&[]).await, []);
}

/// A later mail must not tell them again. Other mails leave it.
pub async fn version_of_told_changes_is_remembered(storage: &Storage) {
    let of = |subject| NewDelivery { subject, ..delivery(1) };
    let (changed, note) = (of(MailSubject::Changed), of(MailSubject::NoteAdded));
    // Both to one recipient, in one call.
    enqueue_all(storage, 1, NOW, vec![note.clone(), changed, note]).await;
    let leases = lease(storage, NOW, 10).await;
    let order = leases[0].delivery.order_id;
    let told = async || {
        let told = storage.queue.told(&[order]).await.unwrap();
        told.into_iter().map(|one| one.changes_told_at).collect::<Vec<_>>()
    };
    begin(storage, &leases[..1], NOW, 0).await;
    assert_eq!(told().await, [None]);
    begin(storage, &leases, NOW, 0).await;
    assert_eq!(told().await, [Some(NOW)]);
    begin(storage, &leases[2..], NOW, 0).await;
    assert_eq!(told().await, [Some(NOW)]);
}

/// Leases the mails that are due, and begins them.
async fn begin_due(storage: &Storage, now: OffsetDateTime) -> Vec<Lease> {
    let leases = lease(storage, now, 10).await;
    begin(storage, &leases, now, 0).await;
    leases
}

/// Those of other recipients, of the other side and of other kinds stay. So do all if the mail may have arrived
/// before: its recipient may take it for a copy.
pub async fn changes_that_a_mail_tells_leave_the_queue(storage: &Storage) {
    let of = |number, subject| NewDelivery { subject, ..delivery(number) };
    let changed = |number| of(number, MailSubject::Changed);
    let upper = EmailAddress::from_stored(recipient(1).as_str().to_uppercase());
    let others = [
        changed(2),
        NewDelivery { audience: Audience::Service, ..changed(1) },
        of(1, MailSubject::NoteAdded),
    ];
    // A mail with all fields that waits would take later changes.
    let told = NewDelivery { recipient: upper, ..changed(1) };
    let all = [&[told][..], &others, &[delivery(1)]].concat();
    storage.create(&new_order("F-1", NOW)).await;
    let event = storage.outbox.events(NOW, 1).await.unwrap().remove(0).id;
    let dispatch = Dispatch { settling: Settling::of_secs(30), ..mails(event, all) };
    storage.outbox.dispatch(&[dispatch], NOW).await.unwrap();

    let created = lease_one(storage, NOW).await;
    let error = "no answer".to_owned();
    settle(storage, &created, Settlement::Unknown { due_at: NOW, error }).await;
    let [created] = <[_; 1]>::try_from(begin_due(storage, NOW).await).unwrap();
    assert_eq!(listed(storage, false).await.len(), 5);
    settle(storage, &created, retry_at(NOW)).await;
    storage.queue.retry(created.delivery.id, NOW).await.unwrap();
    assert_eq!(begin_due(storage, NOW).await.len(), 1);
    let tasks = listed(storage, false).await.into_iter().map(|mail| mail.task);
    let expected = [&others[..], &[delivery(1)]].concat();
    assert!(
        tasks
            .map(|it| (it.recipient, it.subject, it.audience))
            .eq(expected.into_iter().map(|it| (it.recipient, it.subject, it.audience)))
    );
}

/// It tells also what the later one does, and has older values.
pub async fn older_of_two_mails_about_changes_stays(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let assigned = storage.orders.update(&changing::update(id, NOW, "ASSIGNED")).await;
    assigned.unwrap().unwrap();
    let events = storage.outbox.events(NOW + Duration::DAY, 2).await.unwrap();
    let changed = |number: usize| {
        let task = NewDelivery { subject: MailSubject::Changed, ..delivery(1) };
        mails(events[number].id, vec![task])
    };
    let at = NOW + Duration::SECOND;
    storage.outbox.dispatch(&[changed(0)], at).await.unwrap();
    let first = lease_one(storage, at).await;
    storage.outbox.dispatch(&[changed(1)], at).await.unwrap();
    settle(storage, &first, retry_at(at + Duration::MINUTE)).await;

    let second = begin_due(storage, at).await.remove(0);
    assert_eq!(listed(storage, false).await.len(), 2);
    settle(storage, &second, retry_at(at + Duration::HOUR)).await;
    let begun = begin_due(storage, at + Duration::MINUTE).await;
    assert_eq!(begun[0].delivery.id, first.delivery.id);
    assert_eq!(listed(storage, false).await.len(), 1);
}

/// Calendars keep the file with the greatest number. A move, a cancellation and its reversal have a greater
/// one, and other changes leave it.
pub async fn sequence_grows_with_the_appointment_only(storage: &Storage) {
    const CHANGES: [(&str, bool); 6] = [
        ("lender", false),
        ("ASSIGNED", false),
        ("place", true),
        ("CANCELLED", true),
        ("REINSTATED", true),
        ("lender again", false),
    ];
    let mut order = new_order("F-1", NOW);
    let id = storage.create(&order).await;
    samples::dispatch(&*storage.outbox, id, vec![delivery(1)]).await;
    let leases = lease(storage, NOW, 1).await;
    let sequence = async || begin(storage, &leases, NOW, 0).await[0].sequence.unwrap();
    assert_eq!(sequence().await, 0);
    let mut at = NOW;
    for (change, grows) in CHANGES {
        let before = sequence().await;
        at += Duration::MINUTE;
        match change {
            "ASSIGNED" | "CANCELLED" => {
                let read = samples::order_of(&*storage.queue, id).await.unwrap().unwrap();
                let update = changing::update(id, read.updated_at, change);
                storage.orders.update(&OrderUpdate { at, ..update }).await.unwrap().unwrap();
            }
            "REINSTATED" => {
                storage.other_system.change_order(id, ForeignChange::Status("CONFIRMED")).await;
            }
            _ => {
                let details = &mut order.order;
                match change {
                    "place" => "9 Elm St".clone_into(&mut details.signing.property.address),
                    lender => details.signing.lender = Some(lender.to_owned()),
                }
                let read = samples::order_of(&*storage.queue, id).await.unwrap().unwrap();
                let at = at.max(read.updated_at);
                storage.orders.change(&samples::amend(id, details.clone(), at)).await.unwrap();
            }
        }
        assert_eq!(sequence().await > before, grows, "{change}");
        assert!(sequence().await >= before, "{change}");
    }
}
