//! Connections to a relay, and the dialogue on them.

use std::{
    fmt::Display,
    io,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::{Either, select};
use lettre::{
    Address,
    transport::smtp::{
        authentication::DEFAULT_MECHANISMS,
        client::{AsyncSmtpConnection, Certificate, CertificateStore, TlsParameters},
        commands::{Data, Mail, Rcpt, Rset},
        extension::ClientId,
        response::{Response, Severity},
    },
};
use tokio::{
    net::TcpStream,
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};

use super::{
    failure::{Failure, Step},
    timeouts::Timeouts,
    unencrypted::Unencrypted,
    url::{Encryption, RelayUrl},
    waiting::{Permit, WaitingMails},
};
use crate::OpenError;

/// Limit on concurrent connections. A relay whose own limit is lower gets as many as it accepts.
pub const MAX_CONNECTIONS: u16 = 32;
/// Limit on mails that wait for a slow greeting, beyond [`MAX_CONNECTIONS`]. Each is a connection more to a
/// relay that is busy already, so further ones are tried again later.
const MAX_BEGINNING: usize = 128;
/// Limit on mails that wait for a slow confirmation, beyond [`MAX_CONNECTIONS`]. Each is an idle
/// connection.
const MAX_CONFIRMING: usize = 1_024;
/// Limit on concurrent lookups of the relay's name.
const MAX_LOOKUPS: usize = 4;
/// Time limit for connecting to one address of the relay.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest time that a pooled connection may be idle. Relays close idle connections after minutes;
/// routers drop them earlier.
const MAX_IDLE: Duration = Duration::from_secs(30);
/// Time limit for the reply to QUIT.
const QUIT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for which an invalid certificate is accepted until it is checked again. The relay logs a failed
/// connection for each check.
const CHECKED_AGAIN_AFTER: Duration = Duration::from_secs(60 * 60);

/// A relay, with a pool of idle connections to it.
pub(super) struct Relay {
    url: RelayUrl,
    /// `None` if the connection is never encrypted.
    pub(super) tls: Option<TlsParameters>,
    /// Accepts any certificate, for a relay on this machine. Without TLS, its mails would leave too.
    any_certificate: Option<TlsParameters>,
    /// When the certificate of the relay was last found invalid; `None` if it was valid since then.
    invalid_at: Mutex<Option<Instant>>,
    sender: Address,
    hello: ClientId,
    pub(super) permits: Arc<Semaphore>,
    pub(super) beginning: WaitingMails,
    pub(super) confirming: WaitingMails,
    lookups: Arc<Semaphore>,
    /// Idle connections, and since when they are idle.
    idle: Mutex<Vec<(Connection, Instant)>>,
    /// Has a clone in each open connection, which counts them.
    open: Arc<()>,
}

/// A connection that the relay has accepted.
pub(super) struct Connection {
    smtp: AsyncSmtpConnection,
    _open: Arc<()>,
}

impl Relay {
    pub(super) fn new(url: RelayUrl, sender: Address) -> Result<Self, OpenError> {
        let tls = match url.encryption {
            Encryption::Never => None,
            _ => Some(tls_parameters(&url)?),
        };
        let any_certificate = match &url {
            RelayUrl { local: true, root: None, host, .. } if tls.is_some() => {
                let builder = TlsParameters::builder(host.clone());
                let any = builder
                    .dangerous_accept_invalid_certs(true)
                    .dangerous_accept_invalid_hostnames(true);
                Some(any.build_rustls().map_err(|error| unconfigured(&error))?)
            }
            _ => None,
        };
        // Many relays reject a name that does not resolve, and the host name rarely does (RFC 5321
        // section 4.1.4).
        let hello = if sender.domain().contains('.') {
            ClientId::Domain(sender.domain().to_owned())
        } else {
            ClientId::default()
        };
        Ok(Self {
            url,
            tls,
            any_certificate,
            invalid_at: Mutex::default(),
            sender,
            hello,
            permits: Arc::new(Semaphore::new(MAX_CONNECTIONS.into())),
            beginning: WaitingMails::given_up_above(MAX_BEGINNING),
            confirming: WaitingMails::up_to(MAX_CONFIRMING),
            lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            idle: Mutex::default(),
            open: Arc::default(),
        })
    }

    /// Returns an idle or a new connection on which the relay has accepted the sender of a mail.
    pub(super) async fn begin(&self, timeouts: Timeouts) -> Result<(Connection, Permit), Failure> {
        let Timeouts { patience, begin, reuse, lowered, .. } = timeouts;
        loop {
            let mut permit = Arc::clone(&self.permits).acquire_owned().await;
            let begun = self.begin_on_any_connection(reuse);
            match self.beginning.within([patience, begin], &mut permit, begun).await {
                Ok(connection) => return Ok((connection, permit)),
                // The relay works, but takes no further connection: waits for one of the others.
                Err(failure) if failure.may_be_connection_limit() && self.has_connections() => {
                    tokio::spawn(async move {
                        sleep(lowered).await;
                        drop(permit);
                    });
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    async fn begin_on_any_connection(&self, reuse: Duration) -> Result<Connection, Failure> {
        let Some(mut connection) = self.take_idle() else {
            return self.begin_on_new_connection().await;
        };
        let reused = async move { self.mail_from(&mut connection).await.map(|()| connection) };
        let mut reused = Box::pin(reused);
        match timeout(reuse, reused.as_mut()).await {
            Ok(Ok(connection)) => return Ok(connection),
            // The relay may have closed it, or may limit the number of mails per connection.
            Ok(Err(_)) => return self.begin_on_new_connection().await,
            Err(_elapsed) => {}
        }
        // It is dead, or the relay is slow.
        match select(reused, pin!(self.begin_on_new_connection())).await {
            Either::Left((Err(_), new)) => new.await,
            Either::Left((begun, _)) | Either::Right((begun, _)) => begun,
        }
    }

    fn has_connections(&self) -> bool {
        Arc::strong_count(&self.open) > 1
    }

    /// Checks that a new connection gets as far as an accepted sender.
    pub(super) async fn check(&self) -> Result<(), Failure> {
        match self.begin_on_new_connection().await {
            Ok(connection) => {
                quit(connection);
                Ok(())
            }
            // The relay works, but takes no further connection.
            Err(failure) if failure.may_be_connection_limit() && self.has_connections() => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Connects again without a check of the certificate if that of a relay on this machine is not
    /// valid.
    async fn begin_on_new_connection(&self) -> Result<Connection, Failure> {
        let connect = |tls| Box::pin(self.connect_and_begin(tls));
        let any = self.any_certificate.as_ref();
        let is_accepted = self.invalid_at().is_some_and(|at| at.elapsed() < CHECKED_AGAIN_AFTER);
        if any.is_some() && is_accepted {
            return connect(any).await;
        }
        match connect(self.tls.as_ref()).await {
            Err(failure @ Failure::Certificate(_)) if any.is_some() => {
                if self.invalid_at().replace(Instant::now()).is_none() {
                    tracing::warn!(
                        error = failure.to_string(),
                        "the certificate of the mail relay is not valid; it is accepted, because \
                         the relay is on this machine"
                    );
                }
                connect(any).await
            }
            Ok(connection) => {
                self.invalid_at().take();
                Ok(connection)
            }
            begun => begun,
        }
    }

    fn invalid_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.invalid_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect_and_begin(&self, tls: Option<&TlsParameters>) -> Result<Connection, Failure> {
        let smtp = self.connect(tls).await?;
        let mut connection = Connection { smtp, _open: Arc::clone(&self.open) };
        self.encrypt(&mut connection.smtp, tls).await?;
        self.log_in(&mut connection.smtp).await?;
        self.mail_from(&mut connection).await?;
        Ok(connection)
    }

    async fn connect(&self, tls: Option<&TlsParameters>) -> Result<AsyncSmtpConnection, Failure> {
        let (host, port) = (self.url.host.as_str(), self.url.port);
        let no_connection = |source| Failure::NoConnection { host: host.to_owned(), port, source };
        let addresses = names::addresses(&self.lookups, format!("{host}:{port}")).await;
        let addresses = addresses.map_err(|error| no_connection(error.into()))?;
        if self.url.encryption == Encryption::Implicit {
            let connected = AsyncSmtpConnection::connect_tokio1(
                &*addresses,
                Some(CONNECT_TIMEOUT),
                &self.hello,
                tls.cloned(),
                None,
            );
            return connected.await.map_err(Failure::at(Step::Connection, no_connection));
        }
        let tcp = connect_tcp(&addresses).await.map_err(|error| no_connection(error.into()))?;
        let connected =
            AsyncSmtpConnection::connect_with_transport(Box::new(Unencrypted(tcp)), &self.hello);
        connected.await.map_err(Failure::at(Step::Connection, Failure::Broken))
    }

    async fn encrypt(
        &self,
        connection: &mut AsyncSmtpConnection,
        tls: Option<&TlsParameters>,
    ) -> Result<(), Failure> {
        match tls {
            Some(parameters) if connection.can_starttls() => {
                let encrypted = connection.starttls(parameters.clone(), &self.hello).await;
                encrypted.map_err(Failure::at(Step::StartTls, Failure::Tls))
            }
            _ if self.url.encryption == Encryption::Required => Err(Failure::NoTls),
            _ => Ok(()),
        }
    }

    async fn log_in(&self, connection: &mut AsyncSmtpConnection) -> Result<(), Failure> {
        let Some(credentials) = &self.url.credentials else { return Ok(()) };
        if !connection.is_encrypted() && !self.url.credentials_in_clear {
            return Err(Failure::NoTls);
        }
        if connection.server_info().get_auth_mechanism(DEFAULT_MECHANISMS).is_none() {
            return Err(Failure::NoAuth);
        }
        let logged_in = connection.auth(DEFAULT_MECHANISMS, credentials).await;
        logged_in.map(drop).map_err(Failure::at(Step::Credentials, Failure::Broken))
    }

    async fn mail_from(&self, connection: &mut Connection) -> Result<(), Failure> {
        let reply = connection.smtp.command(Mail::new(Some(self.sender.clone()), Vec::new())).await;
        expect(Severity::PositiveCompletion, reply, Step::Sender, None)
    }

    /// Takes a connection from the pool, after closing those that were idle for too long.
    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle();
        let expired = idle.extract_if(.., |(_, since)| since.elapsed() > MAX_IDLE);
        expired.for_each(|(connection, _)| quit(connection));
        idle.pop().map(|(connection, _)| connection)
    }

    /// Returns a connection to the pool.
    pub(super) fn keep(&self, connection: Connection) {
        self.idle().push((connection, Instant::now()));
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Connection, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Names the recipient, and asks the relay to read the mail.
    pub(super) async fn announce(&mut self, recipient: &Address) -> Result<(), Failure> {
        let reply = self.smtp.command(Rcpt::new(recipient.clone(), Vec::new())).await;
        expect(Severity::PositiveCompletion, reply, Step::Recipient, Some(recipient))?;
        let reply = self.smtp.command(Data).await;
        expect(Severity::PositiveIntermediate, reply, Step::Mail, Some(recipient))
    }

    /// Sends the mail, whose lines all end in CRLF. A failure without a reply says nothing about
    /// whether the relay has accepted it.
    pub(super) async fn send(&mut self, mail: &str) -> Result<(), Failure> {
        // Sends the message and its terminator in one write (RFC 5321 section 4.5.2). Lettre uses
        // two, which Nagle's algorithm delays by 40 ms.
        let content = mail.replace("\r\n.", "\r\n..") + ".\r\n";
        let reply = self.smtp.command(content).await;
        expect(Severity::PositiveCompletion, reply, Step::Content, None)
    }

    /// Resets the connection after the relay has rejected the mail.
    pub(super) async fn reset(&mut self) -> Result<(), Failure> {
        let reply = self.smtp.command(Rset).await;
        expect(Severity::PositiveCompletion, reply, Step::Sender, None)
    }
}

fn expect(
    severity: Severity,
    reply: Result<Response, lettre::transport::smtp::Error>,
    step: Step,
    recipient: Option<&Address>,
) -> Result<(), Failure> {
    match reply {
        Ok(response) if response.code().severity == severity => Ok(()),
        Ok(response) => {
            Err(Failure::Broken(format!("unexpected reply {}", response.code()).into()))
        }
        Err(error) => Err(Failure::new(&error, step, recipient, Failure::Broken)),
    }
}

/// Sends QUIT and closes the connection in the background.
fn quit(mut connection: Connection) {
    tokio::spawn(async move { timeout(QUIT_TIMEOUT, connection.smtp.abort()).await });
}

async fn connect_tcp(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut failure = io::ErrorKind::AddrNotAvailable.into();
    for address in addresses {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(error)) => failure = error,
            Err(elapsed) => failure = io::Error::new(io::ErrorKind::TimedOut, elapsed),
        }
    }
    Err(failure)
}

fn unconfigured(error: &lettre::transport::smtp::Error) -> OpenError {
    OpenError(format!("TLS cannot be configured: {error}").into())
}

fn tls_parameters(url: &RelayUrl) -> Result<TlsParameters, OpenError> {
    let builder = TlsParameters::builder(url.host.clone());
    let Some(path) = &url.root else {
        return builder.build_rustls().map_err(|error| unconfigured(&error));
    };
    let unusable = |cause: &dyn Display| {
        let path = path.display();
        OpenError(format!("the root certificate {path} cannot be used: {cause}").into())
    };
    let pem = std::fs::read_to_string(path).map_err(|error| unusable(&error))?;
    // Lettre accepts a file without any certificate.
    if !pem.contains("-----BEGIN CERTIFICATE-----") {
        return Err(unusable(&"it contains no certificate in PEM format"));
    }
    let trusted = Certificate::from_pem(pem.as_bytes()).and_then(|certificate| {
        let builder = builder.certificate_store(CertificateStore::None);
        builder.add_root_certificate(certificate).build_rustls()
    });
    trusted.map_err(|error| unusable(&error))
}
