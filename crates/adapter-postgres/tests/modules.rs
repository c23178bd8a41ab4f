//! No module of the adapter uses itself through others.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Adds what each source file of a folder uses, by the name of its top-level module. The crate root
/// may use every module: it is left out.
fn add_uses(folder: &Path, module: Option<&str>, uses: &mut BTreeMap<String, BTreeSet<String>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let module = module.unwrap_or(name);
        if ["lib", "tests"].contains(&module) {
            continue;
        }
        if path.is_dir() {
            add_uses(&path, Some(module), uses);
            continue;
        }
        let used = uses.entry(module.to_owned()).or_default();
        for path in fs::read_to_string(&path).unwrap().split("crate::").skip(1) {
            // One path, or a list in braces; paths inside of a path's braces are not modules.
            let list = path.strip_prefix('{').map_or(path, |list| list.split("};").next().unwrap());
            let first = |path: &str| path.split("::").next().unwrap().trim().to_owned();
            let several = path.starts_with('{');
            used.extend(list.split('\n').take(if several { usize::MAX } else { 1 }).map(first));
        }
        used.remove(module);
    }
}

#[test]
fn modules_have_no_circular_uses() {
    let mut uses = BTreeMap::new();
    add_uses(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), None, &mut uses);
    assert!(uses["orders"].contains("failure") && uses["orders"].contains("schema"), "{uses:?}");
    loop {
        let modules: BTreeSet<String> = uses.keys().cloned().collect();
        uses.retain(|_, used| !used.is_disjoint(&modules));
        if uses.len() == modules.len() {
            break;
        }
    }
    assert!(uses.is_empty(), "these modules use each other: {uses:#?}");
}
