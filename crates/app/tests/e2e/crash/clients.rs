//! Clients that order without a pause, and repeat what they got no answer to.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Mutex, OnceLock, RwLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use fastrand::Rng;
use reqwest::{Client, StatusCode};
use serde_json::Value;

use crate::harness::{CREATE, CREATE_WITH_DOCUMENTS, client, file, form, order};

/// An order that a client wants. All of it follows from its number, so that it can be told whether
/// it was kept whole.
#[derive(Debug, Clone, Copy)]
pub struct Wanted(pub usize);

impl Wanted {
    pub fn file_number(self) -> String {
        format!("F-{}", self.0)
    }

    /// Who gets the one mail of it.
    pub fn contact(self) -> String {
        format!("contact-{}@title.example.com", self.0)
    }

    /// None at every other order, else up to four.
    pub fn documents(self) -> Vec<Vec<u8>> {
        let count = if self.0.is_multiple_of(2) { self.0 / 2 % 4 + 1 } else { 0 };
        (0..count).map(|position| self.document(position)).collect()
    }

    fn document(self, position: usize) -> Vec<u8> {
        let mut random = Rng::with_seed((self.0 * 10 + position) as u64);
        let mut content = b"%PDF-1.7\n".to_vec();
        content.extend((0..random.usize(1_000..60_000)).map(|_| random.u8(..)));
        content.extend_from_slice(b"\n%%EOF\n");
        content
    }

    /// Two of three clients give their requests a key.
    fn idempotency_key(self) -> Option<String> {
        (!self.0.is_multiple_of(3)).then(|| format!("crash-{:020}", self.0))
    }

    fn request(self, client: &Client, answers: &Answers) -> reqwest::RequestBuilder {
        let mut wanted = order(&self.file_number());
        wanted["signingContactsFormData"]["orderContactEmail"] = self.contact().into();
        let documents = self.documents();
        let url = |path: &str| format!("http://{}{path}", answers.address.read().unwrap());
        let request = if documents.is_empty() {
            client.post(url(CREATE)).json(&wanted)
        } else {
            let named = |form, (at, document)| {
                reqwest::multipart::Form::part(
                    form,
                    "documents",
                    file(&format!("{at}.pdf"), document),
                )
            };
            client
                .post(url(CREATE_WITH_DOCUMENTS))
                .multipart(documents.into_iter().enumerate().fold(form(&wanted), named))
        };
        let request = request.bearer_auth(answers.key()).timeout(Duration::from_secs(60));
        self.idempotency_key()
            .into_iter()
            .fold(request, |request, key| request.header("Idempotency-Key", key))
    }
}

/// What the clients were told, and where they ask.
#[derive(Default)]
pub struct Answers {
    address: RwLock<String>,
    key: OnceLock<String>,
    next: AtomicUsize,
    stopped: AtomicBool,
    acknowledged: Mutex<BTreeMap<usize, i64>>,
    /// Refused as a duplicate of what the same client had asked for and got no answer to.
    told_so: Mutex<BTreeSet<usize>>,
    /// Neither is known of them yet.
    unknown: Mutex<BTreeSet<usize>>,
    unanswered: AtomicUsize,
    unavailable: AtomicUsize,
}

impl Answers {
    pub fn serve_at(&self, address: &str) {
        address.clone_into(&mut self.address.write().unwrap());
    }

    pub fn know_key(&self, key: String) {
        self.key.set(key).unwrap();
    }

    pub fn key(&self) -> String {
        self.key.get().unwrap().clone()
    }

    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// The identifier of every acknowledged order by its number.
    pub fn acknowledged(&self) -> BTreeMap<usize, i64> {
        self.acknowledged.lock().unwrap().clone()
    }

    /// Orders that were asked for.
    pub fn asked(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }

    /// Whether it is known that an order was kept.
    pub fn kept(&self, number: usize) -> bool {
        self.acknowledged.lock().unwrap().contains_key(&number)
            || self.told_so.lock().unwrap().contains(&number)
    }

    /// Repeats every request of which nothing is known, until something is.
    pub async fn settle(&self) {
        let (client, unknown) = (client(), std::mem::take(&mut *self.unknown.lock().unwrap()));
        for number in unknown {
            let patience = Instant::now() + Duration::from_secs(30);
            while self.ask(&client, Wanted(number), false).await != Heard::Enough {
                assert!(Instant::now() < patience, "nothing is to be heard of {number}");
            }
        }
    }

    async fn ask(&self, client: &Client, wanted: Wanted, first: bool) -> Heard {
        let answer = match wanted.request(client, self).send().await {
            Ok(answer) => {
                let status = answer.status();
                answer.json::<Value>().await.map(|body| (status, body))
            }
            Err(error) => Err(error),
        };
        let Ok((status, body)) = answer else {
            self.unanswered.fetch_add(1, Ordering::Relaxed);
            return Heard::Nothing;
        };
        match (status, body["code"].as_str()) {
            (StatusCode::CREATED, _) => {
                let id = body["order_id"].as_i64().unwrap();
                assert_eq!(body["file_number"], wanted.file_number());
                let before = self.acknowledged.lock().unwrap().insert(wanted.0, id);
                assert!(
                    before.is_none_or(|before| before == id),
                    "{wanted:?} was acknowledged as {before:?} and {id}"
                );
                Heard::Enough
            }
            (StatusCode::CONFLICT, Some("duplicate_order")) if !first => {
                self.told_so.lock().unwrap().insert(wanted.0);
                Heard::Enough
            }
            (StatusCode::CONFLICT, Some("idempotency_in_flight")) if !first => Heard::Later,
            (StatusCode::SERVICE_UNAVAILABLE, _) => {
                self.unavailable.fetch_add(1, Ordering::Relaxed);
                Heard::Nothing
            }
            _ => panic!("{wanted:?}, first {first}: {status} {body}"),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// The order is kept.
    Enough,
    /// Nothing, or that nothing is known.
    Nothing,
    /// That the killed process was at it, which is believed for a while.
    Later,
}

impl fmt::Display for Answers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [unanswered, unavailable] =
            [&self.unanswered, &self.unavailable].map(|count| count.load(Ordering::Relaxed));
        let (acknowledged, told_so) =
            (self.acknowledged.lock().unwrap().len(), self.told_so.lock().unwrap().len());
        write!(
            formatter,
            "{} orders asked for: {acknowledged} acknowledged, {told_so} known by a duplicate; {unanswered} requests without an answer, {unavailable} answered 503",
            self.asked()
        )
    }
}

/// One client.
pub async fn order_on_and_on(answers: std::sync::Arc<Answers>) {
    let client = client();
    while !answers.stopped.load(Ordering::Relaxed) {
        let wanted = Wanted(answers.next.fetch_add(1, Ordering::Relaxed));
        let mut first = true;
        loop {
            let heard = answers.ask(&client, wanted, first).await;
            if heard == Heard::Enough {
                break;
            }
            if heard == Heard::Later || answers.stopped.load(Ordering::Relaxed) {
                answers.unknown.lock().unwrap().insert(wanted.0);
                break;
            }
            first = false;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
