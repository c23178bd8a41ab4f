//! What must hold of any bytes that a stranger sends: one function for each target of `fuzz/`,
//! which panics when its property is broken. The tests run each of them over the corpus.
//!
//! No code of our own is `unsafe`, so there is nothing for a sanitizer to see: the properties are
//! what finds bugs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a broken property must stop the fuzzer, as it fails a test"
)]

mod contents;
mod form;
mod headers;
mod names;
mod orders;
mod parts;
#[cfg(test)]
mod tests;
mod time;

pub use contents::{content_doc, content_docx, content_jpeg, content_pdf, content_png};
pub use form::form;
pub use headers::{authorization, idempotency_key};
pub use names::file_name;
pub use orders::{order_fields, order_json};
pub use parts::form_parts;
pub use time::time;

#[cfg(test)]
type Property = fn(&[u8]);

/// Every target by its name, which is that of its corpus.
#[cfg(test)]
const TARGETS: [(&str, Property); 13] = [
    ("authorization", authorization),
    ("content_doc", content_doc),
    ("content_docx", content_docx),
    ("content_jpeg", content_jpeg),
    ("content_pdf", content_pdf),
    ("content_png", content_png),
    ("file_name", file_name),
    ("form", form),
    ("form_parts", form_parts),
    ("idempotency_key", idempotency_key),
    ("order_fields", order_fields),
    ("order_json", order_json),
    ("time", time),
];
