//! The certificate of the API and its key, which can be replaced while the service runs.
//!
//! TLS 1.2 and 1.3, with the suites of rustls: all are authenticated encryption with a key exchange
//! whose recordings a stolen key does not open.

use std::{
    io,
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
};

use prometheus::{
    Gauge, IntCounter, Registry, register_gauge_with_registry, register_int_counter_with_registry,
};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};
use thiserror::Error;
use time::OffsetDateTime;
use x509_cert::{
    Certificate, TbsCertificate,
    der::Decode as _,
    ext::pkix::{SubjectAltName, name::GeneralName},
    time::Time,
};

/// Why a certificate and a key cannot be used. Quotes neither.
#[derive(Debug, Error)]
pub enum TlsPairError {
    /// The certificates are at fault.
    #[error("no certificate in PEM format can be read")]
    Certificate(#[source] Option<Box<dyn std::error::Error + Send + Sync>>),
    /// The key is at fault.
    #[error("no private key in PEM format, without a password, can be read")]
    Key(#[source] Option<Box<dyn std::error::Error + Send + Sync>>),
    /// Each is readable, but they do not belong together.
    #[error("the key does not belong to the first certificate of the file")]
    Mismatch,
}

/// A certificate chain with its private key.
pub struct TlsPair {
    certified: Arc<CertifiedKey>,
    /// When the certificate begins to be valid.
    pub begins_at: OffsetDateTime,
    /// When the certificate ends.
    pub expires_at: OffsetDateTime,
    /// The names and addresses of the service that the certificate is for. A name may begin with
    /// `*.`.
    pub names: Vec<String>,
}

impl TlsPair {
    /// Reads a chain, which begins with the certificate of the service, and its key.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsPairError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|error| TlsPairError::Certificate(Some(fault(&error).into())))?;
        // Clients reject a chain with one that they cannot read.
        let certificates: Vec<_> = chain
            .iter()
            .map(|der| Certificate::from_der(der))
            .collect::<Result<_, _>>()
            .map_err(|error| TlsPairError::Certificate(Some(error.into())))?;
        let first = certificates.into_iter().next().ok_or(TlsPairError::Certificate(None))?;
        let first = first.tbs_certificate;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            pem::Error::NoItemsFound => TlsPairError::Key(None),
            error => TlsPairError::Key(Some(fault(&error).into())),
        })?;
        let certified = CertifiedKey::from_der(chain, key, &ring::default_provider());
        let certified = certified.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => TlsPairError::Mismatch,
            rustls::Error::InvalidCertificate(_) => TlsPairError::Certificate(Some(error.into())),
            error => TlsPairError::Key(Some(error.into())),
        })?;
        Ok(Self {
            certified: Arc::new(certified),
            begins_at: instant(first.validity.not_before),
            expires_at: instant(first.validity.not_after),
            names: names(&first),
        })
    }
}

/// Says what is wrong with a file. The error itself quotes lines of it, which may be those of a key.
fn fault(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } | pem::Error::IllegalSectionStart { .. } => {
            "a BEGIN or END line is missing, or not on a line of its own"
        }
        _ => "the lines between BEGIN and END are not base64",
    }
}

fn instant(time: Time) -> OffsetDateTime {
    // A later instant than the type knows is no end.
    let seconds = i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
    OffsetDateTime::from_unix_timestamp(seconds)
        .unwrap_or(time::PrimitiveDateTime::MAX.assume_utc())
}

/// Returns the names that clients accept. They ignore the common name.
fn names(certificate: &TbsCertificate) -> Vec<String> {
    let Ok(Some((_, SubjectAltName(names)))) = certificate.get() else { return Vec::new() };
    let shown = names.iter().filter_map(|name| match name {
        GeneralName::DnsName(name) => Some(name.to_string()),
        GeneralName::IpAddress(address) => ip_address(address.as_bytes()),
        _ => None,
    });
    shown.collect()
}

fn ip_address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok().map(|ip| ip.to_string())
}

/// The certificate and key in use. Their `Debug` leaves out the key.
#[derive(Debug)]
pub struct Tls {
    current: RwLock<Arc<CertifiedKey>>,
    expiry: Gauge,
    begun: IntCounter,
    pub(crate) completed: IntCounter,
}

impl Tls {
    /// Registers the metrics of TLS. Fails if a name is already registered.
    pub fn new(pair: TlsPair, registry: &Registry) -> Result<Self, prometheus::Error> {
        let expiry = register_gauge_with_registry!(
            "notary_orders_tls_certificate_expiry_timestamp_seconds",
            "When the certificate in use ends, in seconds since 1970.",
            registry
        )?;
        let begun = register_int_counter_with_registry!(
            "notary_orders_tls_handshakes_begun_total",
            "TLS handshakes of clients that have got the certificate.",
            registry
        )?;
        let completed = register_int_counter_with_registry!(
            "notary_orders_tls_handshakes_completed_total",
            "TLS handshakes of clients that have succeeded.",
            registry
        )?;
        let current = RwLock::new(Arc::clone(&pair.certified));
        let tls = Self { current, expiry, begun, completed };
        tls.replace(pair);
        Ok(tls)
    }

    /// Uses another certificate and key for new connections. Open connections go on.
    #[expect(clippy::cast_precision_loss, reason = "these seconds are far below 2^53")]
    pub fn replace(&self, pair: TlsPair) {
        self.expiry.set(pair.expires_at.unix_timestamp() as f64);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = pair.certified;
    }

    /// Returns the configuration of a server that uses the certificate and key.
    pub(crate) fn config(self: Arc<Self>) -> io::Result<ServerConfig> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(self);
        // A client that speaks only HTTP/2 learns so in the handshake.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    fn current(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ResolvesServerCert for Tls {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.begun.inc();
        Some(self.current())
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
