use std::sync::Mutex;

use mockall::predicate::eq;
use time::{OffsetDateTime, macros::datetime};

use super::*;
use crate::{
    ports::{MockClock, MockDeliveryQueue, MockNotifier},
    test_support::{CountingEntropy, delivery, stored_order},
};

const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);
const TOKEN: i64 = 3;

type FindResult = Result<Option<crate::order::StoredOrder>, StoreError>;

#[expect(clippy::unnecessary_wraps, reason = "it is a reply of the store")]
fn found() -> FindResult {
    Ok(Some(stored_order(NOW)))
}

fn use_case(
    mut queue: MockDeliveryQueue,
    notifier: MockNotifier,
    find: fn() -> FindResult,
) -> RunDeliveries {
    queue.expect_order().with(eq(OrderId(1))).returning(move |_| find());
    let mut clock = MockClock::new();
    clock.expect_now().return_const(NOW);
    RunDeliveries {
        queue: Arc::new(queue),
        notifier: Arc::new(notifier),
        clock: Arc::new(clock),
        entropy: Arc::new(CountingEntropy::default()),
        mails_per_recipient_hour: 2,
    }
}

/// Returns a queue that leases these deliveries once.
fn queue_of(deliveries: Vec<Delivery>) -> MockDeliveryQueue {
    let leases: Vec<Lease> = deliveries
        .into_iter()
        .map(|delivery| Lease { delivery, token: TOKEN, mail_of_hour: None })
        .collect();
    let mut queue = MockDeliveryQueue::new();
    queue
        .expect_lease()
        .with(eq(NOW), eq(LEASE), eq(8))
        .once()
        .return_once(move |_, _, _| Ok(leases));
    queue
}

fn notifier(reply: fn() -> Result<(), NotifyError>) -> MockNotifier {
    let mut notifier = MockNotifier::new();
    notifier
        .expect_notify()
        .withf(|notification| {
            notification.message_key == "k" && notification.order.id == OrderId(1)
        })
        .once()
        .returning(move |_| reply());
    notifier
}

/// Attempts one delivery, and returns the settlement that the queue stored.
async fn settlement(
    delivery: Delivery,
    notifier: MockNotifier,
    find: fn() -> FindResult,
) -> Settlement {
    let mut queue = queue_of(vec![delivery]);
    let stored = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&stored);
    queue
        .expect_settle()
        .withf(|id, token, _| *id == DeliveryId(5) && *token == TOKEN)
        .once()
        .returning(move |_, _, settlement| {
            *seen.lock().unwrap() = Some(settlement.clone());
            Ok(true)
        });
    let mut reports = use_case(queue, notifier, find).run_batch(8).await.unwrap();
    let report = reports.pop().unwrap().unwrap();
    assert!(reports.is_empty());
    let settlement = stored.lock().unwrap().take().unwrap();
    assert_eq!(report.outcome, DeliveryOutcome::Settled(settlement.clone()));
    settlement
}

fn transient() -> NotifyError {
    NotifyError::Transient("relay is busy".into())
}

fn unavailable() -> NotifyError {
    NotifyError::Unavailable("relay is down".into())
}

fn permanent() -> NotifyError {
    NotifyError::Permanent("no such user".into())
}

#[tokio::test]
async fn delivered_mail_is_done() {
    let settled = settlement(delivery(NOW), notifier(|| Ok(())), found).await;
    assert_eq!(settled, Settlement::Done);
}

#[tokio::test]
async fn transient_failure_is_retried_with_growing_delay() {
    for (attempts, shortest, longest) in [(0, 2.5, 5.0), (1, 5.0, 10.0), (30, 1_800.0, 3_600.0)] {
        let delivery = Delivery { attempts, ..delivery(NOW) };
        let settled = settlement(delivery, notifier(|| Err(transient())), found).await;
        let Settlement::RetryAt { due_at, error } = settled else { panic!("{settled:?}") };
        assert!((shortest..=longest).contains(&(due_at - NOW).as_seconds_f64()), "{due_at}");
        assert_eq!(error, error_chain(&transient()));
    }
}

/// Checks that the next attempt is due in two to four seconds.
fn assert_postponed(settled: Settlement, cause: &NotifyError) {
    let Settlement::Postpone { due_at, error } = settled else { panic!("{settled:?}") };
    assert!((2.0..=4.0).contains(&(due_at - NOW).as_seconds_f64()), "{due_at}");
    assert_eq!(error, error_chain(cause));
}

#[tokio::test]
async fn outage_of_the_relay_postpones_delivery() {
    for (attempts, age) in [(0, Duration::ZERO), (100_000, Duration::days(5) - Duration::SECOND)] {
        let delivery = Delivery { attempts, ..delivery(NOW - age) };
        let settled = settlement(delivery, notifier(|| Err(unavailable())), found).await;
        assert_postponed(settled, &unavailable());
    }
}

#[tokio::test]
async fn outage_of_the_store_postpones_delivery() {
    let down = || Err(StoreError::Unavailable("no database".into()));
    let settled = settlement(delivery(NOW), MockNotifier::new(), down).await;
    let cause = StoreError::Unavailable("no database".into());
    assert_postponed(settled, &NotifyError::Unavailable(cause.into()));
}

#[tokio::test]
async fn unreadable_order_is_retried_with_growing_delay() {
    let unreadable = || Err(StoreError::Internal("unknown version".into()));
    let delivery = Delivery { attempts: 9, ..delivery(NOW) };
    let settled = settlement(delivery, MockNotifier::new(), unreadable).await;
    let Settlement::RetryAt { due_at, .. } = settled else { panic!("{settled:?}") };
    assert!(due_at - NOW > Duration::minutes(20), "{due_at}");
}

#[tokio::test]
async fn permanent_failure_fails_for_good() {
    let settled = settlement(delivery(NOW), notifier(|| Err(permanent())), found).await;
    assert_eq!(settled, Settlement::Fail { at: NOW, error: error_chain(&permanent()) });
}

#[tokio::test]
async fn delivery_fails_for_good_after_five_days() {
    for notifier in [notifier(|| Err(transient())), notifier(|| Err(unavailable()))] {
        let delivery = Delivery { attempts: 40, ..delivery(NOW - Duration::days(5)) };
        let settled = settlement(delivery, notifier, found).await;
        assert!(matches!(settled, Settlement::Fail { .. }), "{settled:?}");
    }
}

#[tokio::test]
async fn missing_order_fails_for_good() {
    let settled = settlement(delivery(NOW), MockNotifier::new(), || Ok(None)).await;
    assert!(matches!(settled, Settlement::Fail { .. }), "{settled:?}");
}

#[tokio::test]
async fn lost_lease_is_reported() {
    let mut queue = queue_of(vec![delivery(NOW)]);
    queue.expect_settle().once().returning(|_, _, _| Ok(false));
    let use_case = use_case(queue, notifier(|| Ok(())), found);
    let report = use_case.run_batch(8).await.unwrap().pop().unwrap().unwrap();
    assert_eq!(report.outcome, DeliveryOutcome::LeaseLost);
}

#[tokio::test]
async fn panic_of_the_notifier_fails_one_delivery() {
    // Two expectations, because a panic poisons the mock's expectation.
    let mut notifier = MockNotifier::new();
    notifier.expect_notify().withf(|mail| mail.message_key == "k").once().returning(|_| Ok(()));
    notifier
        .expect_notify()
        .withf(|mail| mail.message_key == "breaks the notifier")
        .once()
        .returning(|_| panic!("this panic is part of the test"));
    let mut breaking = delivery(NOW);
    breaking.task.message_key = "breaks the notifier".to_owned();
    let intact = Delivery { id: DeliveryId(6), ..delivery(NOW) };
    let mut queue = queue_of(vec![breaking, intact]);
    queue.expect_settle().times(2).returning(|_, _, _| Ok(true));
    let reports = use_case(queue, notifier, found).run_batch(8).await.unwrap();
    let outcomes: Vec<_> = reports.into_iter().map(|report| report.unwrap().outcome).collect();
    let panicked = NotifyError::Permanent("the notifier panicked".into());
    let failed = Settlement::Fail { at: NOW, error: error_chain(&panicked) };
    assert_eq!(outcomes, [failed, Settlement::Done].map(DeliveryOutcome::Settled));
}

#[tokio::test]
async fn unsettled_delivery_is_settled_again_without_second_mail() {
    let mut queue = queue_of(vec![delivery(NOW)]);
    let mut failures_left = 2;
    queue
        .expect_settle()
        .withf(|_, token, settlement| *token == TOKEN && *settlement == Settlement::Done)
        .times(3)
        .returning(move |_, _, _| {
            failures_left -= 1;
            if failures_left < 0 {
                return Ok(true);
            }
            Err(StoreError::Unavailable("no database".into()))
        });
    let use_case = use_case(queue, notifier(|| Ok(())), found);

    let unsettled = use_case.run_batch(8).await.unwrap().remove(0).unwrap_err();
    let unsettled = use_case.settle_again(unsettled).await.unwrap_err();
    assert_eq!(
        error_chain(&unsettled),
        format!("{unsettled}: the store does not answer: no database")
    );
    let report = use_case.settle_again(unsettled).await.unwrap();
    assert_eq!(report.outcome, DeliveryOutcome::Settled(Settlement::Done));
}

#[tokio::test]
async fn mail_above_the_hourly_limit_of_its_recipient_fails_for_good() {
    // The limit of the use case is 2; 0 means none.
    for (limit, mail_of_hour, is_sent) in
        [(2, Some(2), true), (2, Some(3), false), (2, None, true), (0, Some(1_000_000), true)]
    {
        let mut queue = MockDeliveryQueue::new();
        let lease = Lease { delivery: delivery(NOW), token: TOKEN, mail_of_hour };
        queue.expect_lease().return_once(|_, _, _| Ok(vec![lease]));
        let expected = if is_sent {
            Settlement::Done
        } else {
            Settlement::Fail { at: NOW, error: OVER_LIMIT.to_owned() }
        };
        let settled = expected.clone();
        queue
            .expect_settle()
            .withf(move |_, _, s| *s == settled)
            .once()
            .returning(|_, _, _| Ok(true));
        let mut notifier = MockNotifier::new();
        notifier.expect_notify().times(usize::from(is_sent)).returning(|_| Ok(()));
        let use_case =
            RunDeliveries { mails_per_recipient_hour: limit, ..use_case(queue, notifier, found) };
        let report = use_case.run_batch(8).await.unwrap().pop().unwrap().unwrap();
        assert_eq!(report.outcome, DeliveryOutcome::Settled(expected));
    }
}
