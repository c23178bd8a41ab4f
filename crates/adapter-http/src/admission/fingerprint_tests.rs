use std::path::PathBuf;

use domain::{
    api_key::{ClientId, Owner},
    document::{Content, Sha256Digest, SpooledFile},
    idempotency::{ClaimToken, IdempotencyKey},
    order::OrderRequest,
};
use serde_json::{Value, json};

use super::*;

fn request() -> Value {
    let mut request = contract_tests::samples::maximal_request();
    for field in ["utcTimeDate", "utcStartTimeDate", "utcEndTimeDate"] {
        request[field] = json!("2026-12-01T20:30:00Z");
    }
    request
}

fn document(name: &str, sha256: u8) -> ReceivedDocument {
    let file = SpooledFile {
        path: PathBuf::new(),
        size: 5,
        sha256: Sha256Digest([sha256; 32]),
        crc32: sha256.into(),
    };
    ReceivedDocument { name_as_sent: name.to_owned(), file, content: Content::Other(None) }
}

fn fingerprint(operation: &str, request: &str, documents: &[ReceivedDocument]) -> Fingerprint {
    fingerprint_of(false, operation, request, documents)
}

fn fingerprint_of(
    is_test: bool,
    operation: &str,
    request: &str,
    documents: &[ReceivedDocument],
) -> Fingerprint {
    let claim = Claim {
        key: IdempotencyKey::new(Owner::client(ClientId(1), is_test), "key").unwrap(),
        token: ClaimToken([0; 16]),
    };
    attempt(claim, operation, &serde_json::from_str::<OrderRequest>(request).unwrap(), documents)
        .unwrap()
        .fingerprint
}

#[test]
fn formatting_and_absent_fields_do_not_matter() {
    let original = request().to_string();
    let expected = fingerprint("json", &original, &[]);
    let mut unlike = serde_json::to_string_pretty(&request())
        .unwrap()
        .replace("9999999999.99", "9.99999999999e9");
    unlike = unlike.replacen('{', "{\"somethingElse\": [1], ", 1);
    assert_ne!(original, unlike);
    assert_eq!(fingerprint("json", &unlike, &[]), expected);
    assert_eq!(
        fingerprint("json", r#"{"signingServiceId": 1, "utcTimeDate": "x"}"#, &[]),
        fingerprint(
            "json",
            r#"{"utcTimeDate": "x", "signingServiceId": 1, "utcEndTimeDate": null}"#,
            &[]
        )
    );
}

#[test]
fn test_and_live_requests_differ() {
    let request = request().to_string();
    let [live, test] = [false, true].map(|mode| fingerprint_of(mode, "json", &request, &[]));
    assert_ne!(live, test);
}

#[test]
fn every_field_changes_the_fingerprint() {
    let expected = fingerprint("json", &request().to_string(), &[]);
    let mut paths = Vec::new();
    leaves(&request(), String::new(), &mut paths);
    assert!(paths.len() >= 60, "{}", paths.len());
    for path in paths {
        let mut other = request();
        let leaf = other.pointer_mut(&path).unwrap();
        *leaf = match &*leaf {
            Value::String(text) => json!(format!("{text}.")),
            Value::Bool(flag) => json!(!*flag),
            number => json!(number.as_f64().unwrap() / 2.0 + 1.0),
        };
        if path.to_lowercase().ends_with("id") && !path.ends_with("timeZoneId") {
            *other.pointer_mut(&path).unwrap() = json!(7);
        }
        assert_ne!(fingerprint("json", &other.to_string(), &[]), expected, "{path}");
    }
}

fn leaves(value: &Value, path: String, paths: &mut Vec<String>) {
    match value {
        Value::Object(members) => members
            .iter()
            .for_each(|(name, member)| leaves(member, format!("{path}/{name}"), paths)),
        _ => paths.push(path),
    }
}

#[test]
fn operation_and_documents_change_the_fingerprint() {
    let request = request().to_string();
    let mut fingerprints = vec![
        fingerprint("json", &request, &[]),
        fingerprint("multipart", &request, &[]),
        fingerprint("multipart", &request, &[document("a.pdf", 1)]),
        fingerprint("multipart", &request, &[document("b.pdf", 1)]),
        fingerprint("multipart", &request, &[document("a.pdf", 2)]),
        fingerprint("multipart", &request, &[document("a.pdf", 1), document("b.pdf", 1)]),
        fingerprint("multipart", &request, &[document("b.pdf", 1), document("a.pdf", 1)]),
    ];
    let all = fingerprints.len();
    fingerprints.sort_by_key(|fingerprint| fingerprint.0);
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), all);
}
