//! A service beside which the service is measured.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::{folder::Folder, process::Server};

/// The running service. Dropping it stops it.
pub struct PeerService {
    child: Child,
    pub address: String,
    documents: Folder,
}

impl PeerService {
    /// Starts a service on a database: a URL, or a file of SQLite. It prints its address, and ends
    /// with its standard input.
    pub fn start(mut command: Command, database: &str) -> Self {
        let documents = Folder::new();
        let mut child = command
            .env("DATABASE_URL", database)
            .env("DOCUMENTS", documents.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        assert!(!address.is_empty(), "the peer did not start");
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

impl Drop for PeerService {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
