use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, atomic::AtomicUsize, atomic::Ordering},
};

use async_trait::async_trait;
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, pending},
};
use time::{OffsetDateTime, macros::datetime};
use tokio::time::Instant;

use super::*;
use crate::{
    delivery::{Delivery, DeliveryId, LEASE, MAX_AGE, Notification},
    order::OrderId,
    ports::{
        Begun, Lease, MockClock, MockDeliveryQueue, Notice, Notifier, NotifyError, Settlement,
        error_chain,
    },
    test_support::{CountingEntropy, delivery, no_services, stored_order},
    use_cases::deliveries::run_deliveries::{
        DeliveryOutcome, MailDeliveries, MailReport, RunDeliveries,
    },
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
    Lease { delivery, token: 3 }
}

fn begun(&(id, _): &(DeliveryId, OffsetDateTime)) -> Begun {
    Begun { id, mail_of_hour: None, sequence: Some(0) }
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
    queue.expect_begin().returning(|mails, _, _| Ok(mails.iter().map(begun).collect()));
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
    waiting: usize,
    calls: Arc<AtomicUsize>,
}

#[async_trait]
impl Notifier for Replies {
    async fn notify(&self, mail: &Notification) -> Result<(), NotifyError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        (self.reply)(mail.message_key.parse().unwrap()).await
    }

    async fn tell(&self, _: &Notice) -> Result<(), NotifyError> {
        Ok(())
    }

    fn waiting(&self) -> usize {
        self.waiting
    }

    async fn check(&self) -> Result<(), NotifyError> {
        Ok(())
    }
}

type MailWorker = DeliveryWorker<MailDeliveries>;

/// Returns a worker, and the count of its attempts.
fn worker(
    queue: MockDeliveryQueue,
    slots: usize,
    reply: impl Fn(i64) -> BoxFuture<'static, Result<(), NotifyError>> + Send + Sync + 'static,
) -> (MailWorker, Arc<AtomicUsize>) {
    let calls = Arc::<AtomicUsize>::default();
    let replies = Replies { reply: Box::new(reply), waiting: 0, calls: Arc::clone(&calls) };
    (worker_of(queue, slots, replies), calls)
}

fn worker_of(queue: MockDeliveryQueue, slots: usize, notifier: Replies) -> MailWorker {
    let (mut clock, began) = (MockClock::new(), Instant::now());
    clock.expect_now().returning(move || NOW + began.elapsed());
    clock.expect_now_to_lease().returning(move || Some(NOW + began.elapsed()));
    clock.expect_now_to_erase().returning(move || Some(NOW + began.elapsed()));
    clock.expect_monotonic().returning(move || began.elapsed().try_into().unwrap());
    let run = RunDeliveries {
        queue: Arc::new(queue),
        services: Arc::new(no_services()),
        notifier: Arc::new(notifier),
        clock: Arc::new(clock),
        entropy: Arc::new(CountingEntropy::default()),
        mails_per_recipient_hour: 0,
    };
    DeliveryWorker::new(MailDeliveries::new(run, slots), sleep)
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

/// Makes a step, and waits for the next one.
async fn step(worker: &mut MailWorker) -> DeliveryStep<MailReport> {
    let step = worker.step().await;
    worker.wait().await;
    step
}

/// Steps until so many deliveries are settled. Returns their numbers and outcomes.
async fn settled(worker: &mut MailWorker, count: usize) -> Vec<(i64, DeliveryOutcome)> {
    let mut settled = Vec::new();
    while settled.len() < count {
        settled.extend(step(worker).await.reports.into_iter().filter_map(|report| match report {
            MailReport::Attempt(report) => Some((report.id.0, report.outcome)),
            _ => None,
        }));
    }
    settled
}

fn numbers(settled: &[(i64, DeliveryOutcome)]) -> Vec<i64> {
    let mut numbers: Vec<i64> = settled.iter().map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    numbers
}

/// Steps for this time. Returns the beginnings and ends of outages.
async fn outages(worker: &mut MailWorker, time: Duration) -> Vec<MailReport> {
    let (began, mut outages) = (Instant::now(), Vec::new());
    while began.elapsed() < time {
        let reports = step(worker).await.reports.into_iter();
        outages.extend(reports.filter(|report| !matches!(report, MailReport::Attempt(_))));
    }
    outages
}

/// Steps until the queue fails. Returns the failure.
async fn failure(worker: &mut MailWorker) -> DeliveryFailure {
    loop {
        if let Some(failure) = step(worker).await.failure {
            return failure;
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
    assert_eq!(numbers(&settled(&mut worker(queue, SLOTS, reply).0, 3).await), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn slow_mails_hold_up_no_other() {
    let (mut queue, limits) = queue_to(100);
    queue.expect_renew().returning(|_, _| Ok(()));
    let slow = |number| if number < 8 { pending().boxed() } else { after(1, Ok(())) };
    let done = settled(&mut worker(settling(queue), SLOTS, slow).0, 93).await;
    assert_eq!(numbers(&done), (8..=100).collect::<Vec<_>>());
    // All slots, and then the one that becomes free.
    assert_eq!(limits.lock().unwrap()[..4], [8, 1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn mails_that_wait_for_a_slow_relay_take_no_slot() {
    let (queue, limits) = queue_to(0);
    let reply = Box::new(|_| pending().boxed());
    let replies = Replies { reply, waiting: 5, calls: Arc::default() };
    step(&mut worker_of(queue, SLOTS, replies)).await;
    assert_eq!(*limits.lock().unwrap(), [SLOTS + 5]);
}

#[tokio::test(start_paused = true)]
async fn long_attempt_renews_its_lease() {
    let (mut queue, _) = queue_to(1);
    let renewed = Arc::new(Mutex::new(Vec::new()));
    let renewals = Arc::clone(&renewed);
    queue.expect_renew().returning(move |leases, until| {
        assert_eq!(leases, [(DeliveryId(1), 3)]);
        renewals.lock().unwrap().push(until);
        Ok(())
    });
    let (mut worker, _) = worker(settling(queue), SLOTS, |_| after(600, Ok(())));
    settled(&mut worker, 1).await;
    let renewed = renewed.lock().unwrap();
    assert!((50..=60).contains(&renewed.len()), "{}", renewed.len());
    assert!(renewed.last().unwrap() > &(NOW + Duration::from_secs(600)));
    // The lease before each renewal was still held.
    assert!(renewed.windows(2).all(|pair| pair[1] - pair[0] < LEASE));
}

#[tokio::test(start_paused = true)]
async fn many_mails_go_at_the_pace_of_the_relay() {
    for slots in [1, SLOTS] {
        let (queue, limits) = queue_to(80);
        let began = Instant::now();
        settled(&mut worker(settling(queue), slots, |_| after(1, Ok(()))).0, 80).await;
        let ideal = Duration::from_secs(80) / u32::try_from(slots).unwrap();
        assert!(began.elapsed() < ideal * 11 / 10, "{slots}: {:?}", began.elapsed());
        assert!(limits.lock().unwrap().iter().all(|&limit| limit <= slots));
    }
}

#[tokio::test(start_paused = true)]
async fn failed_lease_is_reported_and_retried_after_a_pause() {
    let mut queue = MockDeliveryQueue::new();
    queue.expect_lease().times(2).returning(|_, _, _| no_database());
    let (mut worker, _) = worker(queue, SLOTS, |_| pending().boxed());
    let began = Instant::now();
    for _ in 0..2 {
        let failure = failure(&mut worker).await;
        assert!(matches!(&failure, DeliveryFailure::Lease(StoreError::Unavailable(_))));
    }
    assert_eq!(began.elapsed(), OUTAGE_PAUSE * 2);
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
    let (mut worker, calls) = worker(queue, SLOTS, |_| after(0, Ok(())));
    for _ in 0..2 {
        let failure = failure(&mut worker).await;
        assert!(matches!(failure, DeliveryFailure::Settle { deliveries: SLOTS, .. }));
    }
    assert_eq!(limits.lock().unwrap().len(), 1);
    assert_eq!(numbers(&settled(&mut worker, 20).await), (1..=20).collect::<Vec<_>>());
    assert_eq!(calls.load(Ordering::Relaxed), 20);
}

/// Each outcome takes a statement, and a call has a time limit.
#[tokio::test(start_paused = true)]
async fn outcomes_that_take_too_long_together_are_stored_in_parts() {
    let (mut queue, _) = queue_to(20);
    queue.expect_settle().returning(|batch| {
        if batch.len() > 3 {
            return no_database();
        }
        Ok(batch.iter().map(|one| one.id).collect())
    });
    let (mut worker, calls) = worker(queue, SLOTS, |_| after(0, Ok(())));
    let mut stored = Vec::new();
    while stored.len() < 20 {
        stored.extend(worker.step().await.reports);
        worker.wait().await;
    }
    assert_eq!(calls.load(Ordering::Relaxed), 20);
}

#[tokio::test(start_paused = true)]
async fn lost_lease_is_reported() {
    let (mut queue, _) = queue_to(1);
    queue.expect_settle().once().returning(|_| Ok(Vec::new()));
    let (mut worker, _) = worker(queue, SLOTS, |_| after(0, Ok(())));
    assert_eq!(settled(&mut worker, 1).await, [(1, DeliveryOutcome::LeaseLost)]);
}

#[tokio::test(start_paused = true)]
async fn relay_that_is_down_gets_one_mail_at_a_time_until_it_is_back() {
    let (queue, limits) = queue_to(100);
    let down_until = Instant::now() + Duration::from_secs(10);
    let (mut worker, calls) = worker(settling(queue), SLOTS, move |_| {
        let is_down = Instant::now() < down_until;
        after(0, if is_down { Err(relay_is_down()) } else { Ok(()) })
    });
    let began = MailReport::OutageBegan(error_chain(&relay_is_down()));
    assert_eq!(outages(&mut worker, Duration::from_secs(9)).await, [began]);
    // The first mails, and then one a second.
    let before = calls.load(Ordering::Relaxed);
    assert!(before <= SLOTS + 10, "{before}");
    assert!(limits.lock().unwrap()[2..].iter().all(|&limit| limit == 1));
    assert_eq!(outages(&mut worker, Duration::from_secs(4)).await, [MailReport::OutageEnded]);
    assert_eq!(calls.load(Ordering::Relaxed), 100);
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
    queue.expect_begin().returning(|mails, _, _| Ok(mails.iter().map(begun).collect()));
    queue.expect_orders().returning(|ids| {
        let there = ids.iter().filter(|&&id| id != NO_ORDER);
        Ok(there.map(|&id| (id, Ok(stored_order(NOW)))).collect())
    });
    let (mut worker, calls) = worker(settling(queue), SLOTS, |_| after(0, Err(relay_is_down())));
    let began = MailReport::OutageBegan(error_chain(&relay_is_down()));
    assert_eq!(outages(&mut worker, Duration::from_secs(12)).await, [began]);
    let calls = calls.load(Ordering::Relaxed);
    assert!(calls <= SLOTS + 12, "{calls}");
}

#[tokio::test(start_paused = true)]
async fn mail_postponed_beside_delivered_ones_is_no_outage() {
    // The relay takes three mails at a time.
    let (queue, _) = queue_to(200);
    let taken = Arc::<AtomicUsize>::default();
    let (mut worker, calls) = worker(settling(queue), SLOTS, move |_| {
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
    assert_eq!(outages(&mut worker, Duration::from_secs(25)).await, []);
    let calls = calls.load(Ordering::Relaxed);
    assert!((60..130).contains(&calls), "{calls} attempts");
}

#[tokio::test(start_paused = true)]
async fn stop_finishes_attempts_and_leases_no_more() {
    let (queue, limits) = queue_to(20);
    let (mut worker, _) = worker(settling(queue), SLOTS, |_| after(1, Ok(())));
    worker.step().await;
    worker.stop();
    settled(&mut worker, SLOTS).await;
    assert!(worker.is_done());
    assert_eq!(limits.lock().unwrap()[..], [SLOTS]);
}

/// The notifier gives them up, so that the stop need not wait for a silent relay.
#[tokio::test(start_paused = true)]
async fn mails_given_up_at_a_stop_are_postponed_and_show_no_outage() {
    let (queue, _) = queue_to(2);
    let (mut worker, _) = worker(settling(queue), SLOTS, |_| after(1, Err(relay_is_down())));
    worker.step().await;
    worker.stop();
    let mut settled = 0;
    while !worker.is_done() {
        for report in step(&mut worker).await.reports {
            let MailReport::Attempt(report) = report else { panic!("an outage: {report:?}") };
            let is_postponed =
                matches!(report.outcome, DeliveryOutcome::Settled(Settlement::Postpone { .. }));
            assert!(is_postponed, "{report:?}");
            settled += 1;
        }
    }
    assert_eq!(settled, 2);
}

#[tokio::test(start_paused = true)]
async fn stop_waits_until_outcomes_are_stored() {
    let (mut queue, _) = queue_to(1);
    let mut is_failing = true;
    queue.expect_settle().times(2).returning(move |batch| {
        if std::mem::take(&mut is_failing) {
            return no_database();
        }
        Ok(batch.iter().map(|one| one.id).collect())
    });
    let (mut worker, _) = worker(queue, SLOTS, |_| after(1, Ok(())));
    worker.step().await;
    worker.stop();
    assert!(matches!(failure(&mut worker).await, DeliveryFailure::Settle { deliveries: 1, .. }));
    assert!(!worker.is_done());
    settled(&mut worker, 1).await;
    assert!(worker.is_done());
}
