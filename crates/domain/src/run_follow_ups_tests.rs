use mockall::predicate::eq;
use time::{OffsetDateTime, macros::datetime};

use super::*;
use crate::{
    follow_up::NewFollowUp,
    order::{EmailAddress, OrderRequest, OrderStatus, PlacedOrder},
    ports::{MockClock, MockFollowUpQueue, MockNotifier, MockOrderRepo},
    test_support::{CountingEntropy, minimal_request},
};

const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

fn placed() -> PlacedOrder {
    let order = serde_json::from_value::<OrderRequest>(minimal_request()).unwrap().parse().unwrap().order;
    PlacedOrder { id: OrderId(1), order, status: OrderStatus::New, notary_id: None, documents: vec![], created_at: NOW, updated_at: NOW }
}

fn lease(attempts: u32, created_at: OffsetDateTime) -> Lease {
    let task = NewFollowUp { message_key: "k".to_owned(), recipient: EmailAddress::try_from("a@example.com".to_owned()).unwrap() };
    Lease {
        follow_up: FollowUp { id: FollowUpId(5), order_id: OrderId(1), task, attempts, created_at, due_at: NOW, buried_at: None, last_error: None },
        token: 3,
    }
}

/// Runs one leased follow-up against a notifier and checks how it is settled.
async fn run(
    lease: Lease,
    notifier: MockNotifier,
    found: Option<PlacedOrder>,
    settled: impl Fn(&Settlement) -> bool + Send + 'static,
    held: bool,
) -> DeliveryOutcome {
    let mut queue = MockFollowUpQueue::new();
    queue.expect_lease().with(eq(NOW), eq(RunFollowUps::LEASE), eq(8)).once().returning(move |_, _, _| Ok(vec![lease.clone()]));
    queue
        .expect_settle()
        .withf(move |id, token, settlement| *id == FollowUpId(5) && *token == 3 && settled(settlement))
        .once()
        .returning(move |_, _, _| Ok(held));
    let mut orders = MockOrderRepo::new();
    orders.expect_find().with(eq(OrderId(1))).returning(move |_| Ok(found.clone()));
    let mut clock = MockClock::new();
    clock.expect_now().return_const(NOW);
    let use_case = RunFollowUps {
        queue: Arc::new(queue),
        orders: Arc::new(orders),
        notifier: Arc::new(notifier),
        clock: Arc::new(clock),
        entropy: Arc::new(CountingEntropy::default()),
        retry: RetryPolicy::default(),
    };
    let deliveries = use_case.run_once(8).await.unwrap();
    assert_eq!(deliveries.len(), 1);
    deliveries[0].as_ref().unwrap().outcome.clone()
}

fn notifier(answer: impl Fn() -> Result<(), NotifyError> + Send + 'static) -> MockNotifier {
    let mut notifier = MockNotifier::new();
    notifier.expect_notify().withf(|notification| notification.message_key == "k" && notification.order.id == OrderId(1)).once().returning(move |_| answer());
    notifier
}

#[tokio::test]
async fn a_delivered_mail_is_done() {
    let outcome = run(lease(0, NOW), notifier(|| Ok(())), Some(placed()), |settlement| *settlement == Settlement::Done, true).await;
    assert_eq!(outcome, DeliveryOutcome::Delivered);
}

#[tokio::test]
async fn a_failing_notifier_is_retried_later_and_later() {
    for (attempts, shortest, longest) in [(0, 2.5, 5.0), (1, 5.0, 10.0), (30, 1_800.0, 3_600.0)] {
        let retried = move |settlement: &Settlement| match settlement {
            Settlement::RetryAt { due_at, error } => {
                (shortest..=longest).contains(&(*due_at - NOW).as_seconds_f64()) && error == "the mail was not taken this time: relay is down"
            }
            _ => false,
        };
        let failing = notifier(|| Err(NotifyError::Transient("relay is down".into())));
        let outcome = run(lease(attempts, NOW), failing, Some(placed()), retried, true).await;
        assert!(matches!(outcome, DeliveryOutcome::Retried(_)));
    }
}

#[tokio::test]
async fn a_permanent_failure_is_buried() {
    let failing = notifier(|| Err(NotifyError::Permanent("no such user".into())));
    let outcome = run(lease(0, NOW), failing, Some(placed()), |settlement| matches!(settlement, Settlement::Bury { at, .. } if *at == NOW), true).await;
    assert_eq!(outcome, DeliveryOutcome::Buried("the mail will never be taken: no such user".to_owned()));
}

#[tokio::test]
async fn what_fails_for_five_days_is_buried() {
    let failing = notifier(|| Err(NotifyError::Transient("relay is down".into())));
    let outcome = run(lease(40, NOW - Duration::days(5)), failing, Some(placed()), |settlement| matches!(settlement, Settlement::Bury { .. }), true).await;
    assert!(matches!(outcome, DeliveryOutcome::Buried(_)));
}

#[tokio::test]
async fn a_mail_about_no_order_is_buried_unsent() {
    let outcome = run(lease(0, NOW), MockNotifier::new(), None, |settlement| matches!(settlement, Settlement::Bury { .. }), true).await;
    assert!(matches!(outcome, DeliveryOutcome::Buried(_)));
}

#[tokio::test]
async fn a_lost_lease_is_reported_as_such() {
    let outcome = run(lease(0, NOW), notifier(|| Ok(())), Some(placed()), |_| true, false).await;
    assert_eq!(outcome, DeliveryOutcome::LeaseLost);
}

#[tokio::test]
async fn a_notifier_that_panics_buries_its_mail_and_nothing_else() {
    let panicking = notifier(|| panic!("this panic is part of the test"));
    let outcome = run(lease(0, NOW), panicking, Some(placed()), |settlement| matches!(settlement, Settlement::Bury { .. }), true).await;
    assert_eq!(outcome, DeliveryOutcome::Buried("the mail will never be taken: the notifier panicked".to_owned()));
}
