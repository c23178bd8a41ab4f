//! Scans the documents of a request for malware, before any of them is stored.

use std::sync::Arc;

use futures_util::future::join_all;

use crate::{
    document::{DocumentFault, SpooledFile},
    ports::{DocumentScanner, ScanError, StoreError, Verdict},
    use_cases::order_error::{OrderError, Rejection},
};

/// Documents of one request that are scanned at the same time.
const PARALLEL_SCANS: usize = 4;

/// The scanner, and what happens to documents that it does not scan.
#[derive(Clone)]
pub struct ScanDocuments {
    /// Scans documents.
    pub scanner: Arc<dyn DocumentScanner>,
    /// Whether documents must be scanned to be stored.
    pub required: bool,
}

impl ScanDocuments {
    /// Scans files, and returns how many may be stored although they were not scanned.
    ///
    /// Begins no other scan after the scanner was unavailable. So a scanner that does not answer
    /// delays a request by one time limit, however many documents it has.
    pub(crate) async fn scan(&self, files: &[&SpooledFile]) -> Result<usize, OrderError> {
        let mut outcomes = Vec::new();
        for together in files.chunks(PARALLEL_SCANS) {
            outcomes.extend(join_all(together.iter().map(|file| self.scanner.scan(file))).await);
            if outcomes.iter().any(|outcome| matches!(outcome, Err(ScanError::Unavailable(_)))) {
                break;
            }
        }
        let mut unscanned = files.len() - outcomes.len();
        let (mut faults, mut failure) = (Vec::new(), None);
        for (position, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                Ok(Verdict::Clean) => {}
                Ok(Verdict::Infected { .. }) => {
                    faults.push((position, DocumentFault::Infected));
                }
                Err(ScanError::TooLarge) if self.required => {
                    faults.push((position, DocumentFault::TooLargeToScan));
                }
                Err(error) if self.required => failure = Some(error),
                Err(_) => unscanned += 1,
            }
        }
        match failure {
            // A repeat would not help against a fault.
            _ if !faults.is_empty() => {
                Err(OrderError::Rejected(Rejection { documents: faults, ..Rejection::default() }))
            }
            Some(error) => Err(StoreError::Unavailable(error.into()).into()),
            None => Ok(unscanned),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{ports::MockDocumentScanner, test_support::received};

    /// Scans files whose names say what the scanner does. Returns the outcome and the number of
    /// scans.
    async fn scan(required: bool, names: &[&str]) -> (Result<usize, OrderError>, usize) {
        let mut scanner = MockDocumentScanner::new();
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        scanner.expect_scan().returning(move |file| {
            counted.fetch_add(1, Ordering::Relaxed);
            match file.path.to_str().unwrap() {
                "clean" => Ok(Verdict::Clean),
                "infected" => Ok(Verdict::Infected { signature: "Eicar".to_owned() }),
                "large" => Err(ScanError::TooLarge),
                _ => Err(ScanError::Unavailable("down".into())),
            }
        });
        let files: Vec<_> = names.iter().map(|name| received(name).file).collect();
        let scan = ScanDocuments { scanner: Arc::new(scanner), required };
        (scan.scan(&files.iter().collect::<Vec<_>>()).await, count.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn clean_documents_pass() {
        for required in [true, false] {
            let (passed, scans) = scan(required, &["clean"; 20]).await;
            assert_eq!((passed.unwrap(), scans), (0, 20));
        }
    }

    #[tokio::test]
    async fn every_infected_document_is_named() {
        for required in [true, false] {
            let names = ["infected", "clean", "infected", "down", "clean", "clean"];
            let Err(OrderError::Rejected(Rejection { documents: faults, .. })) =
                scan(required, &names).await.0
            else {
                panic!("passed")
            };
            assert_eq!(faults, [(0, DocumentFault::Infected), (2, DocumentFault::Infected)]);
        }
    }

    #[tokio::test]
    async fn too_large_document_is_rejected_if_scans_are_required() {
        let Err(OrderError::Rejected(Rejection { documents: faults, .. })) =
            scan(true, &["clean", "large"]).await.0
        else {
            panic!("passed")
        };
        assert_eq!(faults, [(1, DocumentFault::TooLargeToScan)]);
        let (passed, scans) = scan(false, &["large", "clean", "large"]).await;
        assert_eq!((passed.unwrap(), scans), (2, 3));
    }

    #[tokio::test]
    async fn unavailable_scanner_lets_documents_pass_only_if_scans_are_not_required() {
        let names = ["clean", "down", "clean", "clean", "clean"];
        let (passed, _) = scan(true, &names).await;
        assert!(matches!(passed, Err(OrderError::Store(StoreError::Unavailable(_)))));
        let (passed, _) = scan(false, &names).await;
        assert!(matches!(passed, Ok(1..=4)), "{passed:?}");
    }

    #[tokio::test]
    async fn no_scan_begins_after_the_scanner_was_unavailable() {
        for required in [true, false] {
            let (passed, scans) = scan(required, &["down"; 20]).await;
            assert!(scans <= PARALLEL_SCANS, "{scans}");
            assert!(required || matches!(passed, Ok(20)), "{passed:?}");
        }
    }
}
