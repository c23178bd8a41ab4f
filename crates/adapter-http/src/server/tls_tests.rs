use domain::ports::error_chain;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use time::macros::datetime;

use super::*;

const NAMES: [&str; 4] = ["localhost", "*.example.com", "192.0.2.1", "2001:db8::1"];

/// Returns a self-signed certificate, which ends with the year 2029, and its key.
fn pem() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut certificate = CertificateParams::new(NAMES.map(str::to_owned).to_vec()).unwrap();
    certificate.not_after = date_time_ymd(2030, 1, 1);
    (certificate.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn error(chain: &str, key: &str) -> TlsPairError {
    TlsPair::from_pem(chain.as_bytes(), key.as_bytes()).err().unwrap()
}

#[test]
fn pair_is_read_with_its_validity_and_names() {
    let (certificate, key) = pem();
    let chain = certificate.clone() + &pem().0;
    for (chain, key) in [(&certificate, &key), (&chain, &(certificate.clone() + &key))] {
        let pair = TlsPair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        assert_eq!(pair.begins_at, datetime!(1975-01-01 00:00 UTC));
        assert_eq!(pair.expires_at, datetime!(2030-01-01 00:00 UTC));
        assert_eq!(pair.names, NAMES);
    }
}

#[test]
fn fault_of_a_pair_is_named() {
    let (certificate, key) = pem();
    let (other, _) = pem();
    let cut = &certificate[..certificate.len() / 2];
    let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let second_empty = certificate.clone() + empty;
    for chain in ["", "text", &key, cut, empty, &second_empty] {
        assert!(matches!(error(chain, &key), TlsPairError::Certificate(_)), "{chain}");
    }
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let wrong = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    for key in ["", "text", &certificate, &key[..key.len() / 2], &encrypted, wrong] {
        assert!(matches!(error(&certificate, key), TlsPairError::Key(_)), "{key}");
    }
    for chain in [other.clone(), other + &certificate] {
        assert!(matches!(error(&chain, &key), TlsPairError::Mismatch), "{chain}");
    }
}

#[test]
fn errors_do_not_quote_a_key_without_line_ends() {
    let (certificate, key) = pem();
    let (one_line, spaces) = (key.replace('\n', ""), key.replace('\n', " "));
    let escaped = key.replace('\n', "\\n");
    let begun = key.replacen("-----\n", "-----", 1);
    for broken in [one_line, spaces, escaped, begun] {
        // Both may be one file.
        for error in [error(&certificate, &broken), error(&broken, &key)] {
            let text = error_chain(&error);
            // Byte values are a quotation, too.
            assert!(!text.contains("MIG") && !text.contains("77, 73, 71"), "{text}");
        }
    }
}

#[test]
fn metrics_have_the_end_of_the_certificate_in_use() {
    let (certificate, key) = pem();
    let pair = || TlsPair::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
    let tls =
        Tls::new(TlsPair { expires_at: OffsetDateTime::UNIX_EPOCH, ..pair() }, &Registry::new())
            .unwrap();
    let before = tls.current();
    assert_eq!(tls.expiry.get().to_string(), "0");
    tls.replace(pair());
    assert_eq!(tls.expiry.get().to_string(), "1893456000");
    assert!(!Arc::ptr_eq(&before, &tls.current()));
}
