//! Clients that were written against a released OpenAPI document keep working with the current one, and
//! databases of a release have migrations that never change.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, what cannot go on fails the test"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use sha2::{Digest, Sha256};

mod changes;
mod rules;

/// The ends of changes that break no client, or do so on purpose: `docs/changelog.md` announces them.
const ACCEPTED: [&str; 8] = [
    // A wider pattern, which the test cannot see: `+0000` is an offset, too.
    "/utcTimeDate: pattern changed",
    "/utcStartTimeDate: pattern changed",
    "/utcEndTimeDate: pattern changed",
    // A member that the service does not know was ignored, and so was the wish of the client.
    "POST /api/webhooks request application/json: additionalProperties changed",
    "PATCH /api/webhooks/{webhook_id} request application/json: additionalProperties changed",
    "POST /api/webhooks/{webhook_id}/replay request application/json: additionalProperties changed",
    // The conditions of `reason`, which 0.1.0 refused always.
    "PATCH /api/order/{order_id} request application/json: if changed",
    "PATCH /api/order/{order_id} request application/json: then changed",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the files of `docs/released` with this extension.
fn released(extension: &str) -> Vec<PathBuf> {
    let files: Vec<_> = fs::read_dir(root().join("docs/released"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    assert!(!files.is_empty(), "no release has a file *.{extension}");
    files
}

#[test]
fn current_document_breaks_no_released_one() {
    let settings = adapter_http::OpenApiSettings::default();
    let current: Value = serde_json::from_str(&adapter_http::openapi_document(&settings)).unwrap();
    for path in released("json") {
        let released: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let mut changes = changes::breaking_changes(&released, &current);
        changes.retain(|change| !ACCEPTED.iter().any(|accepted| change.ends_with(accepted)));
        assert!(
            changes.is_empty(),
            "breaks clients of {} (docs/api.md, Compatibility):\n{}",
            path.display(),
            changes.join("\n")
        );
    }
}

#[test]
fn migrations_of_a_release_never_change() {
    for list in released("sha256") {
        for line in fs::read_to_string(&list).unwrap().lines() {
            let (checksum, path) = line.split_once("  ").unwrap();
            let file =
                fs::read(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(hex::encode(Sha256::digest(&file)), checksum, "{path} was released");
        }
    }
}
