//! The contract on a real clamd, over its socket and over TCP.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use contract_tests::{
    blob_store::spooled, document_scanner::DocumentScannerFixture, fakes::CountingEntropy,
};
use domain::ports::{DocumentScanner, ScanError};
use test_servers::clamd;

use crate::Clamd;

struct Fixture {
    clamd: clamd::Clamd,
    scanner: Arc<Clamd>,
}

impl Fixture {
    fn on(url: fn(&clamd::Clamd) -> String) -> Self {
        let clamd = clamd::Clamd::start();
        let scanner = Clamd::open(&url(&clamd)).unwrap().with_time_limit(Duration::from_secs(5));
        Self { scanner: Arc::new(scanner), clamd }
    }
}

#[async_trait]
impl DocumentScannerFixture for Fixture {
    fn scanner(&self) -> Arc<dyn DocumentScanner> {
        self.scanner.clone()
    }

    fn malware(&self) -> &'static [u8] {
        clamd::MALWARE
    }

    fn max_bytes(&self) -> usize {
        clamd::MAX_STREAM
    }

    async fn stop(&self) {
        self.clamd.stop();
    }

    async fn start_again(&self) {
        self.clamd.start_again();
    }

    async fn silence(&self) {
        self.clamd.silence();
    }

    async fn go_on(&self) {
        self.clamd.go_on();
    }
}

mod socket {
    contract_tests::contract!(
        document_scanner,
        super::Fixture::on(test_servers::clamd::Clamd::unix_url)
    );
}

mod tcp {
    contract_tests::contract!(
        document_scanner,
        super::Fixture::on(test_servers::clamd::Clamd::tcp_url)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_clamd_ends_the_scans_in_progress() {
    let Fixture { clamd, scanner } = Fixture::on(clamd::Clamd::unix_url);
    let scanner = Arc::into_inner(scanner).unwrap().with_time_limit(Duration::from_secs(600));
    let spool = tempfile::tempdir().unwrap();
    let (file, _) = spooled(spool.path(), clamd::MAX_STREAM, &CountingEntropy::default());
    clamd.silence();
    let scan = tokio::spawn(async move { scanner.scan(&file).await });
    clamd.stop();
    let outcome = scan.await.unwrap();
    assert!(matches!(outcome, Err(ScanError::Unavailable(_))), "{outcome:?}");
}
