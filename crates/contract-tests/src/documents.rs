//! Genuine documents, made by the programs that people make them with; see the `README.md` beside
//! them.

use std::path::{Path, PathBuf};

/// The path of a document of `fixtures/documents`.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/documents").join(name)
}

/// The bytes of a document of `fixtures/documents`.
pub fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}
