//! Words for failures of TLS: `rustls` shows them in the form of its source code.

use std::{error::Error, io, iter};

use rustls::{AlertDescription, CertificateError, Error as TlsError};

/// Returns what is wrong if a failure of TLS is the cause of an error.
pub fn tls_failure(error: &(dyn Error + 'static)) -> Option<&'static str> {
    tls_error(error).map(in_words)
}

/// Returns whether the certificate of the other side is the cause of an error.
pub fn is_invalid_certificate(error: &(dyn Error + 'static)) -> bool {
    matches!(tls_error(error), Some(TlsError::InvalidCertificate(_)))
}

fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a TlsError> {
    iter::successors(Some(error), |&cause| cause_of(cause)).find_map(|cause| cause.downcast_ref())
}

/// An `io::Error` leaves the error that it wraps out of its `source`.
fn cause_of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

fn in_words(error: &TlsError) -> &'static str {
    match error {
        TlsError::InvalidCertificate(error) => of_certificate(error),
        TlsError::InvalidMessage(_) | TlsError::InappropriateMessage { .. } => {
            "the other side does not speak TLS on this port"
        }
        TlsError::PeerIncompatible(_) => {
            "the other side has no version or cipher of TLS that is secure"
        }
        TlsError::NoCertificatesPresented => "the other side has no certificate",
        TlsError::AlertReceived(AlertDescription::CertificateRequired) => {
            "the other side requires a certificate of the client"
        }
        TlsError::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::UnsupportedCertificate,
        ) => "the other side rejects the certificate of the client",
        TlsError::AlertReceived(_) => "the other side rejects the TLS connection",
        _ => "the two sides do not agree on TLS",
    }
}

fn of_certificate(error: &CertificateError) -> &'static str {
    use CertificateError as E;
    match error {
        // A wrong signature is that of another authority with the name of a trusted one.
        E::UnknownIssuer | E::BadSignature => {
            "its certificate is of no authority that is trusted here"
        }
        E::Expired | E::ExpiredContext { .. } => "its certificate has expired",
        E::NotValidYet | E::NotValidYetContext { .. } => "its certificate is not valid yet",
        E::NotValidForName | E::NotValidForNameContext { .. } => {
            "its certificate is for another name"
        }
        E::Revoked => "its certificate is revoked",
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => "its certificate is not for servers",
        E::BadEncoding => "its certificate cannot be read",
        E::Other(other)
            if matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)) =>
        {
            "its certificate is self-signed, and that of an authority instead of a server"
        }
        _ => "its certificate is not valid",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::OtherError;

    use super::*;

    #[test]
    fn failure_is_found_below_others_and_has_words() {
        for (error, words) in [
            (
                TlsError::InvalidCertificate(CertificateError::UnknownIssuer),
                "its certificate is of no authority that is trusted here",
            ),
            (
                TlsError::InvalidCertificate(CertificateError::Expired),
                "its certificate has expired",
            ),
            (
                TlsError::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(
                    webpki::Error::CaUsedAsEndEntity,
                )))),
                "its certificate is self-signed, and that of an authority instead of a server",
            ),
            (
                TlsError::AlertReceived(AlertDescription::HandshakeFailure),
                "the other side rejects the TLS connection",
            ),
            (TlsError::DecryptError, "the two sides do not agree on TLS"),
        ] {
            let is_certificate = matches!(error, TlsError::InvalidCertificate(_));
            let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, error));
            assert_eq!(tls_failure(&wrapped), Some(words));
            assert_eq!(is_invalid_certificate(&wrapped), is_certificate);
        }
        assert_eq!(tls_failure(&io::Error::other("reset")), None);
    }
}
