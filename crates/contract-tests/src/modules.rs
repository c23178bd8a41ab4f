//! The rule that the modules of a crate do not use each other in circles.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Asserts that no module of a crate uses a module that uses it and, if `of_folders`, no top folder a folder
/// that uses it. `folder` is the folder of the crate. Returns the number of uses.
pub fn assert_no_circular_uses(folder: &Path, of_folders: bool) -> usize {
    let mut code = BTreeMap::new();
    read(&folder.join("src"), "", &mut code);
    let files: Graph =
        code.iter().map(|(module, text)| (module.clone(), uses(module, text, &code))).collect();
    let count = files.values().map(BTreeSet::len).sum();
    let mut folders = Graph::new();
    for (module, used) in files.iter().filter(|_| of_folders) {
        let used = used.iter().map(|used| top(used)).filter(|used| *used != top(module));
        folders.entry(top(module)).or_default().extend(used);
    }
    for graph in [files, folders] {
        let circles = circles(graph);
        assert!(circles.is_empty(), "circular uses in {}: {circles:#?}", folder.display());
    }
    count
}

/// What each module, or each folder, uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Returns the top folder of a module, or the module itself at the top.
fn top(module: &str) -> String {
    module.split_once("::").map_or_else(|| module.to_owned(), |(folder, _)| format!("{folder}/"))
}

/// Removes what uses nothing that remains, until only circles are left.
fn circles(mut graph: Graph) -> Graph {
    loop {
        let remaining: BTreeSet<String> = graph.keys().cloned().collect();
        graph.retain(|_, used| !used.is_disjoint(&remaining));
        if graph.len() == remaining.len() {
            return graph;
        }
    }
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
