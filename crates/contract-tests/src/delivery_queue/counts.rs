//! The numbers of deliveries, and of mails to a recipient.

use domain::{
    delivery::NewDelivery,
    order::EmailAddress,
    ports::{QueueStats, Settlement},
};
use futures_util::future::join_all;
use time::{Duration, OffsetDateTime};

use super::{enqueue, enqueue_all, fail_at, lease, lease_one, retry_at, settle};
use crate::samples::{NOW, Storage, delivery, mails, new_order};

/// Leased deliveries are pending. Failed ones have no age.
pub async fn stats_count_pending_and_failed_deliveries(storage: &Storage) {
    assert_eq!(storage.stats().await, QueueStats::default());
    for number in 0..4 {
        enqueue(storage, number, NOW + Duration::seconds(number.try_into().unwrap())).await;
    }
    let oldest = lease_one(storage, NOW).await;
    assert_eq!(
        storage.stats().await,
        QueueStats { events: 0, pending: 4, failed: 0, oldest_created_at: Some(NOW) }
    );
    settle(storage, &oldest, fail_at(NOW)).await;
    let second = lease_one(storage, NOW + Duration::SECOND).await;
    settle(storage, &second, Settlement::Done).await;
    let oldest_created_at = Some(NOW + Duration::seconds(2));
    assert_eq!(
        storage.stats().await,
        QueueStats { events: 0, pending: 2, failed: 1, oldest_created_at }
    );
}

/// The age is that of the oldest event or pending delivery.
pub async fn stats_count_events(storage: &Storage) {
    for (number, age) in [(1, 0), (2, 10), (3, 20)] {
        enqueue(storage, number, NOW + Duration::seconds(age)).await;
    }
    for (number, at) in [(4, NOW + Duration::SECOND), (5, NOW - Duration::SECOND)] {
        storage.create(&new_order(&format!("F-{number}"), at)).await;
    }
    let expected =
        |events, at| QueueStats { events, pending: 3, failed: 0, oldest_created_at: Some(at) };
    assert_eq!(storage.stats().await, expected(2, NOW - Duration::SECOND));
    let event = storage.outbox.events(NOW, 10).await.unwrap()[1].id;
    let deliveries = Vec::new();
    storage.outbox.dispatch(&[mails(event, deliveries)]).await.unwrap();
    assert_eq!(storage.stats().await, expected(1, NOW));
}

/// Creates an order with one delivery to an address.
async fn enqueue_to(storage: &Storage, address: &str, number: usize, at: OffsetDateTime) {
    let recipient = EmailAddress::from_stored(address.to_owned());
    enqueue_all(storage, number, at, vec![NewDelivery { recipient, ..delivery(number) }]).await;
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
