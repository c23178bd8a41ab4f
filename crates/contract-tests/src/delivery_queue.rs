//! The contract of `DeliveryQueue`.

use domain::{
    delivery::{Delivery, DeliveryId, NewDelivery},
    order::{EmailAddress, OrderId},
    ports::{Lease, NewOrder, QueueStats, Settlement},
};
use futures_util::future::join_all;
use time::{Duration, OffsetDateTime};

use crate::samples::{
    MICROSECOND, NOW, Storage, WINDOW, create_with_uploads, delivery, document, new_order,
    recipient, stored,
};

/// Runs the contract of `DeliveryQueue`. The expression makes the `Storage` of each test.
#[macro_export]
macro_rules! delivery_queue_contract {
    ($storage:expr) => {
        $crate::obligations!(delivery_queue, $storage;
            longest_due_deliveries_are_leased_first,
            delivery_is_leased_when_due,
            expired_lease_is_given_again,
            concurrent_workers_never_share_a_delivery,
            completed_delivery_leaves_the_queue,
            failed_attempt_is_due_at_the_given_instant,
            postponed_delivery_counts_no_attempt,
            delivery_failed_for_good_is_not_leased,
            lost_lease_settles_nothing,
            lease_settles_once,
            expired_lease_settles_until_taken,
            unleased_delivery_is_not_settled,
            deliveries_are_listed_by_age,
            retry_resets_a_failed_delivery,
            retry_makes_a_waiting_delivery_due,
            retry_keeps_the_lease_of_a_worker,
            unknown_delivery_is_not_retried,
            stats_count_pending_and_failed_deliveries,
            mails_to_a_recipient_are_counted_per_hour,
            concurrent_leases_count_every_mail,
            order_of_a_delivery_is_found,
        );
    };
}

const LEASE: Duration = Duration::minutes(2);

/// Creates an order with one delivery, to the recipient of that number.
async fn enqueue(storage: &Storage, number: usize, at: OffsetDateTime) {
    let order =
        NewOrder { deliveries: vec![delivery(number)], ..new_order(&format!("F-{number}"), at) };
    storage.orders.create(&order, WINDOW).await.unwrap();
}

async fn lease(storage: &Storage, now: OffsetDateTime, limit: usize) -> Vec<Lease> {
    storage.queue.lease(now, LEASE, limit).await.unwrap()
}

/// Leases the only delivery that is due.
async fn lease_one(storage: &Storage, now: OffsetDateTime) -> Lease {
    let leases = lease(storage, now, 10).await;
    assert_eq!(leases.len(), 1);
    leases.into_iter().next().unwrap()
}

async fn settle(storage: &Storage, lease: &Lease, settlement: Settlement) -> bool {
    storage.queue.settle(lease.delivery.id, lease.token, &settlement).await.unwrap()
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
    let batches =
        [lease(storage, NOW, 0).await, lease(storage, NOW, 3).await, lease(storage, NOW, 3).await];
    let batches = batches.map(|leases| recipients(leases.iter().map(|lease| &lease.delivery)));
    assert_eq!(
        batches,
        [vec![], vec![recipient(2), recipient(3), recipient(1)], vec![recipient(4)]]
    );
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

/// Each delivery goes to exactly one worker.
pub async fn concurrent_workers_never_share_a_delivery(storage: &Storage) {
    let order = NewOrder { deliveries: (0..60).map(delivery).collect(), ..new_order("F-1", NOW) };
    storage.orders.create(&order, WINDOW).await.unwrap();
    let workers = (0..8).map(|_| {
        let queue = storage.queue.clone();
        tokio::spawn(async move {
            let mut mine = Vec::new();
            loop {
                let leases = queue.lease(NOW, LEASE, 4).await.unwrap();
                if leases.is_empty() {
                    return mine;
                }
                mine.extend(leases.into_iter().map(|lease| lease.delivery.id));
            }
        })
    });
    let mut leased: Vec<DeliveryId> =
        join_all(workers).await.into_iter().flat_map(Result::unwrap).collect();
    assert_eq!(leased.len(), 60);
    leased.sort();
    leased.dedup();
    assert_eq!(leased.len(), 60);
}

/// Other deliveries stay.
pub async fn completed_delivery_leaves_the_queue(storage: &Storage) {
    enqueue(storage, 1, NOW).await;
    enqueue(storage, 2, NOW + MICROSECOND).await;
    let leased = lease_one(storage, NOW).await;
    assert!(settle(storage, &leased, Settlement::Done).await);
    assert_eq!(recipients(&listed(storage, false).await), [recipient(2)]);
    assert_eq!(listed(storage, true).await, []);
    assert_eq!(recipients([&lease_one(storage, NOW + LEASE).await.delivery]), [recipient(2)]);
}

/// Counts the attempt and keeps the error. The rest of the lease does not matter.
pub async fn failed_attempt_is_due_at_the_given_instant(storage: &Storage) {
    enqueue(storage, 1, NOW).await;
    let mut expected = lease_one(storage, NOW).await;
    for attempts in 1..=3 {
        let due_at = expected.delivery.due_at + Duration::seconds(5);
        assert!(settle(storage, &expected, retry_at(due_at)).await);
        assert_eq!(lease(storage, due_at - MICROSECOND, 10).await, []);
        let leased = lease_one(storage, due_at).await;
        assert_ne!(leased.token, expected.token);
        let last_error = Some("no route to hôst".to_owned());
        assert_eq!(leased.delivery, Delivery { attempts, due_at, last_error, ..expected.delivery });
        expected = leased;
    }
}

/// Keeps the error and the earlier attempts.
pub async fn postponed_delivery_counts_no_attempt(storage: &Storage) {
    enqueue(storage, 1, NOW).await;
    let first = lease_one(storage, NOW).await;
    assert!(settle(storage, &first, retry_at(NOW)).await);
    let second = lease_one(storage, NOW).await;
    let due_at = NOW + Duration::SECOND;
    assert!(settle(storage, &second, postpone_until(due_at)).await);
    assert_eq!(lease(storage, due_at - MICROSECOND, 10).await, []);
    let leased = lease_one(storage, due_at).await;
    let last_error = Some("no route to hôst".to_owned());
    assert_eq!(leased.delivery, Delivery { attempts: 1, due_at, last_error, ..first.delivery });
}

/// It moves from the pending list to the failed list.
pub async fn delivery_failed_for_good_is_not_leased(storage: &Storage) {
    enqueue(storage, 1, NOW).await;
    let leased = lease_one(storage, NOW).await;
    let at = NOW + Duration::SECOND;
    assert!(settle(storage, &leased, fail_at(at)).await);
    assert_eq!(lease(storage, NOW + Duration::weeks(5_000), 10).await, []);
    assert_eq!(listed(storage, false).await, []);
    let failed = Delivery {
        attempts: 1,
        failed_at: Some(at),
        last_error: Some("no such mailbox".to_owned()),
        ..leased.delivery
    };
    assert_eq!(listed(storage, true).await, [failed]);
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
    for (number, settlement) in [
        Settlement::Done,
        retry_at(NOW + Duration::HOUR),
        postpone_until(NOW + Duration::HOUR),
        fail_at(NOW),
    ]
    .into_iter()
    .enumerate()
    {
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
        assert!(!storage.queue.settle(id, token, &Settlement::Done).await.unwrap());
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

/// Resets age and attempts, and keeps the last error.
pub async fn retry_resets_a_failed_delivery(storage: &Storage) {
    enqueue(storage, 1, NOW).await;
    let leased = lease_one(storage, NOW).await;
    settle(storage, &leased, fail_at(NOW)).await;
    let later = NOW + Duration::weeks(1);
    assert!(storage.queue.retry(leased.delivery.id, later).await.unwrap());
    let last_error = Some("no such mailbox".to_owned());
    let expected = Delivery {
        attempts: 0,
        created_at: later,
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
    settle(storage, &leased, retry_at(NOW + Duration::HOUR)).await;
    assert!(storage.queue.retry(leased.delivery.id, NOW + Duration::SECOND).await.unwrap());
    assert_eq!(lease_one(storage, NOW + Duration::SECOND).await.delivery.attempts, 0);
}

/// The lease holds, and settles.
pub async fn retry_keeps_the_lease_of_a_worker(storage: &Storage) {
    enqueue(storage, 1, NOW).await;
    let leased = lease_one(storage, NOW).await;
    assert!(storage.queue.retry(leased.delivery.id, NOW + Duration::SECOND).await.unwrap());
    assert_eq!(lease(storage, NOW + LEASE - MICROSECOND, 10).await, []);
    assert!(settle(storage, &leased, Settlement::Done).await);
}

/// Completed deliveries are unknown.
pub async fn unknown_delivery_is_not_retried(storage: &Storage) {
    enqueue(storage, 1, NOW).await;
    let leased = lease_one(storage, NOW).await;
    settle(storage, &leased, Settlement::Done).await;
    for id in [leased.delivery.id, DeliveryId(0), DeliveryId(i64::MAX)] {
        assert!(!storage.queue.retry(id, NOW).await.unwrap());
    }
}

/// Leased deliveries are pending. Failed ones have no age.
pub async fn stats_count_pending_and_failed_deliveries(storage: &Storage) {
    assert_eq!(storage.queue.stats().await.unwrap(), QueueStats::default());
    for number in 0..4 {
        enqueue(storage, number, NOW + Duration::seconds(number.try_into().unwrap())).await;
    }
    let oldest = lease_one(storage, NOW).await;
    assert_eq!(
        storage.queue.stats().await.unwrap(),
        QueueStats { pending: 4, failed: 0, oldest_created_at: Some(NOW) }
    );
    settle(storage, &oldest, fail_at(NOW)).await;
    let second = lease_one(storage, NOW + Duration::SECOND).await;
    settle(storage, &second, Settlement::Done).await;
    let oldest_created_at = Some(NOW + Duration::seconds(2));
    assert_eq!(
        storage.queue.stats().await.unwrap(),
        QueueStats { pending: 2, failed: 1, oldest_created_at }
    );
}

/// Creates an order with one delivery to an address.
async fn enqueue_to(storage: &Storage, address: &str, number: usize, at: OffsetDateTime) {
    let recipient = EmailAddress::from_stored(address.to_owned());
    let deliveries = vec![NewDelivery { recipient, ..delivery(number) }];
    let order = NewOrder { deliveries, ..new_order(&format!("F-{number}"), at) };
    storage.orders.create(&order, WINDOW).await.unwrap();
}

/// The longest due mail comes first. The case of the address does not count, and neither does a
/// second lease. Each hour of the clock begins at 1.
pub async fn mails_to_a_recipient_are_counted_per_hour(storage: &Storage) {
    let addresses = ["anna@example.com", "Anna@Example.com", "ben@example.com", "ANNA@EXAMPLE.COM"];
    for (number, address) in (0..).zip(addresses) {
        enqueue_to(storage, address, number, NOW).await;
    }
    let mut leases = lease(storage, NOW, 3).await;
    leases.extend(lease(storage, NOW + Duration::MINUTE, 1).await);
    let numbers: Vec<_> = leases.iter().map(|lease| lease.mail_of_hour).collect();
    assert_eq!(numbers, [Some(1), Some(2), Some(1), Some(3)]);

    let later = NOW + Duration::HOUR;
    for lease in &leases {
        settle(storage, lease, retry_at(later)).await;
    }
    enqueue_to(storage, "anna@example.com", 4, later).await;
    let numbers: Vec<_> =
        lease(storage, later, 5).await.iter().map(|lease| lease.mail_of_hour).collect();
    assert_eq!(numbers, [None, None, None, None, Some(1)]);
}

/// Each mail has a number of its own.
pub async fn concurrent_leases_count_every_mail(storage: &Storage) {
    for number in 0..12 {
        enqueue_to(storage, "anna@example.com", number, NOW).await;
    }
    let leases = join_all((0..4).map(|_| lease(storage, NOW, 3))).await;
    let mut numbers: Vec<_> =
        leases.into_iter().flatten().filter_map(|lease| lease.mail_of_hour).collect();
    // A worker skips deliveries that another one locks at the same time.
    while let [first, rest @ ..] = &lease(storage, NOW, 3).await[..] {
        numbers.extend(rest.iter().chain([first]).filter_map(|lease| lease.mail_of_hour));
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=12).collect::<Vec<_>>());
}

/// Whatever its client. An erased or unknown order is not found.
pub async fn order_of_a_delivery_is_found(storage: &Storage) {
    let order = NewOrder { documents: vec![document()], ..new_order("F-1", NOW) };
    let id = create_with_uploads(storage, &order).await;
    assert_eq!(storage.queue.order(id).await.unwrap(), Some(stored(id, &order)));
    assert_eq!(storage.queue.order(OrderId(id.0 + 1)).await.unwrap(), None);
    storage.admin.erase(id, NOW).await.unwrap();
    assert_eq!(storage.queue.order(id).await.unwrap(), None);
}
