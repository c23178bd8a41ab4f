//! The rule that the modules of a crate do not use each other in circles.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Asserts that no module of a crate uses a module that uses it. `folder` is the folder of
/// the crate.
pub fn assert_no_circular_uses(folder: &Path) {
    let mut code = BTreeMap::new();
    read(&folder.join("src"), "", &mut code);
    let mut graph: BTreeMap<&String, BTreeSet<String>> =
        code.iter().map(|(module, text)| (module, uses(module, text, &code))).collect();
    assert!(graph.values().any(|used| !used.is_empty()), "no module uses another");
    // Removes modules that use no remaining module, until only circles are left.
    loop {
        let remaining: BTreeSet<String> = graph.keys().map(ToString::to_string).collect();
        graph.retain(|_, used| !used.is_disjoint(&remaining));
        if graph.len() == remaining.len() {
            break;
        }
    }
    assert!(graph.is_empty(), "circular uses: {graph:#?}");
}

/// Reads the production code of every module, by its path, such as `rows::order`. The crate root
/// may use every module, so it is left out.
fn read(folder: &Path, prefix: &str, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if name.ends_with("tests") || ["lib", "main", "test_support"].contains(&name) {
            continue;
        }
        if path.is_dir() {
            read(&path, &format!("{prefix}{name}::"), found);
        } else {
            let code = fs::read_to_string(&path).unwrap();
            let production = code.split("#[cfg(test)]\nmod tests").next().unwrap();
            found.insert(format!("{prefix}{name}"), production.to_owned());
        }
    }
}

/// Returns the modules that a module uses.
fn uses(module: &str, code: &str, all: &BTreeMap<String, String>) -> BTreeSet<String> {
    let parent =
        module.rsplit_once("::").map_or(String::new(), |(parent, _)| format!("{parent}::"));
    let mut used = Vec::new();
    for (start, prefix) in
        [("crate::", ""), ("self::", &format!("{module}::")), ("super::", &parent)]
    {
        for (at, _) in code.match_indices(start) {
            if !code[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | ':')) {
                expand(&code[at + start.len()..], prefix, &mut used);
            }
        }
    }
    // The longest module of a path: what follows it are items.
    let module_of = |path: String| {
        let starts_path =
            |module: &&String| path == **module || path.starts_with(&format!("{module}::"));
        all.keys().filter(starts_path).max_by_key(|module| module.len()).cloned()
    };
    used.into_iter().filter_map(module_of).filter(|used| used != module).collect()
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
    // Skips a renaming, such as `as _`.
    rest.trim_start_matches(|c: char| !matches!(c, ',' | '}'))
}
