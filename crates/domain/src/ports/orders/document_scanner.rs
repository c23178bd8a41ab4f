use async_trait::async_trait;
use time::Duration;

use crate::document::SpooledFile;
use crate::ports::Cause;

/// Time limit of a scan, with the wait for a free connection to the scanner.
pub const SCAN_TIME_LIMIT: Duration = Duration::seconds(20);

/// The verdict of a scanner about a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It has found no malware.
    Clean,
    /// It has found malware.
    Infected {
        /// The scanner's name of the malware, for the log: printable ASCII.
        signature: String,
    },
}

/// The reason why a document was not scanned.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The scanner accepts no document of this size. A later scan fails too.
    #[error("the document is larger than the malware scanner accepts")]
    TooLarge,
    /// The scanner does not answer in time, or fails. A later scan may succeed. The text has nothing
    /// of the document.
    #[error("the malware scanner is unavailable")]
    Unavailable(#[source] Cause),
}

/// Scans documents for malware.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait DocumentScanner: Send + Sync {
    /// Scans a complete file, which stays as it is.
    ///
    /// An implementation guarantees:
    /// - A file is clean only if the scanner has received all of its bytes and then said so. Any
    ///   other answer, a lost connection and a file of another size are errors.
    /// - The call ends within [`SCAN_TIME_LIMIT`], however slow the scanner is.
    /// - Any number of calls may run at the same time. Their number does not overload the scanner.
    /// - Memory use is bounded, whatever the size of the file.
    ///
    /// # Errors
    /// [`ScanError`], if the scanner gave no verdict.
    async fn scan(&self, file: &SpooledFile) -> Result<Verdict, ScanError>;

    /// Checks within 2 seconds whether the scanner answers.
    ///
    /// # Errors
    /// [`ScanError::Unavailable`] only.
    async fn check(&self) -> Result<(), ScanError>;
}
