//! From the bytes of a request without documents to a valid order, and what a client is told who
//! sent an invalid one.

#![allow(missing_docs, clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]

use divan::Bencher;
use domain::order::OrderRequest;

/// The order of the README.
const MINIMAL: &str = r#"{"signingContactsFormData":{"orderContactEmail":"escrow@title.example.com"},"signingDetailsFormData":{"fileNumber":"REFI-2026-001","signingDate":"2026-12-01","signingTimeType":"at","specificTime":"14:30","timeZoneId":"America/Chicago","propertyAddress":"123 Main St, Dallas, TX 75201","signingType":"Refinance","signerName":"Jane Doe","signerPhone":"+1 555 010 0199","signerEmail":"jane.doe@example.com","city":"Dallas","state":"TX","zipcode":"75201"},"signingServiceId":42,"requestedBy":{"userId":1001}}"#;

/// Two addresses, a date and a state are wrong.
const INVALID: &str = r#"{"signingContactsFormData":{"orderContactEmail":"escrow"},"signingDetailsFormData":{"fileNumber":"REFI-2026-001","signingDate":"2026-13-01","signingTimeType":"at","specificTime":"14:30","timeZoneId":"America/Chicago","propertyAddress":"123 Main St, Dallas, TX 75201","signingType":"Refinance","signerName":"Jane Doe","signerPhone":"+1 555 010 0199","signerEmail":"jane.doe","city":"Dallas","state":"Texas","zipcode":"75201"},"signingServiceId":42,"requestedBy":{"userId":1001}}"#;

fn main() {
    divan::main();
}

/// Reading the JSON alone.
#[divan::bench]
fn read(bencher: Bencher) {
    bencher.bench(|| serde_json::from_str::<OrderRequest>(divan::black_box(MINIMAL)).unwrap());
}

/// Reading, checking every field, converting the appointment to UTC.
#[divan::bench]
fn read_check_and_convert(bencher: Bencher) {
    let order = || serde_json::from_str::<OrderRequest>(divan::black_box(MINIMAL)).unwrap().parse();
    order().unwrap();
    bencher.bench(order);
}

#[divan::bench]
fn read_check_and_refuse(bencher: Bencher) {
    let order = || serde_json::from_str::<OrderRequest>(divan::black_box(INVALID)).unwrap().parse();
    assert_eq!(order().unwrap_err().len(), 4);
    bencher.bench(order);
}
