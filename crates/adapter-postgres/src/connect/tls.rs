//! TLS for connections.

use std::{path::Path, sync::Arc};

use domain::ports::Cause;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{
        CertificateDer, ServerName, UnixTime,
        pem::{self, PemObject as _},
    },
};

use super::url::{OpenError, Security};

pub(crate) fn client(security: Security) -> Result<ClientConfig, OpenError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    Ok(if security.verified {
        builder.with_root_certificates(roots(security)?).with_no_client_auth()
    } else {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
            .with_no_client_auth()
    })
}

/// Returns the certificates of the file, or those that the system trusts.
fn roots(security: Security) -> Result<RootCertStore, OpenError> {
    let mut store = RootCertStore::empty();
    if let Some(path) = security.root {
        let certificates =
            certificates(&path).map_err(|source| OpenError::Root { path: path.clone(), source })?;
        if store.add_parsable_certificates(certificates).0 == 0 {
            return Err(OpenError::Root { path, source: "it has no certificate".into() });
        }
    } else {
        let certificates = rustls_native_certs::load_native_certs().certs;
        if store.add_parsable_certificates(certificates).0 == 0 {
            return Err(OpenError::NoRoot);
        }
    }
    Ok(store)
}

/// Reads certificates. The file may hold a key, so an error does not quote it.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Cause> {
    let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    certificates.map_err(|error| match error {
        pem::Error::Io(error) => error.into(),
        _ => "it is not valid PEM".into(),
    })
}

/// Accepts any certificate: `sslmode=prefer` and `require` promise encryption only, and `rustls`
/// has no verifier for that. The server still proves that it has the key of its certificate,
/// because channel binding relies on it.
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
