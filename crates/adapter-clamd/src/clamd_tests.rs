//! The contract on a real clamd, over its socket and over TCP.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use contract_tests::document_scanner::DocumentScannerFixture;
use domain::ports::DocumentScanner;
use test_servers::clamd;

use crate::{Clamd, TimeLimits};

struct Fixture {
    clamd: clamd::Clamd,
    /// Scans with a limit that no scan meets on a busy machine.
    scanner: Arc<Clamd>,
    /// Scans with a limit that a test of a silent scanner can wait for.
    impatient: Arc<Clamd>,
    is_silent: AtomicBool,
}

impl Fixture {
    fn on(url: fn(&clamd::Clamd) -> String) -> Self {
        let clamd = clamd::Clamd::start();
        let within = |limit| {
            let limits = TimeLimits { scan: limit, check: limit };
            Arc::new(Clamd::open(&url(&clamd), limits).unwrap())
        };
        Self {
            scanner: within(Duration::from_mins(2)),
            impatient: within(Duration::from_secs(1)),
            is_silent: AtomicBool::new(false),
            clamd,
        }
    }
}

#[async_trait]
impl DocumentScannerFixture for Fixture {
    fn scanner(&self) -> Arc<dyn DocumentScanner> {
        let is_silent = self.is_silent.load(Ordering::Relaxed);
        if is_silent { self.impatient.clone() } else { self.scanner.clone() }
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
        self.is_silent.store(true, Ordering::Relaxed);
    }

    async fn go_on(&self) {
        self.is_silent.store(false, Ordering::Relaxed);
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
