//! A mail relay (RFC 5321) that keeps all mails. A test can make it reject, stall or hang up.

mod session;
mod treatment;

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tempfile::TempDir;
use tokio::{sync::watch, time::timeout};

use self::treatment::Relay;
pub use self::treatment::{Mail, Offer, PASSWORD, Phase, Step, Tls, Treatment, USER};
use crate::{certificates::Certificates, restartable::Restartable};

/// A relay on 127.0.0.1 that stops when it is dropped.
pub struct SmtpServer {
    relay: Arc<Relay>,
    server: Restartable,
    folder: TempDir,
}

impl SmtpServer {
    /// Starts a relay without TLS and authentication that accepts every mail.
    pub fn start() -> Self {
        Self::offering(Offer::default())
    }

    /// Starts a relay with TLS or authentication.
    pub fn offering(offer: Offer) -> Self {
        let folder = TempDir::new().unwrap();
        let server = Restartable::new();
        let root_name = format!("Root of the relay on {}", server.address);
        let certificates = Certificates::issue(&root_name, &["localhost", "127.0.0.1"]);
        fs::write(folder.path().join("root.pem"), &certificates.root).unwrap();
        let relay = Relay {
            offer,
            acceptor: certificates.acceptor(),
            rule: Mutex::new(Box::new(|_| Treatment::Serve)),
            changed: watch::Sender::default(),
            held: watch::Sender::default(),
            mails: watch::Sender::default(),
            commands: Mutex::default(),
            connections: AtomicUsize::default(),
        };
        let server = Self { relay: Arc::new(relay), server, folder };
        server.start_again();
        server
    }

    /// Closes all connections and refuses new ones. Keeps the mails.
    pub fn stop(&self) {
        self.server.stop();
    }

    /// Starts again after a stop, on the same port.
    pub fn start_again(&self) {
        let relay = Arc::clone(&self.relay);
        relay.held.send_replace(0);
        self.server.start(move |connection| session::serve(Arc::clone(&relay), connection));
    }

    /// Sets the rule for all steps, including those that the previous rule holds up.
    pub fn treat(&self, rule: impl Fn(Step<'_>) -> Treatment + Send + 'static) {
        *self.relay.rule.lock().unwrap() = Box::new(rule);
        self.relay.changed.send_replace(());
    }

    /// Treats all steps of one phase in this way and serves all others.
    pub fn treat_phase(&self, phase: Phase, treatment: Treatment) {
        self.treat(move |step| if step.phase == phase { treatment } else { Treatment::Serve });
    }

    /// Serves everything.
    pub fn behave(&self) {
        self.treat(|_| Treatment::Serve);
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Returns the root certificate that signed the certificate of the relay.
    pub fn root_certificate(&self) -> PathBuf {
        self.folder.path().join("root.pem")
    }

    /// Returns the URL of the relay for `--mail-url`, with credentials if it requires them.
    pub fn url(&self) -> String {
        self.url_with(if self.relay.offer.auth.is_some() { Some((USER, PASSWORD)) } else { None })
    }

    /// Returns the URL of the relay with these credentials.
    pub fn url_with(&self, credentials: Option<(&str, &str)>) -> String {
        let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        let credentials = credentials
            .map(|(user, password)| format!("{}:{}@", encoded(user), encoded(password)))
            .unwrap_or_default();
        let (port, root) = (self.address().port(), self.root_certificate());
        let (scheme, parameters) = match self.relay.offer.tls {
            Tls::Never => ("smtp", String::new()),
            Tls::StartTls => ("smtp", format!("?tls=required&ca={}", root.display())),
            Tls::Implicit => ("smtps", format!("?ca={}", root.display())),
        };
        format!("{scheme}://{credentials}localhost:{port}{parameters}")
    }

    /// Returns all accepted mails in the order of their arrival.
    pub fn mails(&self) -> Vec<Mail> {
        self.relay.mails.borrow().clone()
    }

    /// Waits until `count` mails were accepted.
    pub async fn wait_for_mails(&self, count: usize, limit: Duration) {
        let mut mails = self.relay.mails.subscribe();
        let enough = timeout(limit, mails.wait_for(|mails| mails.len() >= count)).await.is_ok();
        assert!(enough, "only {} mails within {limit:?}", self.mails().len());
    }

    /// Waits until [`Treatment::Stall`] or [`Treatment::Drip`] holds up `count` steps.
    pub async fn wait_until_held(&self, count: usize, limit: Duration) {
        let mut held = self.relay.held.subscribe();
        let enough = timeout(limit, held.wait_for(|held| *held >= count)).await.is_ok();
        assert!(enough, "fewer than {count} steps were held up within {limit:?}");
    }

    /// Returns all lines that clients sent outside mails, in the order of their arrival.
    pub fn commands(&self) -> Vec<String> {
        self.relay.commands.lock().unwrap().clone()
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> usize {
        self.relay.connections.load(Ordering::Relaxed)
    }
}
