//! Every obligation is in the list of its contract, so that every adapter runs it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::HashSet, fs, path::Path};

fn sources(folder: &Path) -> String {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        // These have helpers of the obligations, and a second list of some.
        .filter(|path| {
            !["samples", "concurrency"]
                .map(|name| path.to_str().unwrap().contains(name))
                .contains(&true)
        })
        .map(|path| if path.is_dir() { sources(&path) } else { fs::read_to_string(path).unwrap() })
        .collect()
}

#[test]
fn every_obligation_is_in_a_list() {
    let source = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    // A signature may have its parameters on lines of their own.
    let signatures = source.replace("(\n    ", "(");
    let functions = signatures.lines().filter_map(|line| {
        let function = line.strip_prefix("pub ")?;
        function.strip_prefix("async ").unwrap_or(function).strip_prefix("fn ")?.split_once('(')
    });
    let fixtures = ["storage: &", "fixture: &", "clock: &", "entropy: &dyn"];
    let obligations: Vec<_> = functions
        .filter(|(_, parameters)| fixtures.iter().any(|fixture| parameters.starts_with(fixture)))
        .map(|(name, _)| name)
        .collect();
    assert!(obligations.len() > 100);
    // The lists stand between the name of a macro and its end.
    let lists = source.split("obligations!(").skip(1).map(|list| list.split(");").next().unwrap());
    let listed: HashSet<_> =
        lists.flat_map(|list| list.split(|c: char| c != '_' && !c.is_alphanumeric())).collect();
    for name in obligations {
        assert!(
            listed.contains(name),
            "no adapter runs {name}: add it to the list of its contract"
        );
    }
}

/// A store may have other tables, or none.
#[test]
fn storage_obligations_use_no_sql() {
    let source = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/storage"));
    for word in ["SELECT ", "UPDATE ", "INSERT ", "DELETE ", "SqlTables"] {
        assert!(!source.contains(word), "{word}");
    }
}
