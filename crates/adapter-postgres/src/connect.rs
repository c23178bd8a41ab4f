//! Where the server is, and how a connection to it is made.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use diesel_async::{
    AsyncPgConnection, SimpleAsyncConnection as _, pooled_connection::deadpool::BuildError,
};
use domain::ports::{Cause, error_chain};
use percent_encoding::percent_decode_str;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{
        CertificateDer, ServerName, UnixTime,
        pem::{self, PemObject as _},
    },
};
use tokio::time::timeout;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long one host has to accept a connection, and, if there are others, to let it in; unless the
/// URL says otherwise.
const CONNECT: Duration = Duration::from_secs(1);

/// How long all hosts have, to accept a connection and to let it in.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection whose peer is gone without a word is noticed after so long.
const UNANSWERED: Duration = Duration::from_secs(10);

/// The settings of every connection:
/// - The server ends a statement before the caller does, so that the caller learns its outcome.
/// - A commit is acknowledged only when it is durable.
/// - A plan made while a table was small must not read all of it later: every statement has an
///   index. Compiling such short statements costs more than it saves.
const SETTINGS: &str = "SET statement_timeout = '2s'; \
    SET idle_in_transaction_session_timeout = '10s'; \
    SET default_transaction_isolation = 'read committed'; \
    SET enable_seqscan = off; SET jit = off; \
    SELECT set_config('synchronous_commit', \
    coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), false)";

/// Why there can be no store on a URL. The text never repeats the URL, which may hold credentials.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is not a URL of PostgreSQL, or has a parameter that is not known.
    #[error(
        "is not a URL of PostgreSQL; write postgres://user:password@host:5432/database, several hosts separated by commas, with special characters percent-encoded"
    )]
    NotAUrl,
    /// `sslmode` is none of those that are known.
    #[error("sslmode must be disable, prefer, require or verify-full")]
    SslMode,
    /// `sslrootcert` would be ignored.
    #[error("sslrootcert needs sslmode=require or sslmode=verify-full")]
    RootWithoutVerification,
    /// The root certificates cannot be read.
    #[error("sslrootcert: no certificates can be read from {}", path.display())]
    Root {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// The system has no root certificates.
    #[error("the system has no root certificates; name a file of them by sslrootcert")]
    NoRoot,
    /// TLS cannot be set up.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    /// The pool of connections cannot be set up.
    #[error("the pool of connections cannot be set up")]
    Pool(#[from] BuildError),
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The server cannot be reached, or does not let the user in.
    #[error("no connection to the database")]
    Refused(#[source] Cause),
    /// The server does not answer.
    #[error("the database does not answer in time")]
    Late,
    /// The server refuses what every connection is told first.
    #[error("the database connection cannot be set up")]
    Setup(#[source] diesel::result::Error),
    /// The connection cannot be used.
    #[error("the database connection cannot be set up")]
    Unusable(#[from] diesel::ConnectionError),
}

impl From<tokio_postgres::Error> for ConnectError {
    fn from(error: tokio_postgres::Error) -> Self {
        let said = error.as_db_error().map_or_else(|| error_chain(&error), ToString::to_string);
        // The server's detail and hint are lines of their own.
        Self::Refused(said.lines().collect::<Vec<_>>().join("; ").into())
    }
}

/// A server, or several of which one takes writes.
#[derive(Clone)]
pub(crate) struct Server {
    /// One for each host, in the order of the URL.
    hosts: Arc<[tokio_postgres::Config]>,
    /// The host that was tried last. It comes first the next time, so that one that is gone does
    /// not delay every connection.
    last: Arc<AtomicUsize>,
    tls: MakeRustlsConnect,
}

impl Server {
    pub(crate) fn named(url: &str) -> Result<Self, OpenError> {
        let (rest, security) = Security::split_from(url)?;
        let mut hosts =
            one_url_per_host(&rest)?.iter().map(|url| host(url)).collect::<Result<Vec<_>, _>>()?;
        let several = hosts.len() > 1;
        for host in &mut hosts {
            if host.get_hostaddrs().len() > usize::from(!several) {
                return Err(OpenError::NotAUrl);
            }
            // Any of them would do for a client that only reads.
            if several && host.get_target_session_attrs() == TargetSessionAttrs::Any {
                host.target_session_attrs(TargetSessionAttrs::ReadWrite);
            }
            host.ssl_mode(security.mode);
        }
        Ok(Self {
            hosts: hosts.into(),
            last: Arc::default(),
            tls: MakeRustlsConnect::new(security.client()?),
        })
    }

    /// A connection whose statements end after a while.
    pub(crate) async fn connect(&self) -> Result<AsyncPgConnection, ConnectError> {
        let connect = async {
            let mut connection = self.connect_unlimited().await?;
            connection.batch_execute(SETTINGS).await.map_err(ConnectError::Setup)?;
            Ok(connection)
        };
        timeout(PATIENCE, connect).await.map_err(|_| ConnectError::Late)?
    }

    /// A connection whose statements take the time that they take.
    pub(crate) async fn connect_unlimited(&self) -> Result<AsyncPgConnection, ConnectError> {
        timeout(PATIENCE, self.first_that_lets_in()).await.map_err(|_| ConnectError::Late)?
    }

    /// Not left to `tokio_postgres`, for which a host that accepts a connection and then says
    /// nothing hides all others.
    async fn first_that_lets_in(&self) -> Result<AsyncPgConnection, ConnectError> {
        let (first, mut outcome) = (self.last.load(Ordering::Relaxed), Err(ConnectError::Late));
        for turn in first..first + self.hosts.len() {
            let turn = turn % self.hosts.len();
            self.last.store(turn, Ordering::Relaxed);
            let host = &self.hosts[turn];
            let patience = if self.hosts.len() > 1 {
                host.get_connect_timeout().copied().unwrap_or(CONNECT)
            } else {
                PATIENCE
            };
            outcome =
                timeout(patience, self.let_in_by(host)).await.unwrap_or(Err(ConnectError::Late));
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    async fn let_in_by(
        &self,
        host: &tokio_postgres::Config,
    ) -> Result<AsyncPgConnection, ConnectError> {
        let (client, connection) = host.connect(self.tls.clone()).await?;
        Ok(AsyncPgConnection::try_from_client_and_connection(client, connection).await?)
    }
}

/// `postgres://user@one,two/database` is `postgres://user@one/database` and
/// `postgres://user@two/database`.
fn one_url_per_host(url: &str) -> Result<Vec<String>, OpenError> {
    let (scheme, rest) = url.split_once("://").ok_or(OpenError::NotAUrl)?;
    let (address, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
    // Where a password has an @ that is not percent-encoded, a part of it would be taken for the
    // host.
    if rest.matches('@').count() > 1 || query.contains('@') {
        return Err(OpenError::NotAUrl);
    }
    let (user, address) = address.split_at(address.find('@').map_or(0, |at| at + 1));
    let (hosts, database) = address.split_at(address.find('/').unwrap_or(address.len()));
    Ok(hosts.split(',').map(|host| format!("{scheme}://{user}{host}{database}{query}")).collect())
}

/// What the URL of one host says, and how long to wait where it does not say so.
fn host(url: &str) -> Result<tokio_postgres::Config, OpenError> {
    let mut config: tokio_postgres::Config = url.parse().map_err(|_| OpenError::NotAUrl)?;
    let default = tokio_postgres::Config::new();
    // Hosts are tried in their order.
    if config.get_hosts().len() != 1
        || config.get_ports().len() > 1
        || config.get_load_balance_hosts() != default.get_load_balance_hosts()
    {
        return Err(OpenError::NotAUrl);
    }
    if config.get_application_name().is_none() {
        config.application_name("notary-orders");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(UNANSWERED);
    }
    if config.get_keepalives_idle() == default.get_keepalives_idle() {
        config.keepalives_idle(UNANSWERED);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(UNANSWERED);
    }
    Ok(config)
}

/// Whether a connection is encrypted, and whom it trusts (libpq, section 34.19 "SSL support").
#[derive(Debug)]
struct Security {
    mode: SslMode,
    /// Whether the server has to prove that it is the host of the URL.
    verified: bool,
    root: Option<PathBuf>,
}

impl Security {
    /// Takes `sslmode` and `sslrootcert` out of a URL; `tokio_postgres` does not know the second,
    /// nor all of the first.
    fn split_from(url: &str) -> Result<(String, Self), OpenError> {
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(OpenError::NotAUrl);
        }
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut root, mut others) = (None, None, Vec::new());
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').ok_or(OpenError::NotAUrl)?;
            let value_of = || {
                percent_decode_str(value)
                    .decode_utf8()
                    .map(String::from)
                    .map_err(|_| OpenError::NotAUrl)
            };
            match name {
                "sslmode" => mode = Some(value_of()?),
                "sslrootcert" => root = Some(PathBuf::from(value_of()?)),
                _ => others.push(parameter),
            }
        }
        let (mode, verified) = match mode.as_deref() {
            None | Some("prefer") => (SslMode::Prefer, false),
            Some("disable") => (SslMode::Disable, false),
            // As in libpq, a root that is given is made use of.
            Some("require") => (SslMode::Require, root.is_some()),
            Some("verify-full") => (SslMode::Require, true),
            Some(_) => return Err(OpenError::SslMode),
        };
        if root.is_some() && !verified {
            return Err(OpenError::RootWithoutVerification);
        }
        let separator = if others.is_empty() { "" } else { "?" };
        Ok((format!("{address}{separator}{}", others.join("&")), Self { mode, verified, root }))
    }

    fn client(self) -> Result<ClientConfig, OpenError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        Ok(if self.verified {
            builder.with_root_certificates(roots(self.root)?).with_no_client_auth()
        } else {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
                .with_no_client_auth()
        })
    }
}

/// The certificates of a file, or those that the system trusts.
fn roots(file: Option<PathBuf>) -> Result<RootCertStore, OpenError> {
    let mut store = RootCertStore::empty();
    match file {
        None if store
            .add_parsable_certificates(rustls_native_certs::load_native_certs().certs)
            .0
            == 0 =>
        {
            return Err(OpenError::NoRoot);
        }
        None => {}
        Some(path) => add_certificates(&mut store, &path)
            .map_err(|source| OpenError::Root { path, source })?,
    }
    Ok(store)
}

fn add_certificates(store: &mut RootCertStore, path: &Path) -> Result<(), pem::Error> {
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path)?.collect::<Result<_, _>>()?;
    if store.add_parsable_certificates(certificates).0 == 0 {
        Err(pem::Error::NoItemsFound)
    } else {
        Ok(())
    }
}

/// Encrypts for whoever answers: what `sslmode=prefer` and `require` promise, and no more.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
