//! Checks that the links between the documents lead to files that exist, that published setups are
//! complete, and that the code of CONTRIBUTING is that of the tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Lists the Markdown files in a folder.
fn documents(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect()
}

/// Returns the targets of all Markdown links in a text.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

#[test]
fn linked_files_exist() {
    let root = root();
    let folders = [root.clone(), root.join("docs"), root.join("docs/adr"), root.join("bench")];
    let mut count = 0;
    for document in folders.iter().flat_map(|folder| documents(folder)) {
        let text = fs::read_to_string(&document).unwrap();
        for target in links(&text).filter(|target| !target.contains(':')) {
            let file = target.split('#').next().unwrap();
            let linked = document.parent().unwrap().join(file);
            assert!(linked.exists(), "{}: no file for the link {target}", document.display());
            count += 1;
        }
    }
    assert!(count > 50, "only {count} links were found");
}

#[test]
fn files_named_in_security_document_exist() {
    let root = root();
    let text = fs::read_to_string(root.join("docs/security.md")).unwrap();
    for named in text.split('`').filter(|text| text.contains(".rs")) {
        let file = named.split("::").next().unwrap();
        let exists = root.join(file).exists() || root.join("crates").join(file).exists();
        assert!(exists, "docs/security.md names the missing file {file}");
    }
}

/// The first line of a block names the file, which is compiled and run with the other tests.
#[test]
fn code_of_contributing_is_that_of_the_tests() {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let blocks: Vec<_> = text.split("```rust\n").skip(1).collect();
    assert!(blocks.len() >= 3);
    for block in blocks {
        let (name, code) = block.split("```").next().unwrap().split_once('\n').unwrap();
        let file = root().join(name.trim_start_matches("// "));
        assert!(fs::read_to_string(&file).unwrap().contains(code), "{}", file.display());
    }
    let whole = fs::read_to_string(root().join("crates/domain/src/use_cases/read_order_tests.rs"));
    assert!(text.contains(&whole.unwrap()), "the file of the use case is there as a whole");
}

/// Without the key, an instance on PostgreSQL has no webhooks.
#[test]
fn published_setups_on_postgresql_set_the_secrets_key() {
    for (file, begins) in [
        ("README.md", "## In production"),
        ("compose.yaml", "DATABASE_URL:"),
        ("packaging/debian/notary-orders.env", "DATABASE_URL="),
        ("packaging/kubernetes/secret.example.env", "DATABASE_URL="),
        ("docs/quick-start.md", "DATABASE_URL="),
    ] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let (_, setup) = text.split_once(begins).unwrap();
        let setup: Vec<_> = setup.lines().take(20).collect();
        assert!(setup.join("\n").contains("NOTARY_ORDERS_SECRETS_KEY"), "{file}");
    }
}
