//! The service in a mainstream stack, in `bench/peers/`.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;
use test_servers::postgres::Database;

use crate::process::Server;

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

/// The running service. Dropping it stops it.
pub struct Fastify {
    child: Child,
    pub address: String,
    documents: TempDir,
}

impl Fastify {
    /// Starts an installed service on a database with the plain schema.
    pub fn start(installed: &Path, database: &Database<'_>) -> Self {
        let documents = tempfile::Builder::new().prefix("notary-orders-bench").tempdir().unwrap();
        let mut child = Command::new("node")
            .arg(installed.join("server.js"))
            .env("NODE_ENV", "production")
            .env("DATABASE_URL", database.url())
            .env("DOCUMENTS", documents.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        assert!(!address.is_empty(), "the Fastify service did not start");
        Self { child, address: address.trim().to_owned(), documents }
    }

    /// Returns its processes.
    pub fn server(&self) -> Server {
        Server(self.child.id())
    }

    /// Returns the folder of the documents.
    pub fn documents(&self) -> &Path {
        self.documents.path()
    }
}

impl Drop for Fastify {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
