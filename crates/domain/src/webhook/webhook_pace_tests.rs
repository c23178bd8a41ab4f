use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{FutureExt as _, future::pending};
use time::macros::datetime;
use tokio::time::Instant;

use super::*;
use crate::{
    api_key::{ClientId, Party},
    delivery::{slots::DeliverySlots, worker::DeliveryWorker},
    ports::{
        MockClock, MockDeliveryQueue, MockSecretBox, MockWebhookQueue, SealedSecrets, UrlRefused,
    },
    test_support::{CountingEntropy, webhook_delivery},
    webhook::secret::WebhookSecret,
};

const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

/// Answers each URL after its time; `None` never.
struct Receivers {
    answer: fn(&str) -> Option<(u64, u16)>,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

#[async_trait]
impl WebhookSender for Receivers {
    async fn check(&self, _: Party, _: &str) -> Result<(), UrlRefused> {
        Ok(())
    }

    async fn send(&self, request: &WebhookRequest) -> Result<WebhookAnswer, WebhookError> {
        let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(running, Ordering::Relaxed);
        let Some((millis, status)) = (self.answer)(&request.url) else { return pending().await };
        tokio::time::sleep(Duration::from_millis(millis)).await;
        self.running.fetch_sub(1, Ordering::Relaxed);
        Ok(WebhookAnswer { status, retry_after: None })
    }
}

/// The deliveries that wait, by endpoint, and the rules of the port.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Vec<(i64, EndpointId)>>,
    proven: Mutex<Vec<EndpointId>>,
    asked: Mutex<Vec<WebhookSlots>>,
}

impl Queue {
    fn lease(&self, slots: &WebhookSlots) -> Vec<WebhookLease> {
        self.asked.lock().unwrap().push(slots.clone());
        let proven = self.proven.lock().unwrap();
        let mut taken: HashMap<EndpointId, usize> = HashMap::new();
        let (mut leases, mut slots) = (Vec::new(), slots.clone());
        self.waiting.lock().unwrap().retain(|&(number, endpoint)| {
            let is_proven = proven.contains(&endpoint);
            let busy = slots.busy.iter().find(|(id, _)| *id == endpoint).map(|(_, free)| *free);
            let free = match (is_proven, busy) {
                (true, free) => free.unwrap_or(slots.per_endpoint),
                (false, Some(_)) => 0,
                (false, None) => 1,
            };
            let own = slots.busy_parties.get(&client(endpoint)).copied().unwrap_or_default();
            let taken = taken.entry(endpoint).or_default();
            if *taken == free || !slots.has_room(own, is_proven) {
                return true;
            }
            *taken += 1;
            slots.busy_parties.entry(client(endpoint)).or_default().add(1, is_proven);
            slots.limit -= 1;
            slots.unproven -= usize::from(!is_proven);
            leases.push(lease(number, endpoint, is_proven));
            false
        });
        leases
    }
}

/// Each client has ten endpoints.
fn client(endpoint: EndpointId) -> Party {
    Party::Client(ClientId(endpoint.0 / 10))
}

/// Endpoints from 100 are slow or hang, and the first three webhooks of the endpoint 60.
fn lease(number: i64, endpoint: EndpointId, is_proven: bool) -> WebhookLease {
    let id = WebhookDeliveryId(number);
    let is_fast = endpoint.0 < 100 && (endpoint.0 != 60 || number > 3);
    let test = (EventType::Test, None);
    let (event, order_id) = test;
    WebhookLease {
        delivery: WebhookDelivery { id, endpoint, event, order_id, ..webhook_delivery(NOW) },
        token: 3,
        party: client(endpoint),
        url: if is_fast { "fast".to_owned() } else { "slow".to_owned() },
        secrets: SealedSecrets { current: vec![1], previous: None },
        is_proven,
    }
}

struct Setup {
    worker: DeliveryWorker<WebhookDeliveries>,
    queue: Arc<Queue>,
    most: Arc<AtomicUsize>,
}

fn setup(
    waiting: impl IntoIterator<Item = i64>,
    proven: impl IntoIterator<Item = i64>,
    answer: fn(&str) -> Option<(u64, u16)>,
) -> Setup {
    let waiting = (1..).zip(waiting.into_iter().map(EndpointId)).collect();
    let proven = proven.into_iter().map(EndpointId).collect();
    let state = Arc::new(Queue {
        waiting: Mutex::new(waiting),
        proven: Mutex::new(proven),
        asked: Mutex::default(),
    });
    let mut queue = MockWebhookQueue::new();
    let leasing = Arc::clone(&state);
    queue.expect_lease().returning(move |_, _, slots| Ok(leasing.lease(slots)));
    let settling = Arc::clone(&state);
    queue.expect_settle().returning(move |batch| {
        for one in batch {
            let mut proven = settling.proven.lock().unwrap();
            match one.effect {
                EndpointEffect::Succeeded => proven.push(one.endpoint),
                _ => proven.retain(|endpoint| *endpoint != one.endpoint),
            }
        }
        Ok(WebhooksSettled { held: batch.iter().map(|one| one.id).collect(), disabled: vec![] })
    });
    let mut secrets = MockSecretBox::new();
    secrets.expect_open().returning(|_, _| Ok(WebhookSecret::from([1; 32])));
    let most = Arc::<AtomicUsize>::default();
    let (began, mut clock) = (Instant::now(), MockClock::new());
    clock.expect_now().returning(move || NOW + began.elapsed());
    let webhooks = RunWebhooks {
        queue: Arc::new(queue),
        orders: Arc::new(MockDeliveryQueue::new()),
        sender: Arc::new(Receivers { answer, running: Arc::default(), most: most.clone() }),
        secrets: Some(Arc::new(secrets)),
        clock: Arc::new(clock),
        entropy: Arc::new(CountingEntropy::default()),
    };
    let slots = Arc::new(DeliverySlots::new(64));
    let webhooks = WebhookDeliveries::new(webhooks, slots.share());
    let worker = DeliveryWorker::new(webhooks, slots, |pause| tokio::time::sleep(pause).boxed());
    Setup { worker, queue: state, most }
}

/// Steps until so many deliveries succeeded.
async fn deliver(worker: &mut DeliveryWorker<WebhookDeliveries>, mut count: usize) {
    while count > 0 {
        let reports = worker.step().await.reports.into_iter();
        let is_done = |report: &WebhooksReport| match report {
            WebhooksReport::Attempt(report) => {
                report.outcome == DeliveryOutcome::Settled(Settlement::Done)
            }
            WebhooksReport::Gone(_) => false,
        };
        count = count.saturating_sub(reports.filter(is_done).count());
        worker.wait().await;
    }
}

#[tokio::test(start_paused = true)]
async fn endpoint_has_four_attempts_in_progress_at_most() {
    let Setup { mut worker, most, .. } = setup([1; 200], [1], |_| Some((100, 200)));
    let began = Instant::now();
    deliver(&mut worker, 200).await;
    assert_eq!(most.load(Ordering::Relaxed), 4);
    // 50 rounds of 100 ms, each with a short pause, and a long one at the end.
    assert!(began.elapsed() < Duration::from_millis(6_500), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn unproven_or_slow_endpoint_gets_one_attempt_at_a_time() {
    let answers: [fn(&str) -> _; 2] = [|_| Some((1_000, 500)), |_| Some((13_000, 200))];
    for answer in answers {
        let Setup { mut worker, most, .. } = setup([1; 8], [], answer);
        for _ in 0..100 {
            worker.step().await;
            worker.wait().await;
        }
        assert_eq!(most.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn slow_endpoints_hold_up_no_other_client() {
    // All work; the 20 endpoints of two clients are slow now.
    let waiting = (0..30).flat_map(|_| (100..120).chain(1..=5));
    let answer = |url: &str| Some(if url == "fast" { (5, 200) } else { (13_000, 200) });
    let Setup { mut worker, queue, .. } = setup(waiting, (100..120).chain(1..=5), answer);
    let began = Instant::now();
    deliver(&mut worker, 150).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let asked = queue.asked.lock().unwrap();
    assert!(asked.iter().all(|slots| slots.per_party == 12));
}

/// Ten clients, with endpoints that were called before and that were not.
#[tokio::test(start_paused = true)]
async fn clients_whose_endpoints_hang_leave_slots_to_others() {
    for proven in [100..200, 0..0] {
        let waiting = (0..30).flat_map(|_| 100..200);
        let answer = |url: &str| (url == "fast").then_some((5, 200));
        let Setup { mut worker, queue, .. } = setup(waiting, proven.chain([1]), answer);
        for _ in 0..20 {
            worker.step().await;
            worker.wait().await;
        }
        queue.waiting.lock().unwrap().extend([(1, EndpointId(1)), (2, EndpointId(20))]);
        let began = Instant::now();
        deliver(&mut worker, 2).await;
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn webhooks_behind_three_that_hang_take_the_fourth_slot() {
    let answer = |url: &str| (url == "fast").then_some((5, 200));
    let Setup { mut worker, .. } = setup([60; 12], [60], answer);
    let began = Instant::now();
    deliver(&mut worker, 9).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_hang_hold_up_no_others() {
    // 50 endpoints hang, and 50 work; none of them was called before.
    let waiting: Vec<i64> = (0..10).flat_map(|_| (1..=50).chain(101..=150)).collect();
    let Setup { mut worker, queue, .. } = setup(waiting, 1..=25, |url| match url {
        "fast" => Some((5, 200)),
        _ => None,
    });
    let began = Instant::now();
    // All of those that are known to work, although hanging ones take all other slots.
    deliver(&mut worker, 250).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let asked = queue.asked.lock().unwrap();
    let hanging = |slots: &WebhookSlots| slots.busy.iter().filter(|(id, _)| id.0 > 100).count();
    assert!(asked.iter().all(|slots| slots.limit <= 48 && hanging(slots) <= 40));
}
