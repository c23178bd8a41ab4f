//! Clients that were written against a released document of the API go on working with the current
//! one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, what cannot go on fails the test"
)]

use std::{fs, path::Path};

use serde_json::Value;

mod documents;
mod rules;
mod schemas;

#[test]
fn the_current_document_breaks_no_client_of_a_released_one() {
    let current = serde_json::to_value(adapter_http::openapi_document(
        &adapter_http::OpenApiSettings::default(),
    ))
    .unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/released");
    let released: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!released.is_empty(), "no released document in {}", folder.display());
    for path in released {
        let released: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let changes = documents::breaking_changes(&released, &current);
        assert!(
            changes.is_empty(),
            "breaks clients of {} (docs/api.md, Compatibility):\n{}",
            path.display(),
            changes.join("\n")
        );
    }
}
