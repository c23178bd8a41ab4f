use std::path::PathBuf;

use domain::{
    api_key::ApiKeyId,
    document::{Sha256Digest, SpooledFile},
    idempotency::ClaimToken,
};
use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn a_key_may_be_quoted_or_bare() {
    for (header, key) in [
        ("8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        ("\"8e03978e-40d5-43dd-bc93-6894a57f9324\"", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        (" padded ", "padded"),
        ("\"two words, and; more\"", "two words, and; more"),
        (r#""a \"quote\" and a \\""#, r#"a "quote" and a \"#),
        ("\"with\";parameter=1", "with"),
        ("a/b+c=.:_~!{}", "a/b+c=.:_~!{}"),
    ] {
        assert_eq!(text(header.as_bytes()).as_deref(), Some(key), "{header}");
    }
    assert_eq!(text(b"\"\"").as_deref(), Some(""), "which is too short to be a key");
}

#[test]
fn what_is_neither_is_no_key() {
    for header in [
        "two words",
        "a,b",
        "a;b",
        "\"open",
        "open\"",
        "a\"b",
        "a\\b",
        "\"a\" b",
        "\"a\", \"b\"",
        "\"tab\t\"",
        "\"é\"",
        "é",
        "\"a\\b\"",
        "a\u{7f}",
    ] {
        assert_eq!(text(header.as_bytes()), None, "{header}");
    }
}

proptest! {
    #[test]
    fn any_header_is_a_key_or_not_and_a_key_is_visible(header: Vec<u8>) {
        if let Some(key) = text(&header) {
            prop_assert!(key.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }
    }

    #[test]
    fn what_is_bare_is_the_same_in_quotes(key in "[!#-+.-:<-\\[\\]-~-]{1,255}") {
        prop_assert_eq!(text(key.as_bytes()), Some(key.clone()));
        let quoted = format!("\"{key}\"");
        prop_assert_eq!(text(quoted.as_bytes()), Some(key));
    }
}

fn request() -> Value {
    let mut request = contract_tests::samples::maximal_request();
    for field in ["utcTimeDate", "utcStartTimeDate", "utcEndTimeDate"] {
        request[field] = json!("2026-12-01T20:30:00Z");
    }
    request
}

fn document(name: &str, sha256: u8) -> ReceivedDocument {
    let file = SpooledFile { path: PathBuf::new(), size: 5, sha256: Sha256Digest([sha256; 32]) };
    ReceivedDocument { name_as_sent: name.to_owned(), file, content: None }
}

fn fingerprint(operation: &str, request: &str, documents: &[ReceivedDocument]) -> Fingerprint {
    let claim =
        Claim { key: IdempotencyKey::new(ApiKeyId(1), "key").unwrap(), token: ClaimToken([0; 16]) };
    attempt(claim, operation, &serde_json::from_str(request).unwrap(), documents)
        .unwrap()
        .fingerprint
}

#[test]
fn the_same_request_written_otherwise_is_the_same() {
    let original = request().to_string();
    let expected = fingerprint("json", &original, &[]);
    let mut unlike = serde_json::to_string_pretty(&request())
        .unwrap()
        .replace("9999999999.99", "9.99999999999e9");
    unlike = unlike.replacen('{', "{\"somethingElse\": [1], ", 1);
    assert_ne!(original, unlike);
    assert_eq!(fingerprint("json", &unlike, &[]), expected);
    // Members in another order.
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
fn another_value_of_any_field_makes_another_request() {
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
fn operation_and_documents_belong_to_the_request() {
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
