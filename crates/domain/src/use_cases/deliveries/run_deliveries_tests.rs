use mockall::predicate::eq;
use time::{OffsetDateTime, macros::datetime};

use super::*;
use crate::{
    delivery::NewDelivery,
    order::{EmailAddress, OrderStatus, StoredOrder},
    ports::{MockDeliveryQueue, MockNotifier},
    test_support::{CountingEntropy, clock, delivery, no_services, stored_order},
};

const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);
const TOKEN: i64 = 3;

type FindResult = Result<Option<StoredOrder>, StoreError>;

#[expect(clippy::unnecessary_wraps, reason = "it is a reply of the store")]
fn found() -> FindResult {
    Ok(Some(stored_order(NOW)))
}

fn use_case(
    mut queue: MockDeliveryQueue,
    notifier: MockNotifier,
    find: fn() -> FindResult,
) -> RunDeliveries {
    queue.expect_begin().returning(|mails, now, limit| {
        assert!(now == NOW && limit == 2 && mails.iter().all(|(_, version)| *version == NOW));
        Ok(mails.iter().map(|(id, _)| begun(*id, None)).collect())
    });
    queue.expect_orders().withf(|ids| ids == [OrderId(1)]).returning(move |_| {
        Ok(match find() {
            Ok(order) => order.into_iter().map(|order| (OrderId(1), Ok(order))).collect(),
            Err(error @ StoreError::Internal(_)) => vec![(OrderId(1), Err(error))],
            Err(error @ StoreError::Unavailable(_)) => return Err(error),
        })
    });
    RunDeliveries {
        queue: Arc::new(queue),
        services: Arc::new(no_services()),
        notifier: Arc::new(notifier),
        clock: clock(NOW),
        entropy: Arc::new(CountingEntropy::default()),
        mails_per_recipient_hour: 2,
    }
}

/// Returns a queue that leases these deliveries once.
fn queue_of(leases: Vec<Lease>) -> MockDeliveryQueue {
    let mut queue = MockDeliveryQueue::new();
    queue
        .expect_lease()
        .with(eq(NOW), eq(LEASE), eq(8))
        .once()
        .return_once(move |_, _, _| Ok(leases));
    queue
}

fn lease(delivery: Delivery) -> Lease {
    Lease { delivery, token: TOKEN }
}

fn begun(id: DeliveryId, mail_of_hour: Option<u64>) -> Begun {
    Begun { id, mail_of_hour, sequence: Some(7) }
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

/// Attempts all deliveries of a queue one after the other.
async fn attempts(use_case: &RunDeliveries) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for ready in use_case.lease(8).await.unwrap() {
        outcomes.push(use_case.attempt(ready).await);
    }
    outcomes
}

/// Attempts one delivery, and returns its settlement.
async fn settlement(
    delivery: Delivery,
    notifier: MockNotifier,
    find: fn() -> FindResult,
) -> Settlement {
    let use_case = use_case(queue_of(vec![lease(delivery)]), notifier, find);
    let outcome = attempts(&use_case).await.remove(0);
    assert_eq!((outcome.attempted.id, outcome.attempted.token), (DeliveryId(5), TOKEN));
    outcome.attempted.settlement
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

/// Both waited for the relay. A mail that may have arrived would be a copy for its recipient.
#[tokio::test]
async fn change_that_another_leased_mail_tells_does_not_leave() {
    use MailSubject::{Changed, Created, NoteAdded, Reinstated};
    let of = |id: i64, subject, unknown_outcomes| {
        let delivery = delivery(NOW);
        let task = NewDelivery { subject, ..delivery.task };
        Delivery { id: DeliveryId(id), unknown_outcomes, task, ..delivery }
    };
    for (first, second, left) in [
        (of(1, Created, 0), of(2, Changed, 0), vec![1]),
        (of(1, Changed, 0), of(2, Reinstated, 0), vec![2]),
        (of(1, Changed, 0), of(2, Changed, 0), vec![1]),
        (of(1, Created, 1), of(2, Changed, 0), vec![1, 2]),
        (of(1, Created, 0), of(2, NoteAdded, 0), vec![1, 2]),
    ] {
        let mut notifier = MockNotifier::new();
        notifier.expect_notify().times(left.len()).returning(|_| Ok(()));
        let leases = vec![lease(first), lease(second)];
        let use_case = use_case(queue_of(leases), notifier, found);
        let settled = attempts(&use_case).await.into_iter().map(|outcome| outcome.attempted);
        let done = settled.filter(|one| one.settlement == Settlement::Done);
        assert_eq!(done.map(|one| one.id.0).collect::<Vec<_>>(), left);
    }
}

#[tokio::test]
async fn delivery_ends_with_success_or_a_failure_for_good() {
    type Case = (Delivery, MockNotifier, fn() -> FindResult, Settlement);
    let failed = |error: NotifyError| Settlement::Fail { at: NOW, error: error_chain(&error) };
    let old = || Delivery { attempts: 40, ..delivery(NOW - Duration::days(5)) };
    let missing = NotifyError::Permanent("the order does not exist".into());
    let cases: [Case; 5] = [
        (delivery(NOW), notifier(|| Ok(())), found, Settlement::Done),
        (delivery(NOW), notifier(|| Err(permanent())), found, failed(permanent())),
        (old(), notifier(|| Err(transient())), found, failed(transient())),
        (old(), notifier(|| Err(unavailable())), found, failed(unavailable())),
        (delivery(NOW), MockNotifier::new(), || Ok(None), failed(missing)),
    ];
    for (delivery, notifier, find, expected) in cases {
        assert_eq!(settlement(delivery, notifier, find).await, expected);
    }
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

#[tokio::test]
async fn unknown_outcome_is_repeated_three_times_hours_apart() {
    let unknown = || NotifyError::Unknown("the relay did not answer in time".into());
    for (unknown_outcomes, hours) in [(0, Some(1)), (2, Some(12)), (3, None)] {
        let delivery = Delivery { unknown_outcomes, ..delivery(NOW) };
        let no_reply =
            notifier(|| Err(NotifyError::Unknown("the relay did not answer in time".into())));
        let error = error_chain(&unknown());
        let expected = match hours {
            Some(hours) => Settlement::Unknown { due_at: NOW + Duration::hours(hours), error },
            None => Settlement::Fail { at: NOW, error },
        };
        assert_eq!(settlement(delivery, no_reply, found).await, expected);
    }
}

/// Checks that the next attempt is due in two to four seconds.
fn assert_postponed(settled: Settlement, cause: &NotifyError) {
    let Settlement::Postpone { due_at, error } = settled else { panic!("{settled:?}") };
    assert!((2.0..=4.0).contains(&(due_at - NOW).as_seconds_f64()), "{due_at}");
    assert_eq!(error, error_chain(cause));
}

#[tokio::test]
async fn outage_of_the_relay_or_the_store_postpones_delivery() {
    for (attempts, age) in [(0, Duration::ZERO), (100_000, Duration::days(5) - Duration::SECOND)] {
        let delivery = Delivery { attempts, ..delivery(NOW - age) };
        let settled = settlement(delivery, notifier(|| Err(unavailable())), found).await;
        assert_postponed(settled, &unavailable());
    }
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

/// It would put a cancelled appointment back into a calendar, or remove one that takes place.
#[tokio::test]
async fn mail_that_is_not_true_any_more_does_not_leave() {
    use MailSubject::{Cancelled, Changed, Created, Reinstated};
    let cancelled: fn() -> FindResult =
        || Ok(Some(StoredOrder { status: OrderStatus::CANCELLED, ..stored_order(NOW) }));
    for (find, sent, obsolete) in [
        (found as fn() -> FindResult, &[Created, Changed, Reinstated][..], &[Cancelled][..]),
        (cancelled, &[Cancelled], &[Created, Changed, Reinstated]),
    ] {
        for &subject in sent.iter().chain(obsolete) {
            let is_sent = sent.contains(&subject);
            let mut notifier = MockNotifier::new();
            let is_expected =
                move |mail: &Notification| mail.subject == subject && mail.sequence == 7;
            notifier
                .expect_notify()
                .withf(is_expected)
                .times(usize::from(is_sent))
                .returning(|_| Ok(()));
            let mut delivery = delivery(NOW);
            delivery.task.subject = subject;
            let expected = if is_sent { Settlement::Done } else { Settlement::Obsolete };
            assert_eq!(settlement(delivery, notifier, find).await, expected, "{subject:?}");
        }
    }
}

/// A wrong address that a change corrects must not get what the order has since.
#[tokio::test]
async fn mail_to_an_address_that_was_removed_leaves_only_for_a_cancellation() {
    let cancelled: fn() -> FindResult =
        || Ok(Some(StoredOrder { status: OrderStatus::CANCELLED, ..stored_order(NOW) }));
    for (subject, find) in [
        (MailSubject::Created, found as fn() -> FindResult),
        (MailSubject::Changed, found),
        (MailSubject::NoteAdded, found),
        (MailSubject::Cancelled, cancelled),
    ] {
        let is_sent = subject == MailSubject::Cancelled;
        let mut notifier = MockNotifier::new();
        notifier
            .expect_notify()
            .withf(|mail: &Notification| mail.extent == Extent::EndOnly)
            .times(usize::from(is_sent))
            .returning(|_| Ok(()));
        let mut removed = delivery(NOW);
        removed.task.subject = subject;
        removed.task.recipient = EmailAddress::from_stored("wrong@example.com".to_owned());
        let expected = if is_sent { Settlement::Done } else { Settlement::Obsolete };
        assert_eq!(settlement(removed, notifier, find).await, expected, "{subject:?}");
    }
}

/// Another transaction is changing the order, or has changed it since it was read, and may cancel it.
#[tokio::test]
async fn mail_of_an_order_that_is_being_changed_is_retried() {
    let mut queue = queue_of(vec![lease(delivery(NOW))]);
    let changed = |id| Begun { sequence: None, ..begun(id, None) };
    queue.expect_begin().once().returning(move |mails, _, _| Ok(vec![changed(mails[0].0)]));
    let use_case = use_case(queue, MockNotifier::new(), found);
    let settled = attempts(&use_case).await.remove(0).attempted.settlement;
    assert!(matches!(settled, Settlement::RetryAt { .. }), "{settled:?}");
}

/// It would use up a mail of its recipient, or wait for the next hour though it never leaves.
#[tokio::test]
async fn mail_that_is_not_true_any_more_is_not_counted() {
    let mut obsolete = Delivery { id: DeliveryId(6), ..delivery(NOW) };
    obsolete.task.subject = MailSubject::Cancelled;
    let mut queue = queue_of(vec![lease(obsolete), lease(delivery(NOW))]);
    queue
        .expect_begin()
        .withf(|mails, _, _| mails == [(DeliveryId(5), NOW)])
        .once()
        .returning(|_, _, _| Ok(vec![begun(DeliveryId(5), Some(1))]));
    let use_case = use_case(queue, notifier(|| Ok(())), found);
    let outcomes = attempts(&use_case).await.into_iter().map(|one| one.attempted.settlement);
    assert_eq!(outcomes.collect::<Vec<_>>(), [Settlement::Obsolete, Settlement::Done]);
}

#[tokio::test]
async fn order_is_read_once_for_its_mails() {
    let mut notifier = MockNotifier::new();
    notifier.expect_notify().times(2).returning(|_| Ok(()));
    let other = Delivery { id: DeliveryId(6), ..delivery(NOW) };
    let queue = queue_of(vec![lease(delivery(NOW)), lease(other)]);
    // The queue expects one order.
    assert_eq!(attempts(&use_case(queue, notifier, found)).await.len(), 2);
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
    let use_case = use_case(queue_of(vec![lease(breaking), lease(intact)]), notifier, found);
    let outcomes: Vec<_> =
        attempts(&use_case).await.into_iter().map(|o| o.attempted.settlement).collect();
    let panicked = NotifyError::Permanent("the notifier panicked".into());
    let failed = Settlement::Fail { at: NOW, error: error_chain(&panicked) };
    assert_eq!(outcomes, [failed, Settlement::Done]);
}

#[tokio::test]
async fn mail_above_the_hourly_limit_of_its_recipient_waits() {
    // The limit of the use case is 2; 0 means none.
    for (limit, mail_of_hour, is_sent) in [
        (2, Some(2), true),
        (2, Some(3), false),
        (2, Some(4), false),
        (2, None, true),
        (0, Some(1_000_000), true),
    ] {
        let mut queue = queue_of(vec![lease(delivery(NOW))]);
        queue
            .expect_begin()
            .returning(move |mails, _, _| Ok(vec![begun(mails[0].0, mail_of_hour)]));
        let mut notifier = MockNotifier::new();
        notifier.expect_notify().times(usize::from(is_sent)).returning(|_| Ok(()));
        let use_case =
            RunDeliveries { mails_per_recipient_hour: limit, ..use_case(queue, notifier, found) };
        let expected = if is_sent {
            Settlement::Done
        } else {
            let due_at = NOW + Duration::HOUR;
            Settlement::OverLimit { due_at, error: OVER_LIMIT.to_owned() }
        };
        let outcome = attempts(&use_case).await.remove(0);
        assert_eq!(outcome.attempted.settlement, expected);
        let mut mails = MailDeliveries::new(use_case, 8);
        let report = mails.attempted(&outcome);
        let is_reported = report == Some(MailReport::LimitReached(DeliveryId(5), OrderId(1)));
        assert_eq!(is_reported, mail_of_hour == Some(3));
    }
}
