//! Checking that the content of a file matches its extension, for each format.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a measurement that cannot continue has failed"
)]

use contract_tests::documents;
use divan::Bencher;
use domain::document::{Content, DocumentFormat};

const DOCUMENTS: [(&str, DocumentFormat); 5] = [
    ("deed-of-trust.pdf", DocumentFormat::Pdf),
    ("closing-disclosure.doc", DocumentFormat::Doc),
    ("signing-instructions.docx", DocumentFormat::Docx),
    ("driver-license.jpg", DocumentFormat::Jpeg),
    ("signature-page.png", DocumentFormat::Png),
];

fn main() {
    divan::main();
}

/// Reads each file from the page cache, like one that has just been uploaded.
#[divan::bench(args = DOCUMENTS.map(|(name, _)| name))]
fn check_content(bencher: Bencher, name: &str) {
    let (_, format) = DOCUMENTS.into_iter().find(|(document, _)| *document == name).unwrap();
    let path = documents::path(name);
    assert_eq!(adapter_http::check_content(format, &path).unwrap(), Content::Format(format));
    bencher.bench(|| adapter_http::check_content(format, divan::black_box(&path)));
}
