use std::{
    collections::VecDeque,
    sync::{Mutex, atomic::AtomicUsize, atomic::Ordering},
};

use async_trait::async_trait;
use futures_util::future::{BoxFuture, pending};
use time::{OffsetDateTime, macros::datetime};
use tokio::time::Instant;

use super::*;
use crate::{
    delivery::{Delivery, MAX_AGE, Notification},
    order::OrderId,
    order_traffic::SHORTEST_PAUSE,
    ports::{Lease, MockClock, MockDeliveryQueue, Notifier, NotifyError, Settlement, error_chain},
    run_deliveries::DeliveryOutcome,
    test_support::{CountingEntropy, delivery, stored_order},
    webhook::EndpointNotice,
};

const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);
const SLOTS: usize = 8;
/// An order that is not there.
const NO_ORDER: OrderId = OrderId(404);

fn sleep(pause: Duration) -> BoxFuture<'static, ()> {
    tokio::time::sleep(pause).boxed()
}

fn lease(number: i64) -> Lease {
    let mut delivery = Delivery { id: DeliveryId(number), ..delivery(NOW) };
    delivery.task.message_key = number.to_string();
    Lease { delivery, token: 3, mail_of_hour: None }
}

/// Returns a queue of deliveries from 1 to `last`, and the limits of its leases.
fn queue_to(last: i64) -> (MockDeliveryQueue, Arc<Mutex<Vec<usize>>>) {
    let limits = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&limits);
    let mut due: VecDeque<i64> = (1..=last).collect();
    let mut queue = MockDeliveryQueue::new();
    queue.expect_lease().returning(move |_, _, limit| {
        asked.lock().unwrap().push(limit);
        let leased = due.drain(..limit.min(due.len()));
        Ok(leased.map(lease).collect())
    });
    queue
        .expect_orders()
        .returning(|ids| Ok(ids.iter().map(|&id| (id, Ok(stored_order(NOW)))).collect()));
    (queue, limits)
}

fn settling(mut queue: MockDeliveryQueue) -> MockDeliveryQueue {
    queue.expect_settle().returning(|batch| Ok(batch.iter().map(|one| one.id).collect()));
    queue
}

type Reply = Box<dyn Fn(i64) -> BoxFuture<'static, Result<(), NotifyError>> + Send + Sync>;

/// Replies to each mail by its number.
struct Replies {
    reply: Reply,
    calls: Arc<AtomicUsize>,
}

#[async_trait]
impl Notifier for Replies {
    async fn notify(&self, mail: &Notification) -> Result<(), NotifyError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        (self.reply)(mail.message_key.parse().unwrap()).await
    }

    async fn tell(&self, _: &EndpointNotice) -> Result<(), NotifyError> {
        Ok(())
    }

    async fn check(&self) -> Result<(), NotifyError> {
        Ok(())
    }
}

struct Setup {
    worker: DeliveryWorker,
    traffic: Arc<OrderTraffic>,
    dispatched: Arc<Signal>,
    calls: Arc<AtomicUsize>,
}

fn setup(
    queue: MockDeliveryQueue,
    reply: impl Fn(i64) -> BoxFuture<'static, Result<(), NotifyError>> + Send + Sync + 'static,
) -> Setup {
    let mut clock = MockClock::new();
    clock.expect_now().return_const(NOW);
    let calls = Arc::<AtomicUsize>::default();
    let deliveries = RunDeliveries {
        queue: Arc::new(queue),
        notifier: Arc::new(Replies { reply: Box::new(reply), calls: Arc::clone(&calls) }),
        clock: Arc::new(clock),
        entropy: Arc::new(CountingEntropy::default()),
        mails_per_recipient_hour: 0,
    };
    let (traffic, dispatched) = (Arc::<OrderTraffic>::default(), Arc::<Signal>::default());
    let shared = Arc::new(DeliverySlots::new(64));
    let worker =
        DeliveryWorker::new(deliveries, SLOTS, shared, traffic.clone(), dispatched.clone(), sleep);
    Setup { worker, traffic, dispatched, calls }
}

/// Replies after this time.
fn after(
    seconds: u64,
    reply: Result<(), NotifyError>,
) -> BoxFuture<'static, Result<(), NotifyError>> {
    async move {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        reply
    }
    .boxed()
}

fn relay_is_down() -> NotifyError {
    NotifyError::Unavailable("relay is down".into())
}

fn no_database<T>() -> Result<T, StoreError> {
    Err(StoreError::Unavailable("no database".into()))
}

/// Steps until so many deliveries are settled. Returns their numbers.
async fn settled(worker: &mut DeliveryWorker, count: usize) -> Vec<i64> {
    let mut numbers = Vec::new();
    while numbers.len() < count {
        numbers.extend(worker.step().await.reports.into_iter().map(|report| report.id.0));
    }
    numbers
}

/// Steps until the condition holds for what a step did.
async fn until(worker: &mut DeliveryWorker, holds: impl Fn(&DeliveryStep) -> bool) -> DeliveryStep {
    loop {
        let step = worker.step().await;
        if holds(&step) {
            return step;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn mails_that_end_within_milliseconds_are_settled_together() {
    let (mut queue, _) = queue_to(3);
    queue.expect_settle().once().returning(|batch| Ok(batch.iter().map(|one| one.id).collect()));
    let reply = |number| {
        let time = Duration::from_micros(600 * u64::try_from(number).unwrap());
        tokio::time::sleep(time).map(Ok).boxed()
    };
    assert_eq!(settled(&mut setup(queue, reply).worker, 3).await, [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn slow_mails_hold_up_no_other() {
    let (queue, limits) = queue_to(100);
    let slow = |number| if number < 8 { pending().boxed() } else { after(1, Ok(())) };
    let mut worker = setup(settling(queue), slow).worker;
    assert_eq!(settled(&mut worker, 93).await, (8..=100).collect::<Vec<_>>());
    // All slots, and then the one that becomes free.
    assert_eq!(limits.lock().unwrap()[..4], [8, 1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn many_mails_go_at_the_pace_of_the_relay() {
    let (queue, _) = queue_to(80);
    let began = Instant::now();
    settled(&mut setup(settling(queue), |_| after(1, Ok(()))).worker, 80).await;
    let ideal = Duration::from_secs(10);
    assert!(began.elapsed() < ideal * 11 / 10, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn dispatched_deliveries_are_leased_at_once() {
    let mut queue = MockDeliveryQueue::new();
    let leased_at = Arc::new(Mutex::new(Vec::new()));
    let instants = Arc::clone(&leased_at);
    queue.expect_lease().returning(move |_, _, _| {
        instants.lock().unwrap().push(Instant::now());
        Ok(Vec::new())
    });
    let Setup { mut worker, dispatched, .. } = setup(queue, |_| pending().boxed());
    let began = Instant::now();
    worker.step().await;
    dispatched.raise();
    worker.step().await;
    worker.step().await;
    worker.step().await;
    worker.step().await;
    assert_eq!(*leased_at.lock().unwrap(), [began, began, began + POLL]);
}

#[tokio::test(start_paused = true)]
async fn leases_pause_while_orders_arrive() {
    for (orders, pause) in [(0, GATHER), (1, SHORTEST_PAUSE)] {
        let (queue, limits) = queue_to(16);
        let Setup { mut worker, traffic, .. } = setup(settling(queue), |_| after(0, Ok(())));
        (0..orders).for_each(|_| traffic.arrive());
        let began = Instant::now();
        while limits.lock().unwrap().len() < 2 {
            worker.step().await;
        }
        assert!(began.elapsed() >= pause && began.elapsed() < pause * 2, "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn leases_are_small_while_many_orders_arrive() {
    let (queue, limits) = queue_to(16);
    let Setup { mut worker, traffic, .. } = setup(settling(queue), |_| after(0, Ok(())));
    (0..1_000).for_each(|_| traffic.arrive());
    while limits.lock().unwrap().len() < 2 {
        worker.step().await;
    }
    assert_eq!(*limits.lock().unwrap(), [SLOTS, 1]);
}

#[tokio::test(start_paused = true)]
async fn failed_lease_is_reported_and_retried_after_a_pause() {
    let mut queue = MockDeliveryQueue::new();
    queue.expect_lease().times(2).returning(|_, _, _| no_database());
    let mut worker = setup(queue, |_| pending().boxed()).worker;
    let began = Instant::now();
    for _ in 0..2 {
        let step = until(&mut worker, |step| step.failure.is_some()).await;
        let failure = step.failure.unwrap();
        assert!(matches!(&failure, DeliveryFailure::Lease(StoreError::Unavailable(_))));
    }
    assert_eq!(began.elapsed(), POLL);
}

#[tokio::test(start_paused = true)]
async fn outcomes_are_stored_again_without_second_mails_or_new_leases() {
    let (mut queue, limits) = queue_to(20);
    let mut failures_left = 2;
    queue.expect_settle().returning(move |batch| {
        if failures_left > 0 {
            failures_left -= 1;
            return no_database();
        }
        Ok(batch.iter().map(|one| one.id).collect())
    });
    let Setup { mut worker, calls, .. } = setup(queue, |_| after(0, Ok(())));
    for _ in 0..2 {
        let step = until(&mut worker, |step| step.failure.is_some()).await;
        assert!(matches!(step.failure, Some(DeliveryFailure::Settle { deliveries: 1..=16, .. })));
    }
    assert!(limits.lock().unwrap().len() <= 2);
    let mut numbers = settled(&mut worker, 20).await;
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
    assert_eq!(calls.load(Ordering::Relaxed), 20);
}

#[tokio::test(start_paused = true)]
async fn lost_lease_is_reported() {
    let (mut queue, _) = queue_to(1);
    queue.expect_settle().once().returning(|_| Ok(Vec::new()));
    let mut worker = setup(queue, |_| after(0, Ok(()))).worker;
    let step = until(&mut worker, |step| !step.reports.is_empty()).await;
    assert_eq!(step.reports[0].outcome, DeliveryOutcome::LeaseLost);
}

#[tokio::test(start_paused = true)]
async fn relay_that_is_down_gets_one_mail_at_a_time_until_it_is_back() {
    let (queue, limits) = queue_to(100);
    let began = Instant::now();
    let down_until = began + Duration::from_secs(10);
    let Setup { mut worker, calls, .. } = setup(settling(queue), move |_| {
        let is_down = Instant::now() < down_until;
        after(0, if is_down { Err(relay_is_down()) } else { Ok(()) })
    });
    let step = until(&mut worker, |step| step.outage.is_some()).await;
    assert_eq!(step.outage, Some(OutageChange::Began(error_chain(&relay_is_down()))));
    let step = until(&mut worker, |step| step.outage.is_some()).await;
    assert_eq!(step.outage, Some(OutageChange::Ended));
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    // The first mails, and then one a second.
    let calls = calls.load(Ordering::Relaxed);
    assert!(calls <= SLOTS + 12, "{calls}");
    assert!(limits.lock().unwrap()[2..].iter().all(|&limit| limit == 1));
    settled(&mut worker, 100 - calls).await;
    assert!(began.elapsed() < Duration::from_secs(14), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn attempt_that_does_not_reach_the_relay_ends_no_outage() {
    let mut queue = MockDeliveryQueue::new();
    let mut numbers = 1..;
    queue.expect_lease().returning(move |_, _, limit| {
        let mixed = |number| {
            let mut lease = lease(number);
            match number % 3 {
                0 => lease.delivery.order_id = NO_ORDER,
                1 => lease.delivery.created_at = NOW - MAX_AGE,
                _ => {}
            }
            lease
        };
        Ok(numbers.by_ref().take(limit).map(mixed).collect())
    });
    queue.expect_orders().returning(|ids| {
        let there = ids.iter().filter(|&&id| id != NO_ORDER);
        Ok(there.map(|&id| (id, Ok(stored_order(NOW)))).collect())
    });
    let Setup { mut worker, calls, .. } =
        setup(settling(queue), |_| after(0, Err(relay_is_down())));
    let began = Instant::now();
    let mut changes = Vec::new();
    while began.elapsed() < Duration::from_secs(12) {
        changes.extend(worker.step().await.outage);
    }
    assert_eq!(changes, [OutageChange::Began(error_chain(&relay_is_down()))]);
    let calls = calls.load(Ordering::Relaxed);
    assert!(calls <= SLOTS + 12, "{calls}");
}

#[tokio::test(start_paused = true)]
async fn single_slot_delivers_every_mail_one_at_a_time() {
    let (queue, limits) = queue_to(5);
    let mut worker = setup(settling(queue), |_| after(1, Ok(()))).worker;
    (worker.slots, worker.open_slots) = (1, 1);
    assert_eq!(settled(&mut worker, 5).await, [1, 2, 3, 4, 5]);
    assert!(limits.lock().unwrap().iter().all(|&limit| limit == 1));
}

#[tokio::test(start_paused = true)]
async fn mail_postponed_beside_delivered_ones_is_no_outage() {
    // The relay takes three mails at a time.
    let (queue, _) = queue_to(200);
    let taken = Arc::<AtomicUsize>::default();
    let Setup { mut worker, calls, .. } = setup(settling(queue), move |_| {
        let taken = Arc::clone(&taken);
        async move {
            if taken.fetch_add(1, Ordering::Relaxed) >= 3 {
                taken.fetch_sub(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(2)).await;
                return Err(relay_is_down());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            taken.fetch_sub(1, Ordering::Relaxed);
            Ok(())
        }
        .boxed()
    });
    let mut done = 0;
    while done < 60 {
        let step = worker.step().await;
        assert_eq!(step.outage, None);
        let is_done =
            |report: &&DeliveryReport| report.outcome == DeliveryOutcome::Settled(Settlement::Done);
        done += step.reports.iter().filter(is_done).count();
    }
    let calls = calls.load(Ordering::Relaxed);
    assert!(calls < 130, "{calls} attempts for 60 mails");
}

#[tokio::test(start_paused = true)]
async fn stop_finishes_attempts_and_leases_no_more() {
    let (queue, limits) = queue_to(20);
    let mut worker = setup(settling(queue), |_| after(1, Ok(()))).worker;
    worker.step().await;
    worker.stop();
    let mut reports = 0;
    while !worker.is_done() {
        reports += worker.step().await.reports.len();
    }
    assert_eq!((reports, &limits.lock().unwrap()[..]), (SLOTS, &[SLOTS][..]));
}

#[tokio::test(start_paused = true)]
async fn stop_waits_until_outcomes_are_stored() {
    let (mut queue, _) = queue_to(1);
    let mut is_failing = true;
    queue.expect_settle().times(2).returning(move |batch| {
        if mem::take(&mut is_failing) {
            return no_database();
        }
        Ok(batch.iter().map(|one| one.id).collect())
    });
    let mut worker = setup(queue, |_| after(1, Ok(()))).worker;
    worker.step().await;
    worker.stop();
    let (mut failures, mut reports) = (0, 0);
    while !worker.is_done() {
        let step = worker.step().await;
        failures += usize::from(step.failure.is_some());
        reports += step.reports.len();
    }
    assert_eq!((failures, reports), (1, 1));
}
