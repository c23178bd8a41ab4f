//! The properties of any input of a client: one function for each target of `fuzz/`. A function
//! panics when its property is broken. The tests run every property on the corpus and on all inputs
//! that once broke it.
//!
//! The code of the workspace has no `unsafe`, so sanitizers would find nothing. Only the properties
//! find bugs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a broken property must stop the fuzzer or fail the test"
)]

mod contents;
mod form;
mod form_parts;
mod headers;
mod names;
mod orders;
#[cfg(test)]
mod tests;
mod time;

pub use contents::{content_doc, content_docx, content_jpeg, content_pdf, content_png};
pub use form::form;
pub use form_parts::form_parts;
pub use headers::{authorization, idempotency_key};
pub use names::file_name;
pub use orders::{order_fields, order_json};
pub use time::time;

#[cfg(test)]
type Property = fn(&[u8]);

/// Every target by its name, which is also the name of its corpus.
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
