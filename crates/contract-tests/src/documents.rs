//! Real documents, made by the usual programs; see `fixtures/documents/README.md`.

use std::path::{Path, PathBuf};

/// Returns the path of a document of `fixtures/documents`.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/documents").join(name)
}

/// Returns the bytes of a document of `fixtures/documents`.
pub fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}
