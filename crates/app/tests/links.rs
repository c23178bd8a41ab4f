//! Checks that every link, anchor and path that the documents name exists, and that published setups
//! are complete.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

/// Folders with documents.
const FOLDERS: [&str; 5] = ["", "docs", "docs/adr", "bench", "scripts/topologies"];

/// Ends of the names of files in this repository.
const ENDINGS: [&str; 16] = [
    "rs", "md", "toml", "json", "sql", "sh", "py", "js", "mjs", "ts", "css", "html", "yml", "yaml",
    "cfg", "php",
];

/// Folders at the top of this repository.
const TOP: [&str; 10] = [
    "crates/",
    "docs/",
    "migrations/",
    "scripts/",
    "packaging/",
    "bench/",
    "fuzz/",
    ".github/",
    ".cargo/",
    ".ci/",
];

/// Paths that commands of the documents make.
const MADE: [&str; 2] = ["fuzz/found", "fuzz/grown"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Lists the Markdown files of the documents.
fn documents() -> Vec<PathBuf> {
    FOLDERS
        .iter()
        .flat_map(|folder| fs::read_dir(root().join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect()
}

/// Returns the targets of all Markdown links in a text.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

/// Returns the lines of a text outside of its blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the anchors of the headings of a document.
fn anchors(text: &str) -> HashSet<String> {
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = |it: &char| it.is_alphanumeric() || " -_".contains(*it);
        words.chars().filter(kept).map(|it| if it == ' ' { '-' } else { it }).collect()
    };
    prose(text).filter(|line| line.starts_with('#')).map(anchor).collect()
}

/// Lists the files and folders of this repository.
fn paths() -> Vec<String> {
    fn walk(root: &Path, folder: &Path, paths: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap();
            if [".git", "target", "node_modules"].iter().any(|it| name == *it) {
                continue;
            }
            paths.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            if path.is_dir() && !path.is_symlink() {
                walk(root, &path, paths);
            }
        }
    }
    let (root, mut paths) = (root(), Vec::new());
    walk(&root, &root, &mut paths);
    paths
}

/// Returns the path that code in a document names; `None` if it names none of this repository.
fn path_in(code: &str) -> Option<&str> {
    let path = code.split("::").next().unwrap_or(code);
    let path = path.strip_prefix("./").unwrap_or(path).trim_end_matches('/');
    let is_plain = path.chars().all(|it| it.is_ascii_alphanumeric() || "_./-".contains(it));
    let has_known_ending = || {
        let (name, ending) = path.rsplit_once('.')?;
        // Other names without a folder, such as `order.json`, may be those of files that users have.
        let is_file = !name.is_empty() && (path.contains('/') || ending == "rs");
        (is_file && ENDINGS.contains(&ending)).then_some(())
    };
    let is_named = TOP.iter().any(|top| code.starts_with(top)) || has_known_ending().is_some();
    (is_plain && !path.starts_with('/') && is_named).then_some(path)
}

#[test]
fn linked_files_and_anchors_exist() {
    let (mut count, mut faults) = (0, Vec::new());
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for target in links(&text).filter(|target| !target.contains(':')) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let linked = match file {
                "" => document.clone(),
                file => document.parent().unwrap().join(file),
            };
            let exists = linked.exists()
                && (anchor.is_empty()
                    || anchors(&fs::read_to_string(&linked).unwrap()).contains(anchor));
            if !exists {
                faults.push(format!("{}: nothing is at {target}", document.display()));
            }
            count += 1;
        }
    }
    assert!(count > 50, "only {count} links were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A document may name the end of a path, such as `orders/create.rs`.
#[test]
fn named_paths_exist() {
    let known = paths();
    let exists = |named: &str| {
        let end = format!("/{named}");
        MADE.contains(&named) || known.iter().any(|path| path == named || path.ends_with(&end))
    };
    let (mut count, mut faults) = (0, Vec::new());
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let prose = prose(&text).collect::<Vec<_>>().join("\n");
        for named in prose.split('`').skip(1).step_by(2).filter_map(path_in) {
            if !exists(named) {
                faults.push(format!("{}: nothing is at `{named}`", document.display()));
            }
            count += 1;
        }
    }
    assert!(count > 200, "only {count} paths were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn dead_paths_and_anchors_are_noticed() {
    assert_eq!(path_in("orders/gone.rs"), Some("orders/gone.rs"));
    assert_eq!(path_in("gone.rs::tests"), Some("gone.rs"));
    assert_eq!(path_in("crates/domain/"), Some("crates/domain"));
    for other in ["order.json", "/etc/notary-orders/notary-orders.env", "application/json", "a.b"] {
        assert_eq!(path_in(other), None, "{other}");
    }
    let found = anchors("# A guide\n```sh\n# a comment\n```\n### Alerts: mails, `x_y` and 2\n");
    let expected = ["a-guide", "alerts-mails-x_y-and-2"];
    assert_eq!(found, expected.map(str::to_owned).into());
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
