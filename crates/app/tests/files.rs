//! Checks that every source file belongs to a program: a file of tests that no module list names would
//! run nowhere.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use cargo_metadata::MetadataCommand;
use syn::{Expr, ExprLit, Item, Lit, Meta};

/// Adds a file and those of its modules. `folder` has its modules.
fn follow(file: &Path, folder: &Path, found: &mut BTreeSet<PathBuf>) {
    let text =
        fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let parsed =
        syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    found.insert(file.canonicalize().unwrap());
    modules(&parsed.items, file.parent().unwrap(), folder, found);
}

/// Follows the modules among items. A `path` counts from the folder `beside` them.
fn modules(items: &[Item], beside: &Path, folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for module in items.iter().filter_map(|item| match item {
        Item::Mod(module) => Some(module),
        _ => None,
    }) {
        let name = module.ident.to_string();
        let inner = folder.join(&name);
        let path = module.attrs.iter().find_map(|attribute| match &attribute.meta {
            Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
                Expr::Lit(ExprLit { lit: Lit::Str(path), .. }) => Some(path.value()),
                _ => None,
            },
            _ => None,
        });
        match (&module.content, path) {
            (Some((_, items)), _) => modules(items, &inner, &inner, found),
            (None, Some(path)) => {
                let file = beside.join(path);
                // Its own modules are beside it.
                follow(&file, file.parent().unwrap(), found);
            }
            (None, None) => {
                let flat = folder.join(format!("{name}.rs"));
                let file = if flat.exists() { flat } else { inner.join("mod.rs") };
                follow(&file, &inner, found);
            }
        }
    }
}

/// Adds all source files in a folder.
fn sources(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.insert(path.canonicalize().unwrap());
        }
    }
}

#[test]
fn every_source_file_is_a_module_of_a_program() {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    let (mut compiled, mut existing) = (BTreeSet::new(), BTreeSet::new());
    for package in metadata.workspace_packages() {
        let folder = package.manifest_path.parent().unwrap();
        for name in ["src", "tests"] {
            sources(folder.join(name).as_std_path(), &mut existing);
        }
        for target in &package.targets {
            let root = target.src_path.as_std_path();
            follow(root, root.parent().unwrap(), &mut compiled);
        }
    }
    let forgotten: Vec<_> = existing.difference(&compiled).collect();
    assert!(forgotten.is_empty() && existing.len() > 300, "no module list names {forgotten:?}");
}
