//! The rule that modules and folders of a crate do not use each other in circles.
//!
//! Each path is followed to the module that defines its item: through re-exports, `mod.rs` and the root of the
//! crate. A re-export itself is no use, because a folder may show what its modules have.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use syn::{
    File, Item, ItemMod, ItemUse, Macro, UseTree, Visibility,
    visit::{self, Visit},
};

/// The modules that each module uses, by their paths, such as `rows::order`. The root of a crate is empty.
pub type Uses = BTreeMap<String, BTreeSet<String>>;

/// Longest chain of re-exports that is followed.
const MAX_CHAIN: usize = 8;

/// Returns what the modules of the crate in `folder` use of each other, without tests.
pub fn uses(folder: &Path) -> Uses {
    let mut files = BTreeMap::new();
    read(&folder.join("src"), "", &mut files);
    uses_of(&files)
}

fn uses_of(files: &BTreeMap<String, File>) -> Uses {
    let modules: Modules =
        files.iter().map(|(path, file)| (path.clone(), Module::of(file))).collect();
    let uses_of = |(path, file): (&String, &File)| {
        let mut paths = Paths::default();
        paths.visit_file(file);
        // A variable may have the name of a module.
        let is_module =
            |used: &&Vec<String>| used.len() > 1 || !modules.contains_key(&join(path, &used[0]));
        let used = paths.0.iter().filter(is_module);
        let used = used.filter_map(|used| resolve(&modules, path, used, MAX_CHAIN));
        (path.clone(), used.filter(|used| used != path).collect())
    };
    files.iter().map(uses_of).collect()
}

/// Returns the circles among modules, and among the modules and folders of each folder. What is below a folder
/// counts as the folder.
pub fn circles(uses: &Uses) -> Vec<Uses> {
    let folders: BTreeSet<&str> =
        uses.keys().map(|path| path.rsplit_once("::").map_or("", |(parent, _)| parent)).collect();
    let graphs = folders.into_iter().map(|folder| siblings(uses, folder));
    graphs.chain([uses.clone()]).map(only_circles).filter(|circles| !circles.is_empty()).collect()
}

/// Returns what the modules and folders of a folder use of each other.
fn siblings(uses: &Uses, folder: &str) -> Uses {
    let child = |path: &str| {
        let below = match folder {
            "" => path,
            folder => path.strip_prefix(folder)?.strip_prefix("::")?,
        };
        let name = below.split("::").next().filter(|name| !name.is_empty())?;
        Some(join(folder, name))
    };
    let mut found = Uses::new();
    for (path, others) in uses {
        let Some(own) = child(path) else { continue };
        let others = others.iter().filter_map(|other| child(other)).filter(|it| *it != own);
        found.entry(own.clone()).or_default().extend(others);
    }
    found
}

/// Removes what uses nothing that remains, or is not used, until only circles and what connects them are left.
fn only_circles(mut graph: Uses) -> Uses {
    loop {
        let remaining: BTreeSet<String> = graph.keys().cloned().collect();
        for used in graph.values_mut() {
            used.retain(|used| remaining.contains(used));
        }
        let used: BTreeSet<String> = graph.values().flatten().cloned().collect();
        graph.retain(|module, uses| !uses.is_empty() && used.contains(module));
        if graph.len() == remaining.len() {
            return graph;
        }
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}::{name}") }
}

/// Reads the production code of every module.
fn read(folder: &Path, prefix: &str, found: &mut BTreeMap<String, File>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if name.ends_with("tests") || name == "test_support" {
            continue;
        }
        if path.is_dir() {
            read(&path, &join(prefix, name), found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_root = prefix.is_empty() && ["lib", "main"].contains(&name);
            // The root of a program with a library has a few lines.
            if name == "main" && folder.join("lib.rs").exists() {
                continue;
            }
            let module =
                if is_root || name == "mod" { prefix.to_owned() } else { join(prefix, name) };
            found.insert(module, syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap());
        }
    }
}

type Modules = BTreeMap<String, Module>;

/// The names of a module, and where each comes from.
#[derive(Default)]
struct Module {
    /// The names that it defines itself.
    items: BTreeSet<String>,
    /// The paths that names come from: its imports and re-exports.
    imports: BTreeMap<String, Vec<String>>,
    /// The paths of which it re-exports everything.
    globs: Vec<Vec<String>>,
}

impl Module {
    fn of(file: &File) -> Self {
        let mut module = Self::default();
        for item in &file.items {
            match item {
                Item::Use(item) => {
                    for (name, path) in leaves(&item.tree) {
                        match name {
                            Some(name) => {
                                module.imports.insert(name, path);
                            }
                            None => module.globs.push(path),
                        }
                    }
                }
                item => module.items.extend(name(item)),
            }
        }
        module
    }
}

/// Returns the name that an item defines.
fn name(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref()?.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        _ => return None,
    })
}

/// Returns the names and paths of an import. A glob has no name.
fn leaves(tree: &UseTree) -> Vec<(Option<String>, Vec<String>)> {
    let below = |first: String, tree: &UseTree| {
        let with = |(name, path): (Option<String>, Vec<String>)| {
            let name = name.map(|name| if name == "self" { first.clone() } else { name });
            let path = path.into_iter().filter(|part| part != "self");
            (name, [first.clone()].into_iter().chain(path).collect())
        };
        leaves(tree).into_iter().map(with).collect()
    };
    match tree {
        UseTree::Path(path) => below(path.ident.to_string(), &path.tree),
        UseTree::Name(name) => vec![(Some(name.ident.to_string()), vec![name.ident.to_string()])],
        UseTree::Rename(name) => {
            vec![(Some(name.rename.to_string()), vec![name.ident.to_string()])]
        }
        UseTree::Glob(_) => vec![(None, Vec::new())],
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
    }
}

/// Returns the module that defines what a path in `module` means; `None` for another crate.
fn resolve(modules: &Modules, module: &str, path: &[String], chain: usize) -> Option<String> {
    let mut here = match path.first()?.as_str() {
        "crate" => String::new(),
        "self" => module.to_owned(),
        "super" => parent(module),
        first => {
            let child = join(module, first);
            if !modules.contains_key(&child) {
                // A name that the module imports, or another crate.
                let imported = modules[module].imports.get(first).filter(|_| chain > 0)?;
                let path = [imported.as_slice(), &path[1..]].concat();
                return resolve(modules, module, &path, chain - 1);
            }
            child
        }
    };
    for at in 1..path.len() {
        let name = &path[at];
        let child = join(&here, name);
        if name == "super" {
            here = parent(&here);
        } else if modules.contains_key(&child) {
            here = child;
        } else {
            return Some(definition(modules, &here, &path[at..], chain).unwrap_or(here));
        }
    }
    Some(here)
}

/// Follows the re-exports of a module to an item.
fn definition(modules: &Modules, here: &str, path: &[String], chain: usize) -> Option<String> {
    let module = modules.get(here)?;
    if chain == 0 || module.items.contains(&path[0]) {
        return None;
    }
    if let Some(imported) = module.imports.get(&path[0]) {
        return resolve(modules, here, &[imported.as_slice(), &path[1..]].concat(), chain - 1);
    }
    module.globs.iter().find_map(|glob| {
        let from = resolve(modules, here, glob, chain - 1).filter(|from| from != here)?;
        let is_there = modules[&from].items.contains(&path[0]);
        if is_there { Some(from) } else { definition(modules, &from, path, chain - 1) }
    })
}

fn parent(module: &str) -> String {
    module.rsplit_once("::").map_or_else(String::new, |(parent, _)| parent.to_owned())
}

/// The paths in the code of a module.
#[derive(Default)]
struct Paths(Vec<Vec<String>>);

impl Visit<'_> for Paths {
    fn visit_item_use(&mut self, item: &ItemUse) {
        if matches!(item.vis, Visibility::Inherited) {
            self.0.extend(leaves(&item.tree).into_iter().map(|(_, path)| path));
        }
    }

    fn visit_path(&mut self, path: &syn::Path) {
        self.0.push(path.segments.iter().map(|part| part.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    /// Finds the paths below `crate` and `super` in what a macro is given.
    fn visit_macro(&mut self, call: &Macro) {
        let text = call.tokens.to_string().replace("::", " :: ");
        let words: Vec<&str> = text.split_whitespace().collect();
        for start in 0..words.len() {
            if ["crate", "super"].contains(&words[start]) {
                let path = words[start..].chunks(2);
                let path = path.take_while(|pair| pair.get(1) == Some(&"::"));
                let path: Vec<String> = path.map(|pair| pair[0].to_owned()).collect();
                let last = words.get(start + 2 * path.len()).map(ToString::to_string);
                self.0.push(path.into_iter().chain(last).collect());
            }
        }
        visit::visit_macro(self, call);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the circles of a crate with these modules.
    fn circles_of(modules: &[(&str, &str)]) -> Vec<Uses> {
        let parse =
            |(path, code): &(&str, &str)| ((*path).to_owned(), syn::parse_file(code).unwrap());
        circles(&uses_of(&modules.iter().map(parse).collect()))
    }

    #[test]
    fn circle_of_two_modules_is_found() {
        let mutual = [("a", "use crate::b::B;"), ("b", "pub struct B; fn f() { crate::a::f() }")];
        assert_eq!(circles_of(&mutual).len(), 2, "as modules, and in their folder");
        assert!(circles_of(&[("a", "use crate::b::B;"), ("b", "pub struct B;")]).is_empty());
    }

    #[test]
    fn circle_through_a_re_export_is_found() {
        let modules = [
            ("", "pub mod a; pub mod b; pub use b::B;"),
            ("a", "use crate::B; pub struct A;"),
            ("b", "pub use self::inner::*;"),
            ("b::inner", "use crate::a::A; pub struct B;"),
        ];
        assert!(!circles_of(&modules).is_empty());
    }

    #[test]
    fn circle_of_folders_without_one_of_modules_is_found() {
        let modules = [
            ("a", "pub mod one; pub mod two;"),
            ("a::one", "use crate::b::one::B;"),
            ("a::two", "pub struct A;"),
            ("b", "pub mod one; pub mod two;"),
            ("b::one", "pub struct B;"),
            ("b::two", "use crate::a::two::A;"),
        ];
        let circles = circles_of(&modules);
        let names: Vec<_> = circles.iter().flat_map(BTreeMap::keys).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn module_of_a_folder_and_what_is_below_make_a_circle() {
        let modules = [
            ("a", "mod b; pub struct A; fn f() { b::f() }"),
            ("a::b", "use super::A; pub fn f() {}"),
        ];
        assert_eq!(circles_of(&modules).len(), 1);
    }

    #[test]
    fn root_of_a_crate_is_a_module() {
        let modules = [
            ("", "mod a; pub struct Root; fn f() { a::f() }"),
            ("a", "use crate::Root; pub fn f() {}"),
        ];
        assert_eq!(circles_of(&modules).len(), 1);
    }
}
