//! The rule that the modules of a crate do not use each other in circles.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use syn::{
    File, Ident, ItemMod, ItemUse, UseTree, Visibility,
    visit::{self, Visit},
};

/// Asserts that no module of a crate uses a module that uses it, and no top folder a folder that uses
/// it. `folder` is the folder of the crate. Returns the number of uses.
pub fn assert_no_circular_uses(folder: &Path) -> usize {
    let mut code = BTreeMap::new();
    read(&folder.join("src"), "", &mut code);
    let files: Graph =
        code.iter().map(|(module, text)| (module.clone(), uses(module, text, &code))).collect();
    let count = files.values().map(BTreeSet::len).sum();
    let mut folders = Graph::new();
    for (module, used) in &files {
        let used = used.iter().map(|used| top(used)).filter(|used| *used != top(module));
        folders.entry(top(module)).or_default().extend(used);
    }
    for graph in [files, folders] {
        let circles = circles(graph);
        assert!(circles.is_empty(), "circular uses in {}: {circles:#?}", folder.display());
    }
    count
}

/// The modules, or folders, that each one uses.
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
fn read(folder: &Path, prefix: &str, found: &mut BTreeMap<String, File>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if name.ends_with("tests") || ["lib", "main", "test_support"].contains(&name) {
            continue;
        }
        if path.is_dir() {
            read(&path, &format!("{prefix}{name}::"), found);
        } else {
            let module = format!("{prefix}{name}");
            let module = module.strip_suffix("::mod").unwrap_or(&module).to_owned();
            found.insert(module, syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap());
        }
    }
}

/// Returns the modules that a module uses.
fn uses(module: &str, file: &File, all: &BTreeMap<String, File>) -> BTreeSet<String> {
    let mut paths = Paths { module, found: Vec::new() };
    paths.visit_file(file);
    // The longest module of a path: what follows it are items.
    let module_of = |path: String| {
        let starts_path =
            |module: &&String| path == **module || path.starts_with(&format!("{module}::"));
        all.keys().filter(starts_path).max_by_key(|module| module.len()).cloned()
    };
    paths.found.into_iter().filter_map(module_of).filter(|used| used != module).collect()
}

/// Collects the paths of a module into its own crate.
struct Paths<'a> {
    module: &'a str,
    found: Vec<String>,
}

impl Paths<'_> {
    /// Adds a path below `crate`, `self` or `super`.
    fn add(&mut self, path: &[String]) {
        let parent = self.module.rsplit_once("::").map_or("", |(parent, _)| parent);
        let start = match path.first().map(String::as_str) {
            Some("crate") => "",
            Some("self") => self.module,
            Some("super") => parent,
            _ => return,
        };
        let path: Vec<_> =
            [start].into_iter().chain(path[1..].iter().map(String::as_str)).collect();
        self.found.push(path.join("::").trim_start_matches(':').to_owned());
    }

    fn add_tree(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: &Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.add_tree(&path.tree, &with(&path.ident)),
            UseTree::Name(name) => self.add(&with(&name.ident)),
            UseTree::Rename(name) => self.add(&with(&name.ident)),
            UseTree::Glob(_) => self.add(before),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.add_tree(tree, before));
            }
        }
    }
}

impl Visit<'_> for Paths<'_> {
    fn visit_item_use(&mut self, item: &ItemUse) {
        self.add_tree(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let segments: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.add(&segments);
        visit::visit_path(self, path);
    }

    /// Skips `pub(super)`, which uses nothing.
    fn visit_visibility(&mut self, _: &Visibility) {}

    /// Skips tests.
    fn visit_item_mod(&mut self, module: &ItemMod) {
        if module.ident != "tests" {
            visit::visit_item_mod(self, module);
        }
    }
}
