//! The contract of `DocumentScanner`.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    document::SpooledFile,
    ports::{DocumentScanner, ScanError, Verdict},
};
use futures_util::future::join_all;
use tempfile::TempDir;

use crate::{blob_store::spooled, fakes::CountingEntropy};

/// A scanner under test, and the power over it that the port does not offer.
#[async_trait]
pub trait DocumentScannerFixture: Send + Sync {
    /// Returns the adapter. Its time limit is short while the scanner is silent.
    fn scanner(&self) -> Arc<dyn DocumentScanner>;

    /// Returns bytes that the scanner takes for malware, wherever they are in a file.
    fn malware(&self) -> &'static [u8];

    /// Returns the greatest size that the scanner accepts, in bytes.
    fn max_bytes(&self) -> usize;

    /// Ends the scanner.
    async fn stop(&self);

    /// Starts the scanner again.
    async fn start_again(&self);

    /// Makes the scanner silent: it accepts connections and answers nothing.
    async fn silence(&self);

    /// Lets a silent scanner go on.
    async fn go_on(&self);
}

/// Larger than the blocks of the adapters.
const LARGE: usize = 300_001;

/// A document in a spool of its own.
struct Sample {
    _spool: TempDir,
    file: SpooledFile,
}

impl Sample {
    /// Returns a document of that many harmless bytes.
    fn clean(size: usize) -> Self {
        let spool = TempDir::new().unwrap();
        let (file, _) = spooled(spool.path(), size, &CountingEntropy::default());
        Self { _spool: spool, file }
    }

    /// Returns such a document with other bytes at a position.
    fn with(self, position: usize, part: &[u8]) -> Self {
        let mut bytes = std::fs::read(&self.file.path).unwrap();
        bytes[position..position + part.len()].copy_from_slice(part);
        std::fs::write(&self.file.path, bytes).unwrap();
        self
    }

    /// Scans the file, which stays as it is.
    async fn scan(&self, fixture: &dyn DocumentScannerFixture) -> Result<Verdict, ScanError> {
        let before = std::fs::read(&self.file.path).ok();
        let outcome = fixture.scanner().scan(&self.file).await;
        assert!(std::fs::read(&self.file.path).ok() == before);
        outcome
    }
}

fn assert_unavailable<T: std::fmt::Debug>(outcome: &Result<T, ScanError>) {
    assert!(matches!(outcome, Err(ScanError::Unavailable(_))), "{outcome:?}");
}

/// Covers sizes around those of blocks, and the largest that the scanner accepts.
pub async fn clean_document_is_clean(fixture: &dyn DocumentScannerFixture) {
    for size in [1, 65_535, 65_536, 65_537, 131_072, 131_073, LARGE, fixture.max_bytes()] {
        let verdict = Sample::clean(size).scan(fixture).await;
        assert_eq!(verdict.unwrap(), Verdict::Clean, "{size} bytes");
    }
}

/// Covers its beginning, its end, and the borders of blocks. The verdict has a name for the log.
pub async fn malware_is_found_anywhere_in_a_document(fixture: &dyn DocumentScannerFixture) {
    let malware = fixture.malware();
    for position in [0, 5, 65_530, 131_060, 131_072, LARGE - malware.len()] {
        let verdict = Sample::clean(LARGE).with(position, malware).scan(fixture).await;
        let Ok(Verdict::Infected { signature }) = verdict else {
            panic!("{position}: {verdict:?}")
        };
        assert!(!signature.is_empty() && signature.bytes().all(|byte| byte.is_ascii_graphic()));
    }
}

/// Runs more scans than an adapter has connections.
pub async fn concurrent_scans_do_not_mix(fixture: &dyn DocumentScannerFixture) {
    let scans = (0..40).map(|number| async move {
        let sample = Sample::clean(10_000 + number);
        if number % 3 == 0 {
            let verdict = sample.with(number, fixture.malware()).scan(fixture).await;
            assert!(matches!(verdict, Ok(Verdict::Infected { .. })), "{number}: {verdict:?}");
        } else {
            let verdict = sample.scan(fixture).await;
            assert!(matches!(verdict, Ok(Verdict::Clean)), "{number}: {verdict:?}");
        }
    });
    join_all(scans).await;
}

/// Covers one byte too many and many. The scanner goes on afterwards.
pub async fn document_over_the_limit_is_too_large(fixture: &dyn DocumentScannerFixture) {
    for size in [fixture.max_bytes() + 1, 3 * fixture.max_bytes()] {
        let outcome = Sample::clean(size).with(0, fixture.malware()).scan(fixture).await;
        assert!(matches!(outcome, Err(ScanError::TooLarge)), "{size} bytes: {outcome:?}");
    }
    assert_eq!(Sample::clean(1).scan(fixture).await.unwrap(), Verdict::Clean);
}

/// Covers too short, too long, and a missing file.
pub async fn file_of_another_size_is_never_clean(fixture: &dyn DocumentScannerFixture) {
    for size in [1_000, LARGE] {
        let mut sample = Sample::clean(size);
        for announced in [size as u64 - 1, size as u64 + 1] {
            sample.file.size = announced;
            assert_unavailable(&sample.scan(fixture).await);
        }
        std::fs::remove_file(&sample.file.path).unwrap();
        assert_unavailable(&sample.scan(fixture).await);
    }
}

/// Whether it was stopped or is silent. Covers checks and scans of small and large documents, and
/// more of them than an adapter has connections.
pub async fn scanner_is_unavailable_until_it_is_back(fixture: &dyn DocumentScannerFixture) {
    let samples: Vec<_> = (0..20).map(|number| Sample::clean(1 + number * 40_000)).collect();
    for is_silent in [false, true] {
        fixture.scanner().check().await.unwrap();
        if is_silent {
            fixture.silence().await;
        } else {
            fixture.stop().await;
        }
        assert_unavailable(&fixture.scanner().check().await);
        for outcome in join_all(samples.iter().map(|sample| sample.scan(fixture))).await {
            assert_unavailable(&outcome);
        }
        if is_silent {
            fixture.go_on().await;
        } else {
            fixture.start_again().await;
        }
        for sample in &samples {
            assert_eq!(sample.scan(fixture).await.unwrap(), Verdict::Clean);
        }
    }
}
