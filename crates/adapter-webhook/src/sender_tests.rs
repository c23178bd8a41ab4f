use std::{
    collections::VecDeque,
    io,
    net::IpAddr,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use contract_tests::webhook_sender::{Reaction, ReceivedWebhook, WebhookSenderFixture, request};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use test_servers::certificates::Certificates;
use tokio::net::TcpSocket;

use domain::api_key::ClientId;

use super::*;
use crate::{
    guard::tests::networks,
    test_receiver::{HUGE, Receiver, closed_address, tunnel_to},
};

/// Limits that no attempt meets on a busy machine. A test of a limit sets its own.
const GENEROUS: Limits = Limits {
    attempt: Duration::from_hours(1),
    connect: Duration::from_hours(1),
    idle: Duration::from_hours(1),
    ..LIMITS
};

/// Limits for a receiver that does not answer.
const SHORT: Limits = Limits { attempt: Duration::from_secs(1), ..GENEROUS };

/// Answers each question with the next answer; the last one stays.
#[derive(Default)]
struct Script {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    questions: Mutex<Vec<String>>,
}

impl Script {
    fn of(answers: &[&[&str]]) -> Arc<Self> {
        let addresses =
            |texts: &&[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
        let answers = answers.iter().map(addresses).collect();
        Arc::new(Self { answers: Mutex::new(answers), questions: Mutex::default() })
    }

    fn find(self: &Arc<Self>) -> Arc<Find> {
        let script = Arc::clone(self);
        Arc::new(move |name| script.answer(name))
    }

    fn answer(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.questions.lock().unwrap().push(name.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        answer.ok_or_else(|| io::Error::other("no name server"))
    }

    fn questions(&self) -> Vec<String> {
        self.questions.lock().unwrap().clone()
    }
}

/// Returns a sender that may call `127.0.0.1`.
fn sender(script: &Arc<Script>) -> Sender {
    sender_within(GENEROUS, RootCertStore::empty(), script.find())
}

fn sender_within(limits: Limits, roots: RootCertStore, find: Arc<Find>) -> Sender {
    Sender::with(networks("127.0.0.1/32"), None, roots, find, limits).unwrap()
}

fn is_refused(answer: &Result<WebhookAnswer, WebhookError>) -> bool {
    matches!(answer, Err(WebhookError::Refused(_)))
}

struct Fixture {
    sender: Arc<Sender>,
    impatient: Arc<Sender>,
    is_unanswered: AtomicBool,
    receiver: Receiver,
    closed: TcpSocket,
}

impl Fixture {
    async fn new() -> Self {
        let impatient = sender_within(SHORT, RootCertStore::empty(), Script::of(&[]).find());
        Self {
            sender: Arc::new(sender(&Script::of(&[]))),
            impatient: Arc::new(impatient),
            is_unanswered: AtomicBool::new(false),
            receiver: Receiver::start().await,
            closed: closed_address(),
        }
    }
}

#[async_trait]
impl WebhookSenderFixture for Fixture {
    fn sender(&self) -> Arc<dyn WebhookSender> {
        let is_unanswered = self.is_unanswered.load(Ordering::SeqCst);
        if is_unanswered { self.impatient.clone() } else { self.sender.clone() }
    }

    fn url(&self) -> String {
        self.receiver.url("127.0.0.1")
    }

    fn refused_url(&self) -> String {
        self.receiver.url("127.0.0.2")
    }

    fn closed_url(&self) -> String {
        format!("http://{}/", self.closed.local_addr().unwrap())
    }

    async fn react(&self, reaction: Reaction) {
        let is_unanswered = [Reaction::Silence, Reaction::EndlessHead].contains(&reaction);
        self.is_unanswered.store(is_unanswered, Ordering::SeqCst);
        self.receiver.react(reaction);
    }

    async fn received(&self) -> Vec<ReceivedWebhook> {
        self.receiver.received()
    }
}

contract_tests::contract!(webhook_sender, Fixture::new().await);

#[tokio::test]
async fn name_that_changes_after_its_check_is_refused() {
    let receiver = Receiver::start().await;
    let sender = sender(&Script::of(&[&["127.0.0.1"], &["127.0.0.2"]]));
    let url = receiver.url("rebinding.example");
    sender.check(Party::Client(ClientId(1)), &url).await.unwrap();
    assert!(is_refused(&sender.send(&request(url)).await));
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn public_name_needs_https() {
    let sender = sender(&Script::of(&[&["93.184.216.34"]]));
    let http = "http://public.example:8080/".to_owned();
    assert!(sender.check(Party::Client(ClientId(1)), &http).await.is_err());
    assert!(is_refused(&sender.send(&request(http)).await));
    sender.check(Party::Client(ClientId(1)), "https://public.example:8080/").await.unwrap();
}

#[tokio::test]
async fn names_of_this_machine_are_refused() {
    let sender = Sender::new(Vec::new(), None).unwrap();
    for url in ["https://localhost/", "https://LOCALHOST:8443/"] {
        assert!(sender.check(Party::Client(ClientId(1)), url).await.is_err(), "{url}");
        assert!(is_refused(&sender.send(&request(url.to_owned())).await), "{url}");
    }
}

#[tokio::test]
async fn name_without_address_is_accepted_and_fails_later() {
    for script in [Script::of(&[]), Script::of(&[&[]])] {
        let (sender, url) = (sender(&script), "https://gone.example/");
        sender.check(Party::Client(ClientId(1)), url).await.unwrap();
        let answer = sender.send(&request(url.to_owned())).await;
        assert_eq!(answer, Err(WebhookError::Unresolved));
    }
}

#[tokio::test(start_paused = true)]
async fn slow_name_server_does_not_hold_a_client_or_an_attempt() {
    let find = Arc::new(|_: &str| {
        loop {
            std::thread::park();
        }
    });
    let sender = sender_within(SHORT, RootCertStore::empty(), find);
    let url = "https://slow.example/";
    sender.check(Party::Client(ClientId(1)), url).await.unwrap();
    let answer = sender.send(&request(url.to_owned())).await;
    assert_eq!(answer, Err(WebhookError::TimedOut));
}

#[tokio::test]
async fn status_decides_however_the_head_is_written() {
    let receiver = Receiver::start().await;
    let sender = sender(&Script::of(&[]));
    for headers in [
        "X-Folded: one\r\n two\r\n\tthree\r\n",
        "X-Space : one\r\n",
        "no field\r\n",
        "X-Name: Grüße\r\n",
        "X-Request-Id: 7\r\n".repeat(101).leak(),
        "X-Trace: abcdefghijklmnopqrstuvwxyz\r\n".repeat(4_000).leak(),
    ] {
        receiver.react(Reaction::Answer(204, headers));
        let answer = sender.send(&request(receiver.url("127.0.0.1"))).await;
        assert_eq!(answer.unwrap().status, 204, "{headers:.40}");
        receiver.react(Reaction::Answer(503, headers));
        let answer = sender.send(&request(receiver.url("127.0.0.1"))).await;
        assert_eq!(answer.unwrap().status, 503, "{headers:.40}");
    }
}

#[tokio::test]
async fn connection_is_used_again() {
    let receiver = Receiver::start().await;
    let script = Script::of(&[&["127.0.0.1"]]);
    let sender = sender(&script);
    for _ in 0..5 {
        sender.send(&request(receiver.url("hooks.example"))).await.unwrap();
    }
    assert_eq!((receiver.received().len(), receiver.connections()), (5, 1));
    assert_eq!(script.questions().len(), 1);
}

#[tokio::test]
async fn connection_with_an_unread_body_is_not_used_again() {
    let receiver = Receiver::start().await;
    let sender = sender(&Script::of(&[]));
    receiver.react(Reaction::EndlessBody);
    sender.send(&request(receiver.url("127.0.0.1"))).await.unwrap();
    receiver.react(Reaction::Answer(200, ""));
    sender.send(&request(receiver.url("127.0.0.1"))).await.unwrap();
    assert_eq!((receiver.received().len(), receiver.connections()), (2, 2));
}

/// Otherwise a receiver that begins an answer at once could hold all slots.
#[tokio::test]
async fn slow_body_does_not_last_as_long_as_an_attempt() {
    let receiver = Receiver::start().await;
    let sender = sender(&Script::of(&[]));
    receiver.react(Reaction::EndlessBody);
    let request = request(receiver.url("127.0.0.1"));
    let answer = timeout(Duration::from_mins(1), sender.send(&request)).await.unwrap();
    assert_eq!(answer.unwrap().status, 200);
}

#[tokio::test]
async fn huge_body_is_not_read() {
    let receiver = Receiver::start().await;
    let sender = sender(&Script::of(&[]));
    receiver.react(Reaction::HugeBody);
    sender.send(&request(receiver.url("127.0.0.1"))).await.unwrap();
    // The rest is what the buffers of the system took.
    let sent = receiver.state.sent.load(Ordering::SeqCst);
    assert!(sent < HUGE / 4, "{sent}");
}

/// A receiver for `hooks.example` with a certificate, and the certificate.
async fn receiver_with_tls() -> (Receiver, RootCertStore) {
    let certificates = Certificates::issue("Root", &["hooks.example"]);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificates.root.as_bytes()).unwrap()).unwrap();
    (Receiver::start_with(Some(certificates.acceptor())).await, roots)
}

#[tokio::test]
async fn certificate_must_be_valid_for_the_name() {
    let (receiver, roots) = receiver_with_tls().await;
    let script = Script::of(&[&["127.0.0.1"]]);
    let trusting = sender_within(GENEROUS, roots, script.find());
    let url = |name| format!("https://{name}:{}/", receiver.port);
    assert_eq!(trusting.send(&request(url("hooks.example"))).await.unwrap().status, 204);
    let other_name = trusting.send(&request(url("other.example"))).await;
    assert_eq!(other_name, Err(WebhookError::Tls));
    let unknown_root = sender(&script).send(&request(url("hooks.example"))).await;
    assert_eq!(unknown_root, Err(WebhookError::Tls));
    assert_eq!(receiver.received().len(), 1);
}

#[tokio::test]
async fn proxy_gets_every_webhook_and_resolves_names() {
    let receiver = Receiver::start().await;
    receiver.react(Reaction::Answer(407, ""));
    let script = Script::of(&[&["127.0.0.1"]]);
    let (open, roots) = (networks("10.1.0.0/16"), RootCertStore::empty());
    let proxy = format!("http://user:secret@proxy.example:{}", receiver.port);
    let sender = Sender::with(open, Some(&proxy), roots, script.find(), GENEROUS).unwrap();

    let url = "https://hooks.example/orders";
    sender.check(Party::Client(ClientId(1)), url).await.unwrap();
    assert_eq!(sender.send(&request(url.to_owned())).await, Err(WebhookError::Connect));
    receiver.react(Reaction::Answer(200, ""));
    let answer = sender.send(&request("http://10.1.2.3:8080/orders".to_owned())).await;
    assert_eq!(answer.unwrap().status, 200);
    assert!(is_refused(&sender.send(&request("https://10.2.0.1/".to_owned())).await));

    let lines = receiver.state.lines.lock().unwrap().clone();
    let expected =
        ["CONNECT hooks.example:443 HTTP/1.1", "POST http://10.1.2.3:8080/orders HTTP/1.1"];
    assert_eq!(lines, expected);
    for request in receiver.received() {
        assert_eq!(request.header("proxy-authorization"), "Basic dXNlcjpzZWNyZXQ=");
    }
    assert_eq!(script.questions(), ["proxy.example"; 2]);
}

#[tokio::test]
async fn certificate_is_verified_through_a_proxy() {
    let (receiver, roots) = receiver_with_tls().await;
    let proxy = format!("http://127.0.0.1:{}", tunnel_to(receiver.port).await);
    let send = |roots, name: &str| {
        let (open, find) = (Vec::new(), Script::of(&[]).find());
        let sender = Sender::with(open, Some(&proxy), roots, find, GENEROUS).unwrap();
        let url = format!("https://{name}/orders");
        async move { sender.send(&request(url)).await }
    };
    assert_eq!(send(roots.clone(), "hooks.example").await.unwrap().status, 204);
    assert_eq!(send(roots, "other.example").await, Err(WebhookError::Tls));
    let unknown = send(RootCertStore::empty(), "hooks.example").await;
    assert_eq!(unknown, Err(WebhookError::Tls));
    assert_eq!(receiver.received().len(), 1);
}

#[test]
fn proxy_is_an_http_url_that_errors_do_not_repeat() {
    let open = |url| Sender::new(Vec::new(), Some(url));
    for url in ["http://proxy:4750", "https://user:secret@proxy.example/"] {
        assert!(open(url).is_ok(), "{url}");
    }
    for url in ["proxy:4750", "socks5://secret@proxy", "http://secret@proxy/x", "http://", ""] {
        let error = open(url).err().unwrap();
        assert!(!format!("{error} {error:?}").contains("secret"), "{url}");
    }
}
