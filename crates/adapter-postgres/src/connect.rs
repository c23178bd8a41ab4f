//! Where the server is, and how a connection to it is made.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _, pooled_connection::deadpool::BuildError};
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
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long one host has to accept a connection, unless the URL says otherwise.
const CONNECT: Duration = Duration::from_secs(1);

/// How long all hosts have, to accept a connection and to let it in.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection whose peer is gone without a word is noticed after so long.
const UNANSWERED: Duration = Duration::from_secs(10);

/// What every connection is told first. The server gives a statement up before the caller does, so that the caller learns
/// what became of it. A commit that is acknowledged before it is durable would be no acknowledgement.
const SETTINGS: &str = "SET statement_timeout = '2s';
    SET idle_in_transaction_session_timeout = '10s';
    SET default_transaction_isolation = 'read committed';
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

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
    /// The system's root certificates cannot be read.
    #[error("the root certificates of the system cannot be read; name a file by sslrootcert")]
    SystemRoots(#[source] io::Error),
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
    Refused(#[from] tokio_postgres::Error),
    /// The server does not answer.
    #[error("the database does not answer within {} seconds", PATIENCE.as_secs())]
    Late,
    /// The server refuses what every connection is told first.
    #[error("the database connection cannot be set up")]
    Setup(#[source] diesel::result::Error),
    /// The connection cannot be used.
    #[error("the database connection cannot be set up")]
    Unusable(#[from] diesel::ConnectionError),
}

/// A server, or several of which one takes writes.
#[derive(Clone)]
pub(crate) struct Server {
    config: tokio_postgres::Config,
    tls: MakeRustlsConnect,
}

impl Server {
    pub(crate) fn named(url: &str) -> Result<Self, OpenError> {
        let (rest, security) = Security::split_from(url)?;
        let mut config: tokio_postgres::Config = rest.parse().map_err(|_| OpenError::NotAUrl)?;
        if config.get_hosts().is_empty() {
            return Err(OpenError::NotAUrl);
        }
        config.ssl_mode(security.mode);
        if config.get_application_name().is_none() {
            config.application_name("notary-orders");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(UNANSWERED);
        }
        config.keepalives_idle(UNANSWERED);
        Ok(Self { config, tls: MakeRustlsConnect::new(security.client()?) })
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
        let connect = async {
            let (client, connection) = self.config.connect(self.tls.clone()).await?;
            Ok(AsyncPgConnection::try_from_client_and_connection(client, connection).await?)
        };
        timeout(PATIENCE, connect).await.map_err(|_| ConnectError::Late)?
    }
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
    /// Takes `sslmode` and `sslrootcert` out of a URL; `tokio_postgres` does not know the second, nor all of the first.
    fn split_from(url: &str) -> Result<(String, Self), OpenError> {
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(OpenError::NotAUrl);
        }
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut root, mut others) = (None, None, Vec::new());
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').ok_or(OpenError::NotAUrl)?;
            let value_of = || percent_decode_str(value).decode_utf8().map(String::from).map_err(|_| OpenError::NotAUrl);
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
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        Ok(if self.verified {
            builder.with_root_certificates(roots(self.root)?).with_no_client_auth()
        } else {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider))).with_no_client_auth()
        })
    }
}

/// The certificates of a file, or those that the system trusts.
fn roots(file: Option<PathBuf>) -> Result<RootCertStore, OpenError> {
    let mut store = RootCertStore::empty();
    match file {
        Some(path) => {
            let read = CertificateDer::pem_file_iter(&path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let read = read.and_then(|certificates| if certificates.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(certificates) });
            store.add_parsable_certificates(read.map_err(|source| OpenError::Root { path, source })?);
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            if found.certs.is_empty() {
                return Err(OpenError::SystemRoots(io::ErrorKind::NotFound.into()));
            }
            store.add_parsable_certificates(found.certs);
        }
    }
    Ok(store)
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
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
