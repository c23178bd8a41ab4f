use mockall::predicate::eq;
use time::{OffsetDateTime, macros::datetime};

use super::*;
use crate::{
    delivery::NewDelivery,
    order::{EmailAddress, OrderRequest, OrderStatus, StoredOrder},
    ports::{MockClock, MockDeliveryQueue, MockNotifier, MockOrderRepo},
    test_support::{CountingEntropy, minimal_request},
};

const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

#[expect(clippy::unnecessary_wraps, reason = "it is what a store answers")]
fn stored() -> Result<Option<StoredOrder>, StoreError> {
    let order =
        serde_json::from_value::<OrderRequest>(minimal_request()).unwrap().parse().unwrap().order;
    Ok(Some(StoredOrder {
        id: OrderId(1),
        order,
        status: OrderStatus::NEW,
        client: crate::api_key::ClientId(1),
        api_key: crate::api_key::ApiKeyId(1),
        notary_id: None,
        documents: vec![],
        is_test: false,
        created_at: NOW,
        updated_at: NOW,
    }))
}

fn lease(attempts: u32, created_at: OffsetDateTime) -> Lease {
    let task = NewDelivery {
        message_key: "k".to_owned(),
        recipient: EmailAddress::try_from("a@example.com".to_owned()).unwrap(),
    };
    Lease {
        delivery: Delivery {
            id: DeliveryId(5),
            order_id: OrderId(1),
            task,
            attempts,
            created_at,
            due_at: NOW,
            failed_at: None,
            last_error: None,
        },
        token: 3,
    }
}

/// Runs one leased follow-up against a notifier and checks how it is settled.
async fn run(
    lease: Lease,
    notifier: MockNotifier,
    found: impl Fn() -> Result<Option<StoredOrder>, StoreError> + Send + 'static,
    settled: impl Fn(&Settlement) -> bool + Send + 'static,
    held: bool,
) -> DeliveryOutcome {
    let mut queue = MockDeliveryQueue::new();
    queue
        .expect_lease()
        .with(eq(NOW), eq(RunDeliveries::LEASE), eq(8))
        .once()
        .returning(move |_, _, _| Ok(vec![lease.clone()]));
    queue
        .expect_settle()
        .withf(move |id, token, settlement| {
            *id == DeliveryId(5) && *token == 3 && settled(settlement)
        })
        .once()
        .returning(move |_, _, _| Ok(held));
    let deliveries = use_case(queue, notifier, found).run_once(8).await.unwrap();
    assert_eq!(deliveries.len(), 1);
    deliveries[0].as_ref().unwrap().outcome.clone()
}

fn use_case(
    queue: MockDeliveryQueue,
    notifier: MockNotifier,
    found: impl Fn() -> Result<Option<StoredOrder>, StoreError> + Send + 'static,
) -> RunDeliveries {
    let mut orders = MockOrderRepo::new();
    orders.expect_find().with(eq(OrderId(1))).returning(move |_| found());
    let mut clock = MockClock::new();
    clock.expect_now().return_const(NOW);
    RunDeliveries {
        queue: Arc::new(queue),
        orders: Arc::new(orders),
        notifier: Arc::new(notifier),
        clock: Arc::new(clock),
        entropy: Arc::new(CountingEntropy::default()),
        retry: RetryPolicy::default(),
    }
}

fn notifier(answer: impl Fn() -> Result<(), NotifyError> + Send + 'static) -> MockNotifier {
    let mut notifier = MockNotifier::new();
    notifier
        .expect_notify()
        .withf(|notification| {
            notification.message_key == "k" && notification.order.id == OrderId(1)
        })
        .once()
        .returning(move |_| answer());
    notifier
}

#[tokio::test]
async fn a_delivered_mail_is_done() {
    let outcome = run(
        lease(0, NOW),
        notifier(|| Ok(())),
        stored,
        |settlement| *settlement == Settlement::Done,
        true,
    )
    .await;
    assert_eq!(outcome, DeliveryOutcome::Delivered);
}

#[tokio::test]
async fn a_failing_notifier_is_retried_later_and_later() {
    for (attempts, shortest, longest) in [(0, 2.5, 5.0), (1, 5.0, 10.0), (30, 1_800.0, 3_600.0)] {
        let retried = move |settlement: &Settlement| match settlement {
            Settlement::RetryAt { due_at, error } => {
                (shortest..=longest).contains(&(*due_at - NOW).as_seconds_f64())
                    && error == "the mail was rejected this time: relay is busy"
            }
            _ => false,
        };
        let failing = notifier(|| Err(NotifyError::Transient("relay is busy".into())));
        let outcome = run(lease(attempts, NOW), failing, stored, retried, true).await;
        assert!(matches!(outcome, DeliveryOutcome::Retried(_)));
    }
}

/// Due in two to four seconds, for the reason given.
fn waits(settlement: &Settlement, reason: &str) -> bool {
    match settlement {
        Settlement::Postpone { due_at, error } => {
            (2.0..=4.0).contains(&(*due_at - NOW).as_seconds_f64()) && error == reason
        }
        _ => false,
    }
}

#[tokio::test]
async fn in_an_outage_a_mail_waits_for_a_few_seconds_however_long_it_lasts() {
    for (attempts, age) in [(0, Duration::ZERO), (100_000, Duration::days(5) - Duration::SECOND)] {
        let down = notifier(|| Err(NotifyError::Unavailable("relay is down".into())));
        let outcome = run(
            lease(attempts, NOW - age),
            down,
            stored,
            |settlement| waits(settlement, "no mail can be handed over now: relay is down"),
            true,
        )
        .await;
        assert_eq!(
            outcome,
            DeliveryOutcome::Postponed("no mail can be handed over now: relay is down".to_owned())
        );
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_an_outage() {
    let down = || Err(StoreError::Unavailable("gone".into()));
    let reason = "no mail can be handed over now: the store does not answer: gone";
    let outcome = run(
        lease(9, NOW),
        MockNotifier::new(),
        down,
        move |settlement| waits(settlement, reason),
        true,
    )
    .await;
    assert_eq!(outcome, DeliveryOutcome::Postponed(reason.to_owned()));
}

#[tokio::test]
async fn an_order_that_cannot_be_read_is_retried_later_and_later() {
    let unreadable = || Err(StoreError::Internal("what is this?".into()));
    let retried = |settlement: &Settlement| matches!(settlement, Settlement::RetryAt { due_at, .. } if *due_at - NOW > Duration::minutes(20));
    let outcome = run(lease(9, NOW), MockNotifier::new(), unreadable, retried, true).await;
    assert!(matches!(outcome, DeliveryOutcome::Retried(_)));
}

#[tokio::test]
async fn a_permanent_failure_is_buried() {
    let failing = notifier(|| Err(NotifyError::Permanent("no such user".into())));
    let outcome = run(
        lease(0, NOW),
        failing,
        stored,
        |settlement| matches!(settlement, Settlement::Fail { at, .. } if *at == NOW),
        true,
    )
    .await;
    assert_eq!(
        outcome,
        DeliveryOutcome::Failed("the mail was rejected for good: no such user".to_owned())
    );
}

#[tokio::test]
async fn what_fails_for_five_days_is_buried() {
    let transient = || Err(NotifyError::Transient("relay is busy".into()));
    let unavailable = || Err(NotifyError::Unavailable("relay is down".into()));
    for failing in [notifier(transient), notifier(unavailable)] {
        let outcome = run(
            lease(40, NOW - Duration::days(5)),
            failing,
            stored,
            |settlement| matches!(settlement, Settlement::Fail { .. }),
            true,
        )
        .await;
        assert!(matches!(outcome, DeliveryOutcome::Failed(_)));
    }
}

#[tokio::test]
async fn a_mail_about_no_order_is_buried_unsent() {
    let outcome = run(
        lease(0, NOW),
        MockNotifier::new(),
        || Ok(None),
        |settlement| matches!(settlement, Settlement::Fail { .. }),
        true,
    )
    .await;
    assert!(matches!(outcome, DeliveryOutcome::Failed(_)));
}

#[tokio::test]
async fn a_lost_lease_is_reported_as_such() {
    let outcome = run(lease(0, NOW), notifier(|| Ok(())), stored, |_| true, false).await;
    assert_eq!(outcome, DeliveryOutcome::LeaseLost);
}

#[tokio::test]
async fn a_notifier_that_panics_buries_its_mail_and_nothing_else() {
    let panicking = notifier(|| panic!("this panic is part of the test"));
    let outcome = run(
        lease(0, NOW),
        panicking,
        stored,
        |settlement| matches!(settlement, Settlement::Fail { .. }),
        true,
    )
    .await;
    assert_eq!(
        outcome,
        DeliveryOutcome::Failed("the mail was rejected for good: the notifier panicked".to_owned())
    );
}

#[tokio::test]
async fn what_the_queue_did_not_take_is_settled_again_and_not_delivered_again() {
    let mut queue = MockDeliveryQueue::new();
    queue.expect_lease().once().returning(move |_, _, _| Ok(vec![lease(0, NOW)]));
    let done = |_: &DeliveryId, token: &i64, settlement: &Settlement| {
        *token == 3 && *settlement == Settlement::Done
    };
    let mut failures_left = 2;
    queue.expect_settle().withf(done).times(3).returning(move |_, _, _| {
        failures_left -= 1;
        if failures_left >= 0 {
            Err(StoreError::Unavailable("no database".into()))
        } else {
            Ok(true)
        }
    });
    let use_case = use_case(queue, notifier(|| Ok(())), stored);

    let unsettled = use_case.run_once(8).await.unwrap().remove(0).unwrap_err();
    let unsettled = use_case.settle_again(unsettled).await.unwrap_err();
    assert_eq!(
        error_chain(&unsettled),
        "the queue does not know what became of a follow-up: the store does not answer: no database"
    );
    assert_eq!(use_case.settle_again(unsettled).await.unwrap().outcome, DeliveryOutcome::Delivered);
}
