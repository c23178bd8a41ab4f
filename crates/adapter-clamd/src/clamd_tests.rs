//! The contract on a real clamd, over its socket and over TCP.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use contract_tests::document_scanner::DocumentScannerFixture;
use domain::ports::DocumentScanner;
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
