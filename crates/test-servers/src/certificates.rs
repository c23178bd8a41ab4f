//! Certificates for servers of tests.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
    date_time_ymd,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring},
};

/// The year in which a certificate ends that nothing is said about.
const YEAR: i32 = 4096;

/// The certificate of a server, and the root certificate that signed it.
pub struct Certificates {
    /// The root certificate in PEM format.
    pub root: String,
    pub(crate) server: Certificate,
    pub(crate) key: KeyPair,
}

impl Certificates {
    /// Issues certificates. The roots of two servers differ even if their names are equal.
    pub fn issue(root_name: &str, server_names: &[&str]) -> Self {
        Self::issue_until(root_name, server_names, YEAR)
    }

    /// Issues certificates. That of the server ends at the beginning of a year.
    pub fn issue_until(root_name: &str, server_names: &[&str], year: i32) -> Self {
        let mut root = CertificateParams::new(Vec::new()).unwrap();
        root.distinguished_name.push(DnType::CommonName, root_name);
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = CertifiedIssuer::self_signed(root, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names: Vec<_> = server_names.iter().map(ToString::to_string).collect();
        let mut server = CertificateParams::new(names).unwrap();
        server.not_after = date_time_ymd(year, 1, 1);
        let server = server.signed_by(&key, &root).unwrap();
        Self { root: root.pem(), server, key }
    }

    /// Returns the certificate of the server in PEM format.
    pub fn cert_pem(&self) -> String {
        self.server.pem()
    }

    /// Returns the key of the server in PEM format.
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Returns what accepts the connections of a server with these certificates.
    pub fn acceptor(self) -> TlsAcceptor {
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.server.der().clone()], self.key.into())
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}
