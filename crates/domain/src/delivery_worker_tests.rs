use std::sync::Mutex;

use time::{OffsetDateTime, macros::datetime};

use super::*;
use crate::{
    delivery::{Delivery, DeliveryId},
    ports::{Lease, MockClock, MockDeliveryQueue, MockNotifier, NotifyError, error_chain},
    test_support::{CountingEntropy, delivery, stored_order},
};

const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

/// Returns a queue that leases each of these batches once, and nothing afterwards.
fn queue_of<const N: usize>(batches: [Vec<i64>; N]) -> MockDeliveryQueue {
    let batches = Mutex::new(batches.into_iter());
    let mut queue = MockDeliveryQueue::new();
    queue.expect_lease().returning(move |_, _, limit| {
        assert_eq!(limit, BATCH);
        let ids = batches.lock().unwrap().next().unwrap_or_default();
        let lease = |id| Lease {
            delivery: Delivery { id: DeliveryId(id), ..delivery(NOW) },
            token: 3,
            mail_of_hour: None,
        };
        Ok(ids.into_iter().map(lease).collect())
    });
    queue
}

/// Returns a notifier that gives these replies one after the other.
fn notifier_of<const N: usize>(replies: [fn() -> Result<(), NotifyError>; N]) -> MockNotifier {
    let replies = Mutex::new(replies.into_iter());
    let mut notifier = MockNotifier::new();
    notifier.expect_notify().times(N).returning(move |_| replies.lock().unwrap().next().unwrap()());
    notifier
}

fn worker(queue: MockDeliveryQueue, notifier: MockNotifier) -> DeliveryWorker {
    worker_beside(Arc::default(), queue, notifier)
}

fn worker_beside(
    traffic: Arc<OrderTraffic>,
    mut queue: MockDeliveryQueue,
    notifier: MockNotifier,
) -> DeliveryWorker {
    queue.expect_order().returning(|_| Ok(Some(stored_order(NOW))));
    let mut clock = MockClock::new();
    clock.expect_now().return_const(NOW);
    let deliveries = RunDeliveries {
        queue: Arc::new(queue),
        notifier: Arc::new(notifier),
        clock: Arc::new(clock),
        entropy: Arc::new(CountingEntropy::default()),
        mails_per_recipient_hour: 0,
    };
    DeliveryWorker::new(deliveries, traffic)
}

fn no_database<T>() -> Result<T, StoreError> {
    Err(StoreError::Unavailable("no database".into()))
}

fn relay_is_down() -> Result<(), NotifyError> {
    Err(NotifyError::Unavailable("relay is down".into()))
}

fn relay_is_busy() -> Result<(), NotifyError> {
    Err(NotifyError::Transient("relay is busy".into()))
}

/// Returns the identifiers of the settled deliveries, and the pause.
fn settled(step: Step<DeliveryStep>) -> (Vec<i64>, Duration) {
    let reports = step.result.unwrap().reports;
    (reports.into_iter().map(|report| report.id.0).collect(), step.pause)
}

#[tokio::test]
async fn due_deliveries_follow_without_pause() {
    let mut queue = queue_of([vec![1, 2], vec![3]]);
    queue.expect_settle().times(3).returning(|_, _, _| Ok(true));
    let mut worker = worker(queue, notifier_of([|| Ok(()), || Ok(()), || Ok(())]));
    assert_eq!(settled(worker.step().await), (vec![1, 2], Duration::ZERO));
    assert_eq!(settled(worker.step().await), (vec![3], Duration::ZERO));
    assert_eq!(settled(worker.step().await), (vec![], POLL));
}

#[tokio::test]
async fn worker_pauses_between_batches_while_orders_arrive() {
    let traffic = Arc::new(OrderTraffic::default());
    let mut queue = queue_of([vec![1], vec![2]]);
    let arriving = Arc::clone(&traffic);
    let mut orders_left = 1;
    queue.expect_settle().returning(move |_, _, _| {
        (0..orders_left).for_each(|_| arriving.record());
        orders_left = 0;
        Ok(true)
    });
    let mut worker = worker_beside(traffic, queue, notifier_of([|| Ok(()), || Ok(())]));
    assert_eq!(settled(worker.step().await), (vec![1], YIELD));
    assert_eq!(settled(worker.step().await), (vec![2], Duration::ZERO));
}

#[tokio::test]
async fn unsettled_deliveries_are_settled_before_others_are_leased() {
    let mut queue = queue_of([vec![1, 2], vec![3]]);
    // 1 is settled at the first attempt, 2 at the third.
    let mut failures_left = 2;
    queue.expect_settle().times(5).returning(move |id, _, _| {
        if id == DeliveryId(2) && failures_left > 0 {
            failures_left -= 1;
            return no_database();
        }
        Ok(true)
    });
    let mut worker = worker(queue, notifier_of([|| Ok(()), || Ok(()), || Ok(())]));
    assert_eq!(settled(worker.step().await), (vec![1], Duration::ZERO));
    assert_eq!(worker.unsettled().len(), 1);
    assert_eq!(settled(worker.step().await), (vec![], POLL));
    assert_eq!(worker.unsettled().len(), 1);
    assert_eq!(settled(worker.step().await), (vec![2], Duration::ZERO));
    assert!(worker.unsettled().is_empty());
    assert_eq!(settled(worker.step().await), (vec![3], Duration::ZERO));
}

#[tokio::test]
async fn failed_lease_is_reported_and_retried_after_a_pause() {
    let mut queue = MockDeliveryQueue::new();
    queue.expect_lease().once().returning(|_, _, _| no_database());
    let step = worker(queue, MockNotifier::new()).step().await;
    assert!(matches!(step.result, Err(StoreError::Unavailable(_))));
    assert_eq!(step.pause, POLL);
}

#[tokio::test]
async fn outage_is_reported_at_its_beginning_and_end() {
    let mut queue = queue_of([vec![1, 2], vec![], vec![1], vec![2], vec![1, 2]]);
    queue.expect_settle().returning(|_, _, _| Ok(true));
    let mut worker = worker(
        queue,
        notifier_of([
            relay_is_down,
            relay_is_down,
            relay_is_down,
            relay_is_busy,
            || Ok(()),
            relay_is_down,
        ]),
    );
    let began = OutageChange::Began(error_chain(&relay_is_down().unwrap_err()));
    let expected = [
        (Some(began), POLL),
        // No delivery is due.
        (None, POLL),
        (None, POLL),
        // The relay rejects one mail, so it answers again.
        (Some(OutageChange::Ended), Duration::ZERO),
        // One of two mails is postponed: no outage.
        (None, Duration::ZERO),
    ];
    for expected in expected {
        let step = worker.step().await;
        assert_eq!((step.result.unwrap().outage, step.pause), expected);
    }
}
