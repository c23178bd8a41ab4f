//! Connections to a relay, up to the point where it waits for the recipient of a mail.

use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use domain::ports::Cause;
use lettre::{
    Address,
    transport::smtp::{
        authentication::{Credentials, DEFAULT_MECHANISMS},
        client::{AsyncSmtpConnection, Certificate, CertificateStore, Tls, TlsParameters},
        commands::{Data, Mail, Rcpt, Rset},
        extension::ClientId,
        response::{Response, Severity},
    },
};
use tokio::{
    net::{TcpStream, lookup_host},
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout},
};

use super::{
    failure::{Failure, What},
    unencrypted::Unencrypted,
    url::{Encryption, RelayUrl},
};
use crate::OpenError;

/// Most connections at a time. Relays take no more than ten or twenty from one client.
const CONNECTIONS: usize = 8;
/// Longest wait for one address of the relay to take a connection.
const CONNECT: Duration = Duration::from_secs(3);
/// How long a connection may lie idle and be used again. Relays close it after minutes, what is on
/// the way forgets it earlier.
const IDLE: Duration = Duration::from_secs(30);
/// Longest wait for a connection that was used before to show that it is still there.
const WAKE: Duration = Duration::from_secs(2);
/// Longest wait for the answer to QUIT, which nothing depends on.
const FAREWELL: Duration = Duration::from_secs(1);

/// A relay, and the connections to it that wait for the next mail.
pub(super) struct Relay {
    host: String,
    port: u16,
    tls: Tls,
    credentials: Option<Credentials>,
    credentials_in_clear: bool,
    sender: Address,
    hello: ClientId,
    turns: Semaphore,
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    connection: AsyncSmtpConnection,
    since: Instant,
}

/// A connection on which the relay has accepted the sender of a mail.
pub(super) struct Transaction<'a> {
    relay: &'a Relay,
    connection: AsyncSmtpConnection,
    _turn: SemaphorePermit<'a>,
}

impl Relay {
    pub(super) fn new(url: RelayUrl, sender: Address) -> Result<Self, OpenError> {
        let RelayUrl { host, port, credentials, encryption, credentials_in_clear, root } = url;
        let parameters = || tls_parameters(&host, root);
        let tls = match encryption {
            Encryption::Never => Tls::None,
            Encryption::IfOffered => Tls::Opportunistic(parameters()?),
            Encryption::Required => Tls::Required(parameters()?),
            Encryption::Implicit => Tls::Wrapper(parameters()?),
        };
        // The machine's name is rarely one that the world knows, and many relays refuse others (RFC
        // 5321 section 4.1.4).
        let hello = if sender.domain().contains('.') {
            ClientId::Domain(sender.domain().to_owned())
        } else {
            ClientId::default()
        };
        let (turns, idle) = (Semaphore::new(CONNECTIONS), Mutex::default());
        Ok(Self {
            host,
            port,
            tls,
            credentials: credentials.map(Credentials::from),
            credentials_in_clear,
            sender,
            hello,
            turns,
            idle,
        })
    }

    /// Begins to hand over a mail, on a connection that waits or a new one.
    pub(super) async fn begin(&self) -> Result<Transaction<'_>, Failure> {
        let turn = self.turn().await?;
        if let Some(mut connection) = self.waiting() {
            // It may have been closed meanwhile, or have had its fill of mails.
            match timeout(WAKE, self.name_sender(&mut connection)).await {
                Ok(Ok(())) => return Ok(Transaction { relay: self, connection, _turn: turn }),
                Ok(Err(failure)) if failure.leaves_connection() => leave(connection),
                Ok(Err(_)) | Err(_) => {}
            }
        }
        let connection = self.begin_anew().await?;
        Ok(Transaction { relay: self, connection, _turn: turn })
    }

    /// Whether a new connection gets as far as a mail needs it to.
    pub(super) async fn check(&self) -> Result<(), Failure> {
        let _turn = self.turn().await?;
        self.check_anew().await
    }

    async fn turn(&self) -> Result<SemaphorePermit<'_>, Failure> {
        self.turns.acquire().await.map_err(|closed| Failure::Broken(closed.into()))
    }

    async fn check_anew(&self) -> Result<(), Failure> {
        let connection = self.begin_anew().await?;
        self.reset(connection).await
    }

    async fn begin_anew(&self) -> Result<AsyncSmtpConnection, Failure> {
        let mut connection = self.connect().await?;
        let begun = async {
            self.encrypt(&mut connection).await?;
            self.log_in(&mut connection).await?;
            self.name_sender(&mut connection).await
        };
        match begun.await {
            Ok(()) => Ok(connection),
            Err(failure) => {
                if failure.leaves_connection() {
                    leave(connection);
                }
                Err(failure)
            }
        }
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, Failure> {
        let (host, port) = (self.host.as_str(), self.port);
        let no_connection = |source| Failure::NoConnection { host: host.to_owned(), port, source };
        if let Tls::Wrapper(parameters) = &self.tls {
            let connected = AsyncSmtpConnection::connect_tokio1(
                (host, port),
                Some(CONNECT),
                &self.hello,
                Some(parameters.clone()),
                None,
            );
            return connected
                .await
                .map_err(|error| Failure::new(&error, What::Connection, no_connection));
        }
        let tcp = connect_tcp(host, port).await.map_err(|error| no_connection(error.into()))?;
        let connected = AsyncSmtpConnection::connect_with_transport(
            Box::new(Unencrypted::new(tcp)),
            &self.hello,
        );
        connected.await.map_err(|error| Failure::new(&error, What::Connection, Failure::Broken))
    }

    async fn encrypt(&self, connection: &mut AsyncSmtpConnection) -> Result<(), Failure> {
        match &self.tls {
            Tls::Opportunistic(parameters) | Tls::Required(parameters)
                if connection.can_starttls() =>
            {
                let encrypted = connection.starttls(parameters.clone(), &self.hello).await;
                encrypted.map_err(|error| Failure::new(&error, What::StartTls, Failure::Tls))
            }
            Tls::Required(_) => Err(Failure::NoTls),
            Tls::Opportunistic(_) | Tls::None | Tls::Wrapper(_) => Ok(()),
        }
    }

    async fn log_in(&self, connection: &mut AsyncSmtpConnection) -> Result<(), Failure> {
        let Some(credentials) = &self.credentials else { return Ok(()) };
        if !connection.is_encrypted() && !self.credentials_in_clear {
            return Err(Failure::NoTls);
        }
        if connection.server_info().get_auth_mechanism(DEFAULT_MECHANISMS).is_none() {
            return Err(Failure::NoAuth);
        }
        let logged_in = connection.auth(DEFAULT_MECHANISMS, credentials).await;
        logged_in
            .map(drop)
            .map_err(|error| Failure::new(&error, What::Credentials, Failure::Broken))
    }

    async fn name_sender(&self, connection: &mut AsyncSmtpConnection) -> Result<(), Failure> {
        let answer = connection.command(Mail::new(Some(self.sender.clone()), Vec::new())).await;
        expect(Severity::PositiveCompletion, answer, What::Sender)
    }

    /// Ends whatever was begun on a connection, which then waits for the next mail.
    async fn reset(&self, mut connection: AsyncSmtpConnection) -> Result<(), Failure> {
        let answer = connection.command(Rset).await;
        expect(Severity::PositiveCompletion, answer, What::Sender)?;
        self.keep(connection);
        Ok(())
    }

    fn keep(&self, connection: AsyncSmtpConnection) {
        self.idle().push(Idle { connection, since: Instant::now() });
    }

    /// A connection that waits for a mail.
    fn waiting(&self) -> Option<AsyncSmtpConnection> {
        let mut idle = self.idle();
        let too_long = idle.extract_if(.., |idle| idle.since.elapsed() > IDLE);
        too_long.for_each(|idle| leave(idle.connection));
        idle.pop().map(|idle| idle.connection)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transaction<'_> {
    /// Hands over the mail, whose lines all end in CRLF.
    pub(super) async fn send(&mut self, recipient: &Address, mail: &str) -> Result<(), Failure> {
        let answer = self.connection.command(Rcpt::new(recipient.clone(), Vec::new())).await;
        expect(Severity::PositiveCompletion, answer, What::Recipient)
            .map_err(|failure| failure.without(recipient))?;
        let answer = self.connection.command(Data).await;
        expect(Severity::PositiveIntermediate, answer, What::Mail)
            .map_err(|failure| failure.without(recipient))?;
        // All in one go (RFC 5321 section 4.5.2). What lettre has for this writes the end apart,
        // and two small writes without an answer between them take 40 ms (RFC 896, RFC 1122 section
        // 4.2.3.2).
        let content = mail.replace("\r\n.", "\r\n..") + ".\r\n";
        let answer = self.connection.command(content).await;
        expect(Severity::PositiveCompletion, answer, What::Content)
    }

    /// The mail was taken, and the connection waits for the next one.
    pub(super) fn done(self) {
        self.relay.keep(self.connection);
    }

    /// The relay has refused the mail, and may take the next one on this connection.
    pub(super) async fn reset(self) -> Result<(), Failure> {
        self.relay.reset(self.connection).await
    }

    /// Gives the connection up, and asks on a new one whether the relay takes mails at all.
    pub(super) async fn check_relay(self) -> Result<(), Failure> {
        let Self { relay, connection, _turn } = self;
        drop(connection);
        relay.check_anew().await
    }
}

fn expect(
    severity: Severity,
    answer: Result<Response, lettre::transport::smtp::Error>,
    what: What,
) -> Result<(), Failure> {
    match answer {
        Ok(response) if response.code().severity == severity => Ok(()),
        Ok(response) => {
            Err(Failure::Broken(format!("an answer of {} is out of step", response.code()).into()))
        }
        Err(error) => Err(Failure::new(&error, what, Failure::Broken)),
    }
}

/// Says goodbye, which nobody waits for.
fn leave(mut connection: AsyncSmtpConnection) {
    tokio::spawn(async move { timeout(FAREWELL, connection.abort()).await });
}

async fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failure = io::ErrorKind::AddrNotAvailable.into();
    for address in lookup_host((host, port)).await? {
        match timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(error)) => failure = error,
            Err(elapsed) => failure = io::Error::new(io::ErrorKind::TimedOut, elapsed),
        }
    }
    Err(failure)
}

fn tls_parameters(
    host: &str,
    root: Option<std::path::PathBuf>,
) -> Result<TlsParameters, OpenError> {
    let builder = TlsParameters::builder(host.to_owned());
    let Some(path) = root else {
        return builder.build_rustls().map_err(|error| OpenError::Tls(error.to_string().into()));
    };
    let unusable = |source: Cause| OpenError::RootCertificate { path: path.clone(), source };
    let pem = std::fs::read(&path).map_err(|error| unusable(error.into()))?;
    // Lettre takes a file without certificates for no certificate.
    if !pem.windows(BEGIN.len()).any(|text| text == BEGIN) {
        return Err(unusable("it holds no certificate in PEM".into()));
    }
    let certificate =
        Certificate::from_pem(&pem).map_err(|error| unusable(error.to_string().into()))?;
    let builder =
        builder.certificate_store(CertificateStore::None).add_root_certificate(certificate);
    builder.build_rustls().map_err(|error| unusable(error.to_string().into()))
}

const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
