//! The pace of webhooks: the worker of the domain over the store, and receivers of which some hang.

use std::{
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use domain::{
    api_key::{ClientId, Owner, Party},
    delivery::{Mails, Settling},
    ports::{
        Clock, Entropy, NewEndpoint, NewOrder, SecretBox, Unreadable, UrlRefused, WebhookAnswer,
        WebhookError, WebhookRequest, WebhookSender,
    },
    use_cases::{
        background::Worker as _,
        deliveries::{dispatch_events::DispatchEvents, worker::DeliveryWorker},
        webhooks::run_webhooks::{RunWebhooks, WebhookDeliveries},
    },
    webhook::secret::WebhookSecret,
};
use futures_util::{FutureExt as _, future::pending};
use time::OffsetDateTime;
use tokio::time::{Instant, timeout};

use crate::samples::{NOW, Storage, new_endpoint, new_order};

/// How much slower the clock of the worker is than that of the machine: no lease ends early on a busy one.
const SLOWER: u32 = 12;

/// Shorter than a lease by the clock of the worker, so nothing that comes has waited for the end of one.
const LIMIT: Duration = Duration::from_secs(25 * 12);

const HANGS: &str = "https://hangs.example";
const WORKS: &str = "https://works.example";

/// Answers, or never.
struct Receivers {
    /// The webhooks that were answered.
    came: AtomicUsize,
    hanging: Mutex<Vec<Party>>,
}

#[async_trait]
impl WebhookSender for Receivers {
    async fn check(&self, _: Party, _: &str) -> Result<(), UrlRefused> {
        Ok(())
    }

    async fn send(&self, request: &WebhookRequest) -> Result<WebhookAnswer, WebhookError> {
        if request.url == HANGS {
            self.hanging.lock().unwrap().push(request.party);
            return pending().await;
        }
        self.came.fetch_add(1, Ordering::Relaxed);
        Ok(WebhookAnswer { status: 200, retry_after: None })
    }
}

struct Machine(Instant);

impl Machine {
    fn elapsed(&self) -> Duration {
        self.0.elapsed() / SLOWER
    }
}

impl Clock for Machine {
    fn now(&self) -> OffsetDateTime {
        NOW + self.elapsed()
    }

    fn monotonic(&self) -> time::Duration {
        self.elapsed().try_into().unwrap()
    }
}

impl Entropy for Machine {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

impl SecretBox for Machine {
    fn seal(&self, _: &WebhookSecret, _: &str) -> Vec<u8> {
        vec![1]
    }

    fn open(&self, _: &[u8], _: &str) -> Result<WebhookSecret, Unreadable> {
        Ok(WebhookSecret::from([1; 32]))
    }

    fn key_of(&self, _: &[u8], _: &str) -> Result<usize, Unreadable> {
        Ok(0)
    }
}

/// Returns the worker, and its receivers.
fn worker(storage: &Storage, slots: usize) -> (DeliveryWorker<WebhookDeliveries>, Arc<Receivers>) {
    let receivers = Arc::new(Receivers { came: AtomicUsize::new(0), hanging: Mutex::default() });
    let machine = Arc::new(Machine(Instant::now()));
    let run = RunWebhooks {
        queue: storage.webhook_queue.clone(),
        orders: storage.queue.clone(),
        sender: receivers.clone(),
        secrets: Some(machine.clone()),
        clock: machine.clone(),
        entropy: machine,
    };
    let webhooks = WebhookDeliveries::new(run, slots);
    let worker = DeliveryWorker::new(webhooks, |pause| tokio::time::sleep(pause).boxed());
    (worker, receivers)
}

/// Adds endpoints of clients from 1 on.
async fn add_endpoints(storage: &Storage, clients: i64, urls: &[(&str, usize)]) {
    for client in 1..=clients {
        let owner = Owner::client(ClientId(client), false);
        for &(url, count) in urls {
            for _ in 0..count {
                let new = NewEndpoint { url: url.to_owned(), ..new_endpoint(owner) };
                storage.webhooks.add(&new, 100).await.unwrap().unwrap();
            }
        }
    }
}

/// Creates orders of clients from 1 on, and dispatches their events.
async fn create_orders(storage: &Storage, clients: i64, numbers: Range<usize>) {
    for client in 1..=clients {
        for number in numbers.clone() {
            let order = new_order(&format!("F-{client}-{number}"), NOW);
            storage.create(&NewOrder { client: ClientId(client), ..order }).await;
        }
    }
    let machine = Arc::new(Machine(Instant::now()));
    let mut dispatch = DispatchEvents {
        outbox: storage.outbox.clone(),
        queue: storage.queue.clone(),
        services: storage.services.clone(),
        endpoints: storage.webhooks.clone(),
        clock: machine.clone(),
        entropy: machine,
        mails: Mails::Full,
        settling: Settling::NONE,
    };
    while !dispatch.step().await.result.unwrap().events.is_empty() {}
}

/// Steps until so many webhooks were answered. Those that hang would end later.
async fn deliver(
    worker: &mut DeliveryWorker<WebhookDeliveries>,
    receivers: &Receivers,
    count: usize,
) {
    let work = async {
        while receivers.came.load(Ordering::Relaxed) < count {
            let step = worker.step().await;
            assert!(step.failure.is_none(), "{:?}", step.failure);
            worker.wait().await;
        }
    };
    timeout(LIMIT, work).await.unwrap();
}

/// None of them was called before.
pub async fn hanging_endpoints_hold_up_no_others_of_their_owners(storage: &Storage) {
    add_endpoints(storage, 10, &[(HANGS, 5), (WORKS, 5)]).await;
    create_orders(storage, 10, 0..8).await;
    let (mut worker, receivers) = worker(storage, 1_024);
    deliver(&mut worker, &receivers, 400).await;
    let hanging = receivers.hanging.lock().unwrap();
    assert_eq!(hanging.len(), 50, "each that hangs has one attempt");
}

/// However many of them there are: a quarter of the slots is for those that work.
pub async fn hanging_endpoints_leave_slots_to_those_that_work(storage: &Storage) {
    add_endpoints(storage, 4, &[(WORKS, 1)]).await;
    create_orders(storage, 4, 0..1).await;
    let (mut first, receivers) = worker(storage, 8);
    deliver(&mut first, &receivers, 4).await;
    // Stores the last outcomes.
    first.step().await;
    add_endpoints(storage, 4, &[(HANGS, 5)]).await;
    create_orders(storage, 4, 1..6).await;
    let (mut second, receivers) = worker(storage, 8);
    deliver(&mut second, &receivers, 20).await;
    assert_eq!(receivers.hanging.lock().unwrap().len(), 6);
}
