//! Files to put, and a log of the requests of a server.

use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use adapter_object_store::{DocumentStore, TimeLimits};
use contract_tests::{blob_store::spooled, fakes::CountingEntropy};
use domain::{
    document::{ObjectKey, SpooledFile},
    ports::{StoreError, error_chain},
};
use tempfile::TempDir;
use test_servers::s3::{S3Server, Treatment};
use tokio::task::{JoinHandle, spawn_blocking};

/// Limits that no request meets on a busy machine.
pub const GENEROUS: TimeLimits = TimeLimits {
    connect: Duration::from_secs(600),
    request: Duration::from_secs(600),
    abort: Duration::from_secs(600),
    check: Duration::from_secs(600),
};

pub const MIB: usize = 1024 * 1024;
/// A size that needs two parts.
pub const LARGE: usize = 6 * MIB;

pub struct Files {
    pub entropy: CountingEntropy,
    spool: TempDir,
}

impl Files {
    pub fn new() -> Self {
        Self { entropy: CountingEntropy::default(), spool: TempDir::new().unwrap() }
    }

    pub fn make(&self, size: usize) -> (ObjectKey, SpooledFile) {
        (ObjectKey::random(&self.entropy), spooled(self.spool.path(), size, &self.entropy).0)
    }

    pub async fn put(&self, store: &Arc<dyn DocumentStore>, size: usize) -> Result<(), StoreError> {
        let (key, file) = self.make(size);
        store.put(&key, &file).await
    }
}

pub fn open(server: &S3Server) -> Arc<dyn DocumentStore> {
    adapter_object_store::open(&server.url(), server.variables(), GENEROUS).unwrap()
}

/// Puts an object in parts, and stops the server during the second one. Returns the put in progress.
pub async fn stop_during_put(
    server: S3Server,
    store: Arc<dyn DocumentStore>,
    files: &Files,
) -> (S3Server, JoinHandle<Result<(), StoreError>>) {
    let (second_part, wait) = mpsc::channel();
    server.treat(move |request| {
        if request.uri.query().is_some_and(|query| query.starts_with("partNumber=2")) {
            second_part.send(()).unwrap();
            return Treatment::Silence;
        }
        Treatment::Serve
    });
    let (key, file) = files.make(LARGE);
    let put = tokio::spawn(async move { store.put(&key, &file).await });
    let stopped = spawn_blocking(move || {
        wait.recv().unwrap();
        server.stop();
        server
    });
    (stopped.await.unwrap(), put)
}

pub fn owned<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<(String, String)> {
    variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Asserts that the store was unavailable, and returns the error with its causes.
pub fn unavailable(error: &StoreError) -> String {
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    error_chain(error)
}

/// Requests to a server, reduced to what a test checks.
pub type Log<T> = Arc<Mutex<Vec<T>>>;
