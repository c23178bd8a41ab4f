//! The stores of the embedded default: SQLite, a folder of documents and a folder of mails.

use std::{
    any::Any,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::{
    harness::files_below,
    harness::service_process::SqlSession,
    wiring::{Refusal, Stores},
};

pub struct Embedded {
    data: TempDir,
}

impl Embedded {
    pub fn new() -> Self {
        Self { data: tempfile::tempdir().unwrap() }
    }

    fn database(&self) -> PathBuf {
        self.data().join("notary-orders.sqlite")
    }

    fn documents(&self) -> PathBuf {
        self.data().join("documents")
    }

    /// Moves a file or folder of the data directory.
    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.data().join(from), self.data().join(to)).unwrap();
    }
}

impl Stores for Embedded {
    fn data(&self) -> &Path {
        self.data.path()
    }

    fn flags(&self) -> Vec<String> {
        Vec::new()
    }

    fn environment(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn sql(&self) -> Command {
        let mut sqlite3 = Command::new("sqlite3");
        sqlite3.args(["-batch", "-bail", "-cmd", ".timeout 10000"]).arg(self.database());
        sqlite3
    }

    fn execute(&self, statements: &str) -> Option<String> {
        let output = self.sql().arg(statements).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    fn spoil_database(&self) {
        self.execute("DROP TABLE documents; ALTER TABLE orders RENAME TO gone").unwrap();
    }

    /// Holds the write lock, as another program would.
    fn lock_database(&self) -> Box<dyn Any> {
        Box::new(SqlSession::holding(self.sql(), "BEGIN IMMEDIATE"))
    }

    fn lock_accesses(&self) -> Box<dyn Any> {
        self.lock_database()
    }

    fn break_database(&self) {
        self.rename("notary-orders.sqlite", "moved.sqlite");
    }

    fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let folder = self.documents();
        let key = |path: &Path| path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned();
        files_below(&folder).iter().map(|path| (key(path), fs::read(path).unwrap())).collect()
    }

    fn put_object(&self, key: &str, content: &[u8]) {
        let path = self.documents().join(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn remove_objects(&self) {
        for key in self.objects().into_keys() {
            fs::remove_file(self.documents().join(key)).unwrap();
        }
    }

    fn break_documents(&self) {
        self.rename("documents", "documents-moved");
    }

    fn mails(&self) -> Vec<String> {
        // A mail that is still being written has another extension.
        let delivered = files_below(&self.data().join("mail"))
            .into_iter()
            .filter(|path| path.extension().is_some_and(|extension| extension == "eml"));
        delivered.map(|path| fs::read_to_string(path).unwrap()).collect()
    }

    fn break_mail(&self) {
        self.rename("mail", "mail-moved");
    }

    fn mend_mail(&self) {
        self.rename("mail-moved", "mail");
    }

    fn refuse_mails(&self, _: Refusal) {
        self.break_mail();
    }
}
