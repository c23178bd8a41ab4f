//! Clients that create orders without a pause and repeat requests that got no response.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc, Mutex, OnceLock, RwLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use fastrand::Rng;
use reqwest::{Client, RequestBuilder, StatusCode, multipart::Form};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::{
    faults::crash::steps::Step,
    harness::{Api, CREATE, CREATE_WITH_DOCUMENTS, PATIENCE, client, file, form, order},
};

/// An order whose content follows from its number, so that the audit can check it.
#[derive(Debug, Clone, Copy)]
pub struct TestOrder(pub usize);

impl TestOrder {
    pub fn file_number(self) -> String {
        format!("F-{}", self.0)
    }

    /// Returns the address that gets the mails of the order.
    pub fn contact(self) -> String {
        format!("contact-{}@title.example.com", self.0)
    }

    /// Returns the documents: none for odd numbers, otherwise one to four.
    pub fn documents(self) -> Vec<Vec<u8>> {
        let count = if self.0.is_multiple_of(2) { self.0 / 2 % 4 + 1 } else { 0 };
        (0..count).map(|position| self.document(position)).collect()
    }

    /// Returns a document that no other has: the positions are below ten.
    pub fn document(self, position: usize) -> Vec<u8> {
        let mut random = Rng::with_seed((self.0 * 10 + position) as u64);
        let mut content = b"%PDF-1.7\n".to_vec();
        content.extend((0..random.usize(1_000..60_000)).map(|_| random.u8(..)));
        content.extend_from_slice(b"\n%%EOF\n");
        content
    }

    /// Returns the notary that the signing service assigns.
    pub fn notary(self) -> usize {
        self.0 + 1
    }

    /// Returns an idempotency key for two of three orders.
    fn idempotency_key(self) -> Option<String> {
        (!self.0.is_multiple_of(3)).then(|| format!("crash-{:020}", self.0))
    }

    fn request(self, service: &Api) -> RequestBuilder {
        let mut order = order(&self.file_number());
        order["signingContactsFormData"]["orderContactEmail"] = self.contact().into();
        let documents = self.documents();
        let request = if documents.is_empty() {
            service.post(CREATE).json(&order)
        } else {
            let add = |form: Form, (at, document)| {
                form.part("documents", file(&format!("{at}.pdf"), document))
            };
            let form = documents.into_iter().enumerate().fold(form(&order), add);
            service.post(CREATE_WITH_DOCUMENTS).multipart(form)
        };
        let request = request.timeout(Duration::from_secs(60));
        match self.idempotency_key() {
            Some(key) => request.header("Idempotency-Key", key),
            None => request,
        }
    }
}

/// The responses of all clients, and the service that the clients use.
#[derive(Default)]
pub struct Responses {
    service: RwLock<Option<Api>>,
    /// With the key of the signing service, both sides also work on orders.
    pub service_key: OnceLock<String>,
    next: AtomicUsize,
    stopped: AtomicBool,
    acknowledged: Mutex<BTreeMap<usize, i64>>,
    /// Orders whose repeat was rejected as a duplicate, so that they must exist.
    duplicates: Mutex<BTreeSet<usize>>,
    /// Orders of which no response tells whether they were created.
    unknown: Mutex<BTreeSet<usize>>,
    /// How many steps of orders were acknowledged, by their numbers.
    steps: Mutex<BTreeMap<usize, usize>>,
    without_response: AtomicUsize,
    unavailable: AtomicUsize,
}

impl Responses {
    pub fn set_service(&self, service: &Api) {
        *self.service.write().unwrap() = Some(service.clone());
    }

    pub fn service(&self) -> Api {
        self.service.read().unwrap().clone().unwrap()
    }

    /// Returns the numbers of requests without a response, and with 503 or 408.
    pub fn failures(&self) -> [usize; 2] {
        [&self.without_response, &self.unavailable].map(|count| count.load(Ordering::Relaxed))
    }

    /// Returns the identifier of each acknowledged order by its number.
    pub fn acknowledged(&self) -> BTreeMap<usize, i64> {
        self.acknowledged.lock().unwrap().clone()
    }

    /// Returns the acknowledged steps of an order.
    pub fn steps(&self, order: TestOrder) -> Vec<Step> {
        let count = self.steps.lock().unwrap().get(&order.0).copied().unwrap_or_default();
        order.steps().into_iter().take(count).collect()
    }

    /// Returns the number of all acknowledged steps.
    pub fn step_count(&self) -> usize {
        self.steps.lock().unwrap().values().sum()
    }

    /// Returns the number of orders that the clients requested.
    pub fn requested(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }

    /// Returns whether a response shows that an order was created.
    pub fn is_created(&self, number: usize) -> bool {
        self.acknowledged.lock().unwrap().contains_key(&number)
            || self.duplicates.lock().unwrap().contains(&number)
    }

    /// Repeats the requests with an unknown result until each result is known.
    pub async fn settle(&self) {
        let (client, unknown) = (client(), std::mem::take(&mut *self.unknown.lock().unwrap()));
        for number in unknown {
            let deadline = Instant::now() + PATIENCE;
            while self.send(&client, TestOrder(number), false).await != Outcome::Created {
                assert!(Instant::now() < deadline, "order {number} gets no response");
            }
        }
        for number in self.acknowledged().into_keys() {
            let deadline = Instant::now() + PATIENCE;
            while !self.go_on(&client, TestOrder(number)).await {
                assert!(Instant::now() < deadline, "steps of {number} get no response");
            }
        }
    }

    /// Makes the steps of an acknowledged order that are not acknowledged yet. Returns whether none is
    /// left.
    async fn go_on(&self, client: &Client, order: TestOrder) -> bool {
        let Some(service_key) = self.service_key.get() else { return true };
        let Some(id) = self.acknowledged().get(&order.0).copied() else { return true };
        let done = self.steps(order).len();
        for step in order.steps().into_iter().skip(done) {
            let api = Api { client: client.clone(), ..self.service() };
            let request = order.step(step, id, &api, service_key);
            let Ok(response) = request.send().await else { return false };
            let (status, body) = (response.status(), response.text().await.unwrap_or_default());
            if status != step.success() {
                let is_in_progress =
                    status == StatusCode::CONFLICT && body.contains("idempotency_in_flight");
                let is_to_repeat = is_in_progress || is_too_busy(status);
                assert!(is_to_repeat, "{step:?} of {order:?}: {status} {body}");
                return false;
            }
            *self.steps.lock().unwrap().entry(order.0).or_default() += 1;
        }
        true
    }

    async fn send(&self, client: &Client, order: TestOrder, is_first: bool) -> Outcome {
        let service = Api { client: client.clone(), ..self.service() };
        let response = async {
            let response = order.request(&service).send().await?;
            let status = response.status();
            let body = response.bytes().await?;
            let body = serde_json::from_slice::<Value>(&body);
            Ok::<_, reqwest::Error>((status, body.unwrap_or_default()))
        };
        let Ok((status, body)) = response.await else {
            self.without_response.fetch_add(1, Ordering::Relaxed);
            return Outcome::Unknown;
        };
        match (status, body["code"].as_str()) {
            (StatusCode::CREATED, _) => {
                let id = body["order_id"].as_i64().unwrap();
                assert_eq!(body["file_number"], order.file_number());
                let before = self.acknowledged.lock().unwrap().insert(order.0, id);
                assert!(
                    before.is_none_or(|before| before == id),
                    "{order:?} was acknowledged as {before:?} and {id}"
                );
                Outcome::Created
            }
            (StatusCode::CONFLICT, Some("duplicate_order")) if !is_first => {
                self.duplicates.lock().unwrap().insert(order.0);
                Outcome::Created
            }
            (StatusCode::CONFLICT, Some("idempotency_in_flight")) if !is_first => {
                Outcome::InProgress
            }
            _ if is_too_busy(status) => {
                self.unavailable.fetch_add(1, Ordering::Relaxed);
                Outcome::Unknown
            }
            _ => panic!("{order:?}, first {is_first}: {status} {body}"),
        }
    }
}

/// Returns whether the machine was too busy: also 408, because the client was too slow.
fn is_too_busy(status: StatusCode) -> bool {
    [StatusCode::SERVICE_UNAVAILABLE, StatusCode::REQUEST_TIMEOUT].contains(&status)
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Created,
    Unknown,
    /// The key still belongs to the request of the killed process.
    InProgress,
}

impl fmt::Display for Responses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [without_response, unavailable] = self.failures();
        let steps = self.step_count();
        let (acknowledged, duplicates) =
            (self.acknowledged.lock().unwrap().len(), self.duplicates.lock().unwrap().len());
        write!(
            formatter,
            "{} orders requested: {acknowledged} acknowledged, {duplicates} found as duplicates, \
             {steps} steps; {without_response} requests without a response, {unavailable} with 503 or 408",
            self.requested()
        )
    }
}

/// Starts clients that create orders until they are stopped.
pub fn start_clients(responses: &Arc<Responses>, count: usize) -> Vec<JoinHandle<()>> {
    (0..count).map(|_| tokio::spawn(create_orders(Arc::clone(responses)))).collect()
}

pub async fn stop_clients(responses: &Responses, clients: Vec<JoinHandle<()>>) {
    responses.stopped.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
}

async fn create_orders(responses: Arc<Responses>) {
    let client = client();
    let mut unfinished = Vec::new();
    while !responses.stopped.load(Ordering::Relaxed) {
        let order = TestOrder(responses.next.fetch_add(1, Ordering::Relaxed));
        let mut is_first = true;
        loop {
            let outcome = responses.send(&client, order, is_first).await;
            if outcome == Outcome::Created {
                unfinished.push(order);
                break;
            }
            if outcome == Outcome::InProgress || responses.stopped.load(Ordering::Relaxed) {
                responses.unknown.lock().unwrap().insert(order.0);
                break;
            }
            is_first = false;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        for order in std::mem::take(&mut unfinished) {
            if !responses.go_on(&client, order).await {
                unfinished.push(order);
            }
        }
    }
}
