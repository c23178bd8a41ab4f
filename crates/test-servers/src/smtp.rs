//! A mail relay (RFC 5321) that keeps what it is handed, and does as it is told: refuse, stall,
//! hang up.

mod session;

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::{net::TcpSocket, runtime::Runtime, sync::watch, time::timeout};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};

/// The user that a relay with credentials knows.
pub const USER: &str = "orders@relay.example.com";
/// The password, with what a URL must encode and what a reply might echo.
pub const PASSWORD: &str = "s3cr3t:/?#[@]%-passw0rd";

/// When a relay speaks TLS. Its certificate is for `localhost` and 127.0.0.1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tls {
    /// Never.
    #[default]
    Never,
    /// Once a client has asked for it by STARTTLS (RFC 3207).
    StartTls,
    /// From the first byte (RFC 8314).
    Implicit,
}

/// What a relay offers and asks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Offer {
    /// When it speaks TLS.
    pub tls: Tls,
    /// The AUTH mechanisms that it knows, such as `PLAIN LOGIN` (RFC 4954). With any, it takes no
    /// mail without credentials.
    pub auth: Option<&'static str>,
}

/// How far a client has come when the relay has to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It has connected, and TLS is to begin, where it is implicit.
    Handshake,
    /// It has connected.
    Greeting,
    /// It has said EHLO.
    Ehlo,
    /// It has asked for STARTTLS.
    StartTls,
    /// It has given its credentials.
    Auth,
    /// It has named the sender.
    Mail,
    /// It has named a recipient.
    Rcpt,
    /// It has said DATA.
    Data,
    /// It has sent a whole mail.
    Content,
    /// It has said RSET or NOOP.
    Other,
    /// It has said QUIT.
    Quit,
}

/// What a relay has to answer.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// How far the client has come.
    pub phase: Phase,
    /// The recipient that was just named, or the first of the mail; empty before.
    pub recipient: &'a str,
    /// Which connection it is, counted from 1.
    pub connection: usize,
    /// How many mails were handed over on this connection before.
    pub mails_before: usize,
}

/// What a rule has the relay do at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Serve it.
    Serve,
    /// Answer with these lines instead, such as `550 5.1.1 No such user`. After a 421 the
    /// connection is closed.
    Refuse(&'static str),
    /// Do not answer until the rule changes.
    Stall,
    /// Send an answer that does not end, a byte at a time, until the rule changes.
    Drip,
    /// Close the connection.
    HangUp,
    /// Do what was asked, such as take the mail, and close the connection instead of saying so.
    ServeAndHangUp,
}

/// A mail that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// What the client called itself.
    pub hello: String,
    /// Whether it came over TLS.
    pub encrypted: bool,
    /// Whether the client gave the credentials.
    pub authenticated: bool,
    /// The sender of the envelope.
    pub from: String,
    /// The recipients of the envelope.
    pub to: Vec<String>,
    /// The mail as it was before it was put on the wire: without doubled dots.
    pub raw: Vec<u8>,
}

/// A line that a client sent outside of a mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Whether it came over TLS.
    pub encrypted: bool,
    /// The line.
    pub line: String,
}

type Rule = Box<dyn Fn(Step<'_>) -> Treatment + Send>;

/// What all sessions share.
struct Relay {
    offer: Offer,
    acceptor: TlsAcceptor,
    rule: Mutex<Option<Rule>>,
    /// Says that the rule has changed.
    changed: watch::Sender<()>,
    /// How many mails were taken, and how many sessions are held up by a rule.
    counts: watch::Sender<Counts>,
    mails: Mutex<Vec<Mail>>,
    commands: Mutex<Vec<Command>>,
    connections: AtomicUsize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    mails: usize,
    held: usize,
    open: usize,
    most_open: usize,
}

/// A relay on 127.0.0.1 that ends when it is dropped.
pub struct SmtpServer {
    relay: Arc<Relay>,
    address: SocketAddr,
    folder: TempDir,
    /// Keeps the port while the relay is stopped: it is bound and does not listen, so connections
    /// are refused.
    _port: TcpSocket,
    running: Mutex<Option<Runtime>>,
}

impl SmtpServer {
    /// Starts a relay that takes every mail, without TLS or credentials.
    pub fn start() -> Self {
        Self::offering(Offer::default())
    }

    /// Starts a relay with TLS or credentials.
    pub fn offering(offer: Offer) -> Self {
        let folder = TempDir::new().unwrap();
        let port = TcpSocket::new_v4().unwrap();
        port.set_reuseaddr(true).unwrap();
        port.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = port.local_addr().unwrap();
        let (root, acceptor) = certificates(address.port());
        fs::write(folder.path().join("root.pem"), root).unwrap();
        let relay = Relay {
            offer,
            acceptor,
            rule: Mutex::default(),
            changed: watch::Sender::default(),
            counts: watch::Sender::default(),
            mails: Mutex::default(),
            commands: Mutex::default(),
            connections: AtomicUsize::default(),
        };
        let server = Self {
            relay: Arc::new(relay),
            address,
            folder,
            _port: port,
            running: Mutex::default(),
        };
        server.start_again();
        server
    }

    /// Closes every connection and takes no more. What was taken stays.
    pub fn stop(&self) {
        if let Some(runtime) = self.running.lock().unwrap().take() {
            // On a thread of its own, because a runtime must not be waited for from within another.
            thread::spawn(|| runtime.shutdown_timeout(Duration::from_secs(10))).join().unwrap();
        }
    }

    /// Starts again after a stop, on the same port.
    pub fn start_again(&self) {
        // Of its own, so that the relay answers while a test blocks its threads.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = TcpListener::bind(self.address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).unwrap()
        };
        let relay = Arc::clone(&self.relay);
        runtime.spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                tokio::spawn(session::serve(Arc::clone(&relay), socket));
            }
        });
        *self.running.lock().unwrap() = Some(runtime);
    }

    /// Lets a rule decide what becomes of each step from now on. What a former rule holds up is
    /// decided anew.
    pub fn treat(&self, rule: impl Fn(Step<'_>) -> Treatment + Send + 'static) {
        self.set_rule(Some(Box::new(rule)));
    }

    /// Treats every step of a phase so.
    pub fn treat_phase(&self, phase: Phase, treatment: Treatment) {
        self.treat(move |step| if step.phase == phase { treatment } else { Treatment::Serve });
    }

    /// Serves everything again.
    pub fn behave(&self) {
        self.set_rule(None);
    }

    fn set_rule(&self, rule: Option<Rule>) {
        *self.relay.rule.lock().unwrap() = rule;
        self.relay.changed.send_replace(());
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate that the relay's own is signed by.
    pub fn root_certificate(&self) -> PathBuf {
        self.folder.path().join("root.pem")
    }

    /// The URL of the relay, as the service takes it, with everything that it asks for.
    pub fn url(&self) -> String {
        self.url_with(if self.relay.offer.auth.is_some() { Some((USER, PASSWORD)) } else { None })
    }

    /// The URL of the relay with these credentials.
    pub fn url_with(&self, credentials: Option<(&str, &str)>) -> String {
        let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        let credentials = credentials
            .map(|(user, password)| format!("{}:{}@", encoded(user), encoded(password)))
            .unwrap_or_default();
        let port = self.address.port();
        let root = self.root_certificate();
        match self.relay.offer.tls {
            Tls::Never => format!("smtp://{credentials}127.0.0.1:{port}"),
            Tls::StartTls => {
                format!("smtp://{credentials}localhost:{port}?tls=required&ca={}", root.display())
            }
            Tls::Implicit => format!("smtps://{credentials}localhost:{port}?ca={}", root.display()),
        }
    }

    /// Every mail taken, in the order in which they came.
    pub fn mails(&self) -> Vec<Mail> {
        self.relay.mails.lock().unwrap().clone()
    }

    /// Waits until so many mails were taken, and returns all that were.
    pub async fn wait_for_mails(&self, count: usize, patience: Duration) -> Vec<Mail> {
        self.wait(|counts| counts.mails >= count, patience, "mails").await;
        self.mails()
    }

    /// Waits until a rule holds up so many steps, by [`Treatment::Stall`] or [`Treatment::Drip`].
    pub async fn wait_until_held(&self, count: usize, patience: Duration) {
        self.wait(|counts| counts.held >= count, patience, "steps held up").await;
    }

    async fn wait(&self, mut enough: impl FnMut(&Counts) -> bool, patience: Duration, what: &str) {
        let mut counts = self.relay.counts.subscribe();
        let waited = timeout(patience, counts.wait_for(|counts| enough(counts))).await.is_ok();
        assert!(waited, "too few {what} within {patience:?}: {:?}", *self.relay.counts.borrow());
    }

    /// Every line that clients sent outside of mails, in the order in which they came.
    pub fn commands(&self) -> Vec<Command> {
        self.relay.commands.lock().unwrap().clone()
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> usize {
        self.relay.connections.load(Ordering::Relaxed)
    }

    /// How many connections there were at a time, at the most.
    pub fn most_connections_at_a_time(&self) -> usize {
        self.relay.counts.borrow().most_open
    }
}

impl Drop for SmtpServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The root certificate, and TLS by a certificate that it has signed.
fn certificates(port: u16) -> (String, TlsAcceptor) {
    let mut root = CertificateParams::new(Vec::new()).unwrap();
    // So that no relay's root is taken for another's.
    root.distinguished_name.push(DnType::CommonName, format!("Root of the relay on port {port}"));
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = CertifiedIssuer::self_signed(root, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &root).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    (root.pem(), TlsAcceptor::from(Arc::new(config)))
}
