//! Dependencies point inward: the application knows the adapters, the adapters know the domain, and
//! no adapter knows another.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, what cannot go on fails the test"
)]

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

const PREFIX: &str = "notary-orders-";

/// What each crate of the workspace may depend on, within the workspace.
fn allowed() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let adapters = [
        "adapter-http",
        "adapter-mail",
        "adapter-object-store",
        "adapter-postgres",
        "adapter-sqlite",
    ];
    let mut allowed: BTreeMap<_, BTreeSet<_>> =
        adapters.iter().map(|adapter| (*adapter, BTreeSet::from(["domain"]))).collect();
    for database in ["adapter-postgres", "adapter-sqlite"] {
        allowed.entry(database).or_default().insert("group-commit");
    }
    allowed.insert("group-commit", BTreeSet::new());
    allowed.insert("domain", BTreeSet::new());
    allowed.insert("contract-tests", BTreeSet::from(["domain"]));
    allowed.insert("fuzz-properties", BTreeSet::from(["adapter-http", "domain"]));
    allowed.insert("test-servers", BTreeSet::new());
    allowed.insert(
        "bench",
        BTreeSet::from(["adapter-http", "contract-tests", "domain", "test-servers"]),
    );
    allowed.insert("notary-orders", adapters.into_iter().chain(["domain"]).collect());
    allowed
}

/// What the domain may use: no runtime, no web, no SQL, no clock or randomness of its own.
const DOMAIN_MAY_USE: [&str; 13] = [
    "async-trait",
    "bytes",
    "futures-core",
    "futures-util",
    "garde",
    "regex",
    "serde",
    "sha2",
    "subtle",
    "thiserror",
    "time",
    "tz-rs",
    "tzdb",
];
/// And behind a feature: mocks, and schemas derived from its types (docs/adr/0002).
const DOMAIN_MAY_OFFER: [&str; 2] = ["mockall", "utoipa"];

fn packages() -> Vec<Package> {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    metadata.workspace_packages().into_iter().cloned().collect()
}

fn short(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

#[test]
fn every_crate_depends_only_on_what_lies_further_inside() {
    let allowed = allowed();
    let packages = packages();
    let members: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    for package in &packages {
        let name = short(&package.name);
        let may = allowed
            .get(name)
            .unwrap_or_else(|| panic!("say in this test what the new crate {name} may depend on"));
        for dependency in package
            .dependencies
            .iter()
            .filter(|dependency| members.contains(dependency.name.as_str()))
        {
            let target = short(&dependency.name);
            let for_tests = dependency.kind == DependencyKind::Development
                && ["contract-tests", "test-servers"].contains(&target);
            assert!(may.contains(target) || for_tests, "{name} must not depend on {target}");
        }
    }
}

#[test]
fn the_domain_uses_no_technology() {
    let packages = packages();
    let domain = packages.iter().find(|package| short(&package.name) == "domain").unwrap();
    for dependency in
        domain.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal)
    {
        let name = dependency.name.as_str();
        let may = DOMAIN_MAY_USE.contains(&name)
            || dependency.optional && DOMAIN_MAY_OFFER.contains(&name);
        assert!(may, "the domain must not depend on {name}");
    }
}

/// The lints of the workspace forbid `unsafe`, and what is forbidden cannot be allowed anywhere; a
/// crate that does not inherit them would have none.
#[test]
fn no_crate_has_unsafe_code() {
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
fn errors_without_a_type_are_for_the_application_alone() {
    for package in packages().iter().filter(|package| short(&package.name) != "notary-orders") {
        assert!(
            package.dependencies.iter().all(|dependency| dependency.name != "anyhow"),
            "{} must have typed errors",
            package.name
        );
    }
}
