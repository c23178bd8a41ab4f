//! A server of its own for each test, and files to put there.

use std::sync::{Arc, Mutex};

use adapter_object_store::ObjectBlobStore;
use contract_tests::{blob_store::spooled, fakes::CountingEntropy};
use domain::{
    document::{ObjectKey, SpooledFile},
    ports::{BlobStore, StoreError, error_chain},
};
use tempfile::TempDir;
use test_servers::s3::{S3Server, Treatment};

pub const MIB: usize = 1024 * 1024;
/// More than one part, so that it is put in two.
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

    pub async fn put(&self, store: &ObjectBlobStore, size: usize) -> Result<(), StoreError> {
        let (key, file) = self.make(size);
        store.put(&key, &file).await
    }
}

pub fn open(server: &S3Server) -> ObjectBlobStore {
    ObjectBlobStore::open(&server.url(), server.variables()).unwrap()
}

pub fn variables<'a>(
    variables: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<(String, String)> {
    variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The whole of an error that is one of those after which the same call may succeed.
pub fn unavailable(error: &StoreError) -> String {
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    error_chain(error)
}

/// What was asked of a server: method, address, and what a test wants to know of the rest.
pub type Log<T> = Arc<Mutex<Vec<T>>>;

/// Has a server note its requests, as a method and the part of an upload that it is about.
pub fn log_requests(server: &S3Server) -> Log<String> {
    let log = Log::default();
    let noted = Arc::clone(&log);
    server.treat(move |request| {
        let query = request.uri.query().unwrap_or_default();
        let about = query
            .split('&')
            .find(|pair| pair.starts_with("partNumber"))
            .unwrap_or(if query.starts_with("uploadId") { "upload" } else { query });
        noted.lock().unwrap().push(format!("{} {about}", request.method).trim_end().to_owned());
        Treatment::Serve
    });
    log
}
