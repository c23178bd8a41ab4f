//! `docs/security.md` walks three lists: no item is left out, and what a row says is shown by tests
//! that are there.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, what cannot go on fails the test"
)]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The items of ASVS 5.0: the number of requirements of each section of a chapter.
const ASVS: [(&str, &[u32]); 3] =
    [("4", &[5, 5, 2, 4]), ("5", &[1, 6, 3, 3]), ("16", &[1, 5, 4, 3, 4])];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The rows of a section's table, by the first word of their first column.
fn rows(section: &str) -> BTreeMap<String, Vec<String>> {
    let document = std::fs::read_to_string(root().join("docs/security.md")).unwrap();
    let text = document
        .split("\n## ")
        .find(|text| text.starts_with(section))
        .unwrap_or_else(|| panic!("no section {section}"));
    let table = text.lines().filter(|line| line.starts_with("| ")).skip(1).map(|line| {
        let columns: Vec<String> =
            line.trim_matches('|').split(" | ").map(|column| column.trim().to_owned()).collect();
        assert_eq!(columns.len(), 3, "{line}");
        (columns[0].split(' ').next().unwrap().to_owned(), columns)
    });
    let (mut rows, mut count) = (BTreeMap::new(), 0);
    for (item, columns) in table {
        count += 1;
        rows.insert(item, columns);
    }
    assert_eq!(rows.len(), count, "{section}: an item stands there twice");
    rows
}

fn asvs(chapter: &str, sections: &[u32]) -> Vec<String> {
    (1..)
        .zip(sections)
        .flat_map(|(section, &items)| {
            (1..=items).map(move |item| format!("{chapter}.{section}.{item}"))
        })
        .collect()
}

#[test]
fn every_item_of_every_list_has_a_row() {
    let numbered = |prefix: &str, count: u32| {
        (1..=count).map(|number| format!("{prefix}{number}")).collect::<Vec<_>>()
    };
    let mut lists = vec![
        ("File Upload Cheat Sheet".to_owned(), numbered("U", 23)),
        ("API Security Top 10 (2023)".to_owned(), numbered("API", 10)),
    ];
    lists.extend(ASVS.iter().map(|(chapter, sections)| {
        (format!("ASVS 5.0, chapter V{chapter}:"), asvs(chapter, sections))
    }));
    for (section, mut items) in lists {
        items.sort();
        assert_eq!(rows(&section).into_keys().collect::<Vec<_>>(), items, "{section}");
    }
}

/// Whether a function of this name in the source is a test.
fn is_test(source: &str, name: &str) -> bool {
    let Some((before, _)) = source.split_once(&format!("fn {name}(")) else { return false };
    // In `proptest!`, or with whatever attributes between.
    let attributes = before.rsplit("\n\n").next().unwrap();
    attributes.contains("#[test]") || attributes.contains("::test")
}

#[test]
fn every_row_is_shown_by_tests_that_are_there_or_says_why_by_none() {
    let mut shown = 0;
    for section in [
        "File Upload",
        "API Security",
        "ASVS 5.0, chapter V4",
        "ASVS 5.0, chapter V5",
        "ASVS 5.0, chapter V16",
        "Secrets",
    ] {
        for columns in rows(section).into_values() {
            let tests: Vec<&str> =
                columns[2].split('`').filter(|text| text.contains("::")).collect();
            let reason = columns[2].strip_prefix("no test: ");
            assert!(
                tests.is_empty() != reason.is_none_or(|reason| reason.len() < 20),
                "{columns:?}"
            );
            for test in tests {
                let (file, name) = test.split_once("::").unwrap();
                let source = std::fs::read_to_string(root().join("crates").join(file))
                    .unwrap_or_else(|error| panic!("{file}: {error}"));
                assert!(is_test(&source, name), "there is no test {test}");
                shown += 1;
            }
        }
    }
    assert!(shown > 80, "{shown}");
}

#[test]
fn whoever_looks_for_them_finds_both_documents() {
    for (document, link) in [
        ("README.md", "(SECURITY.md)"),
        ("README.md", "(docs/security.md)"),
        ("docs/architecture.md", "(security.md)"),
        ("docs/security.md", "(../SECURITY.md)"),
    ] {
        assert!(
            std::fs::read_to_string(root().join(document)).unwrap().contains(link),
            "{document}: {link}"
        );
    }
}
