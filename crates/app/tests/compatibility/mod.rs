//! Clients that were written against a released OpenAPI document keep working with the current one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, what cannot go on fails the test"
)]

use std::{fs, path::Path};

use serde_json::Value;

mod changes;
mod rules;

#[test]
fn current_document_breaks_no_released_one() {
    let settings = adapter_http::OpenApiSettings::default();
    let current: Value = serde_json::from_str(&adapter_http::openapi_document(&settings)).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/released");
    // Git keeps no empty folder, so before the first release there may be none.
    for entry in folder.read_dir().into_iter().flatten() {
        let path = entry.unwrap().path();
        let released: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let changes = changes::breaking_changes(&released, &current);
        assert!(
            changes.is_empty(),
            "breaks clients of {} (docs/api.md, Compatibility):\n{}",
            path.display(),
            changes.join("\n")
        );
    }
}
