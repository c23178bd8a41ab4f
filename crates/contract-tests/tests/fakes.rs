//! The fakes fulfil the contracts of their ports.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clock {
    contract_tests::clock_contract!(contract_tests::fakes::ManualClock::default());
}

mod document_scanner {
    use std::sync::Arc;

    use async_trait::async_trait;
    use contract_tests::{document_scanner::DocumentScannerFixture, fakes::FakeScanner};
    use domain::ports::DocumentScanner;

    #[derive(Default)]
    struct Fixture(Arc<FakeScanner>);

    #[async_trait]
    impl DocumentScannerFixture for Fixture {
        fn scanner(&self) -> Arc<dyn DocumentScanner> {
            self.0.clone()
        }

        fn malware(&self) -> &'static [u8] {
            FakeScanner::MALWARE
        }

        fn max_bytes(&self) -> usize {
            usize::try_from(FakeScanner::MAX_BYTES).unwrap()
        }

        async fn stop(&self) {
            self.0.set_down(true);
        }

        async fn start_again(&self) {
            self.0.set_down(false);
        }

        async fn silence(&self) {
            self.0.set_down(true);
        }

        async fn go_on(&self) {
            self.0.set_down(false);
        }
    }

    contract_tests::document_scanner_contract!(Fixture::default());
}

mod entropy {
    contract_tests::entropy_contract!(contract_tests::fakes::CountingEntropy::default());
}
