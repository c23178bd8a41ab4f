//! The service in a mainstream stack, in `bench/peers/`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The files of `bench/peers/`.
const FILES: [(&str, &str); 4] = [
    ("package.json", include_str!("../../peers/package.json")),
    (LOCK, include_str!("../../peers/package-lock.json")),
    ("server.js", include_str!("../../peers/server.js")),
    ("order.sql", super::plain::ORDER),
];
const LOCK: &str = "package-lock.json";

/// Installs the service and its packages beside this program, unless they are there.
///
/// # Panics
/// If `npm` is missing or fails.
pub fn install() -> PathBuf {
    let folder = std::env::current_exe().unwrap().with_file_name("peers");
    fs::create_dir_all(&folder).unwrap();
    let installed = folder.join("node_modules").exists()
        && fs::read_to_string(folder.join(LOCK)).is_ok_and(|lock| lock == FILES[1].1);
    for (name, text) in FILES {
        fs::write(folder.join(name), text).unwrap();
    }
    if !installed {
        // As `scripts/test.sh` does.
        let npm = Command::new("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
            .current_dir(&folder)
            .stdout(Stdio::null())
            .status()
            .expect("npm is installed, beside Node.js 20 or newer");
        assert!(npm.success(), "npm ci in {}", folder.display());
    }
    folder
}

/// Returns the command that starts an installed service.
pub fn command(installed: &Path) -> Command {
    let mut command = Command::new("node");
    command.arg(installed.join("server.js")).env("NODE_ENV", "production");
    command
}
