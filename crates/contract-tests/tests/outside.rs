//! An adapter outside the workspace, the example of the guide, runs the contract of its port.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
fn adapter_outside_the_workspace_keeps_the_contract_of_its_port() {
    let (root, temporary) = (root(), Path::new(env!("CARGO_TARGET_TMPDIR")));
    let (example, copy) =
        (root.join("docs/examples/memory-blob-store"), temporary.join("memory-blob-store"));
    fs::create_dir_all(copy.join("src")).unwrap();
    fs::copy(example.join("src/lib.rs"), copy.join("src/lib.rs")).unwrap();
    let manifest = fs::read_to_string(example.join("Cargo.toml")).unwrap();
    let manifest = manifest.replace("../../..", root.to_str().unwrap());
    fs::write(copy.join("Cargo.toml"), manifest).unwrap();
    // Cargo takes the versions of the workspace, which this machine has.
    fs::copy(root.join("Cargo.lock"), copy.join("Cargo.lock")).unwrap();

    let mut test = Command::new(env!("CARGO"));
    test.args(["test", "--offline", "--manifest-path"]).arg(copy.join("Cargo.toml"));
    // With the settings of the workspace, most libraries are compiled already.
    test.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
    let output = test.arg("--target-dir").arg(temporary.parent().unwrap()).output().unwrap();

    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let obligations = ["object_has_the_bytes_of_its_file", "file_with_other_bytes_is_rejected"];
    for obligation in obligations {
        assert!(printed.contains(&format!("test tests::{obligation} ... ok")), "{printed}");
    }
}

#[test]
fn guide_shows_how_the_example_runs_its_contract() {
    let guide = fs::read_to_string(root().join("docs/adapters.md")).unwrap();
    let code = fs::read_to_string(root().join("docs/examples/memory-blob-store/src/lib.rs"));
    let code = code.unwrap().replace("\n    ", "\n");
    let shown = guide.split("```rust\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(shown.lines().count() <= 10 && code.contains(shown), "{shown}");
}
