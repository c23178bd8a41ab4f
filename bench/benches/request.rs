//! Parsing and validating requests without documents.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a measurement that cannot continue has failed"
)]

use divan::Bencher;
use domain::order::OrderRequest;

/// The order of the README.
const MINIMAL: &str = concat!(
    r#"{"signingContactsFormData":{"orderContactEmail":"escrow@title.example.com"},"#,
    r#""signingDetailsFormData":{"fileNumber":"REFI-2026-001","signingDate":"2026-12-01","#,
    r#""signingTimeType":"at","specificTime":"14:30","timeZoneId":"America/Chicago","#,
    r#""propertyAddress":"123 Main St, Dallas, TX 75201","signingType":"Refinance","#,
    r#""signerName":"Jane Doe","signerPhone":"+1 555 010 0199","#,
    r#""signerEmail":"jane.doe@example.com","city":"Dallas","state":"TX","zipcode":"75201"},"#,
    r#""signingServiceId":42,"requestedBy":{"userId":1001}}"#,
);

/// Returns the order with two invalid addresses, an invalid date and an invalid state.
fn invalid() -> String {
    MINIMAL
        .replace("escrow@title.example.com", "escrow")
        .replace("jane.doe@example.com", "jane.doe")
        .replace("2026-12-01", "2026-13-01")
        .replace(r#""TX""#, r#""Texas""#)
}

fn main() {
    divan::main();
}

/// Parses the JSON only.
#[divan::bench]
fn parse_json(bencher: Bencher) {
    bencher.bench(|| serde_json::from_str::<OrderRequest>(divan::black_box(MINIMAL)).unwrap());
}

/// Parses, validates every field and converts the appointment to UTC.
#[divan::bench]
fn parse_valid_order(bencher: Bencher) {
    let order = || serde_json::from_str::<OrderRequest>(divan::black_box(MINIMAL)).unwrap().parse();
    order().unwrap();
    bencher.bench(order);
}

#[divan::bench]
fn parse_invalid_order(bencher: Bencher) {
    let invalid = invalid();
    let order =
        || serde_json::from_str::<OrderRequest>(divan::black_box(&invalid)).unwrap().parse();
    assert_eq!(order().unwrap_err().len(), 4);
    bencher.bench(order);
}
