//! Checking that the content of a file matches its extension, for each format.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a measurement that cannot continue has failed"
)]

use adapter_http::content_is;
use contract_tests::documents;
use divan::Bencher;
use domain::document::DocumentFormat;

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
    assert!(content_is(format, &path).unwrap());
    bencher.bench(|| content_is(format, divan::black_box(&path)));
}
