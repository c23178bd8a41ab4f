//! The stores of the embedded default: SQLite, a folder of documents and a folder of mails.

#![allow(clippy::unused_self, reason = "the production wiring needs `self` here")]

use std::{
    any::Any,
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;
use test_servers::postgres::Cluster;

use crate::{
    harness::files_below,
    harness::service_process::{SqlSession, run, text},
};

/// How the mail store rejects mails.
#[derive(Clone, Copy)]
pub enum Refusal {
    /// The folder is gone.
    NoFolder,
}

/// SQL expression for the hash of a document as hex text.
pub const HEX_SHA256: &str = "lower(hex(sha256))";

pub struct Wiring {
    data: TempDir,
}

impl Wiring {
    /// Number of services that tests start on these stores at once. The embedded database has one process.
    pub const INSTANCES: usize = 1;

    pub fn new() -> Self {
        Self { data: tempfile::tempdir().unwrap() }
    }

    /// Equals `new`: the database runs inside the service.
    pub fn with_a_database_server() -> Self {
        Self::new()
    }

    /// Returns the database server that a test may stop, if there is one.
    pub fn own_database_server(&self) -> Option<&Cluster> {
        None
    }

    /// Returns the data directory.
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// Returns the flags for stores outside the data directory.
    pub fn flags(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the environment variables with credentials.
    pub fn environment(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    pub fn database(&self) -> PathBuf {
        self.data().join("notary-orders.sqlite")
    }

    /// Returns a program that executes SQL from its input.
    pub fn sql(&self) -> Command {
        let mut sqlite3 = Command::new("sqlite3");
        sqlite3.args(["-batch", "-bail", "-cmd", ".timeout 10000"]).arg(self.database());
        sqlite3
    }

    /// Executes SQL.
    pub fn execute(&self, statements: &str) -> Output {
        self.sql().arg(statements).output().unwrap()
    }

    /// Returns the lines of output of a query.
    pub fn lines(&self, query: &str) -> Vec<String> {
        text(self.execute(query)).lines().map(str::to_owned).collect()
    }

    /// Gives an order another identifier. Those of later orders are above it.
    pub fn raise_id(&self, order: i64, id: i64) {
        self.lines(&format!("DELETE FROM order_recipients WHERE order_id = {order}; UPDATE orders SET id = {id} WHERE id = {order}"));
    }

    /// Makes every later insert of an order fail with an internal error.
    pub fn spoil_database(&self) {
        self.lines("DROP TABLE documents; ALTER TABLE orders RENAME TO gone");
    }

    /// Holds the write lock until dropped, as another program would.
    pub fn lock_database(&self) -> Box<dyn Any> {
        Box::new(SqlSession::holding(self.sql(), "BEGIN IMMEDIATE"))
    }

    /// Returns a lock that no access is stored under until it is dropped.
    pub fn lock_accesses(&self) -> Box<dyn Any> {
        self.lock_database()
    }

    /// Creates the database, and holds a lock until dropped that the start waits for.
    pub fn lock_start(&self) -> Box<dyn Any> {
        run(self, &["migrate"]);
        self.lock_database()
    }

    /// Moves the database file away.
    pub fn break_database(&self) {
        std::fs::rename(self.database(), self.data().join("moved.sqlite")).unwrap();
    }

    /// Returns every stored object by its key.
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let folder = self.data().join("documents");
        let key = |path: &Path| path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned();
        files_below(&folder).iter().map(|path| (key(path), std::fs::read(path).unwrap())).collect()
    }

    /// Stores an object that no order refers to.
    pub fn put_object(&self, key: &str, content: &[u8]) {
        let path = self.data().join("documents").join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Removes every stored object.
    pub fn remove_objects(&self) {
        for key in self.objects().into_keys() {
            std::fs::remove_file(self.data().join("documents").join(key)).unwrap();
        }
    }

    /// Moves the folder of documents away.
    pub fn break_documents(&self) {
        std::fs::rename(self.data().join("documents"), self.data().join("documents-moved"))
            .unwrap();
    }

    /// Returns every delivered mail.
    pub fn mails(&self) -> Vec<String> {
        // A mail that is still being written has another extension.
        let delivered = files_below(&self.data().join("mail"))
            .into_iter()
            .filter(|path| path.extension().is_some_and(|extension| extension == "eml"));
        delivered.map(|path| std::fs::read_to_string(path).unwrap()).collect()
    }

    /// Moves the folder of mails away.
    pub fn break_mail(&self) {
        std::fs::rename(self.data().join("mail"), self.data().join("mail-moved")).unwrap();
    }

    /// Every way to reject mails.
    pub const REFUSALS: [Refusal; 1] = [Refusal::NoFolder];

    /// Makes the mail store reject mails.
    pub fn refuse_mails(&self, refusal: Refusal) {
        match refusal {
            Refusal::NoFolder => self.break_mail(),
        }
    }

    /// Returns the secrets that must not appear in any output.
    pub fn secrets() -> Vec<String> {
        Vec::new()
    }

    /// Moves the folder of mails back.
    pub fn mend_mail(&self) {
        std::fs::rename(self.data().join("mail-moved"), self.data().join("mail")).unwrap();
    }
}
