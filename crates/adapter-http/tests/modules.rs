//! No module of this crate uses one that uses it in turn.

#![allow(clippy::unwrap_used, reason = "in a test, what cannot go on fails the test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Returns the production code of every module by its path, such as `orders::record`.
fn modules(folder: &Path, prefix: &str, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if path.is_dir() {
            modules(&path, &format!("{prefix}{name}::"), found);
        } else if !name.ends_with("tests") && !["lib", "test_support"].contains(&name) {
            let code = fs::read_to_string(&path).unwrap();
            let production = code.split("#[cfg(test)]\nmod tests").next().unwrap();
            found.insert(format!("{prefix}{name}"), production.to_owned());
        }
    }
}

/// Returns the paths that follow `start` in the code, with groups in braces expanded.
fn paths_after(code: &str, start: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for (at, _) in code.match_indices(start) {
        let before = code[..at].chars().next_back().unwrap_or(' ');
        if !before.is_alphanumeric() && !matches!(before, '_' | ':') {
            expand(&code[at + start.len()..], "", &mut paths);
        }
    }
    paths
}

/// Expands the use tree at the start of `code`. Returns the rest of the code.
fn expand<'a>(code: &'a str, prefix: &str, paths: &mut Vec<String>) -> &'a str {
    let code = code.trim_start();
    if let Some(mut rest) = code.strip_prefix('{') {
        while !rest.is_empty() {
            rest = rest.trim_start_matches([' ', '\n', ',']);
            if let Some(rest) = rest.strip_prefix('}') {
                return rest;
            }
            rest = expand(rest, prefix, paths);
        }
        return rest;
    }
    let end = code.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(code.len());
    let (name, rest) = code.split_at(end);
    if let Some(rest) = rest.strip_prefix("::") {
        return expand(rest, &format!("{prefix}{name}::"), paths);
    }
    paths.push(format!("{prefix}{name}"));
    // Skips `as _`, too.
    rest.trim_start_matches(|c: char| !matches!(c, ',' | '}'))
}

/// Returns the modules that a module uses.
fn uses(module: &str, code: &str, all: &BTreeMap<String, String>) -> BTreeSet<String> {
    let parent = module.rsplit_once("::").map_or("", |(parent, _)| parent);
    let within = |module: &str, path: &str| match module {
        "" => path.to_owned(),
        module => format!("{module}::{path}"),
    };
    let absolute = paths_after(code, "crate::");
    let children = paths_after(code, "self::").into_iter().map(|path| within(module, &path));
    let siblings = paths_after(code, "super::").into_iter().map(|path| within(parent, &path));
    let used = absolute.into_iter().chain(children).chain(siblings);
    // The longest known module of a path: what follows are items.
    let module_of = |path: String| {
        all.keys()
            .filter(|known| path == **known || path.starts_with(&format!("{known}::")))
            .max_by_key(|known| known.len())
            .cloned()
    };
    used.filter_map(module_of).filter(|used| used != module).collect()
}

#[test]
fn no_modules_use_each_other_in_a_circle() {
    let mut code = BTreeMap::new();
    modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut code);
    let mut graph: BTreeMap<String, BTreeSet<String>> =
        code.iter().map(|(module, text)| (module.clone(), uses(module, text, &code))).collect();
    assert!(graph["routes"].contains("orders::create_json"), "{graph:?}");
    assert!(graph["orders::create_json"].contains("rate_limit"), "{graph:?}");
    // Removes modules that use no remaining module until only circles are left.
    loop {
        let free: BTreeSet<String> = graph
            .iter()
            .filter(|(_, used)| used.is_empty())
            .map(|(module, _)| module.clone())
            .collect();
        if free.is_empty() {
            break;
        }
        graph.retain(|module, _| !free.contains(module));
        for used in graph.values_mut() {
            used.retain(|used| !free.contains(used));
        }
    }
    assert!(graph.is_empty(), "circular uses: {graph:#?}");
}
