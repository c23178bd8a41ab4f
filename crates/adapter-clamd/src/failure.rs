//! The errors of a scan.

use std::io;

use domain::ports::ScanError;

/// The reason why there is no verdict. The texts have nothing of a document.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the connection failed")]
    Connect(#[source] io::Error),
    #[error("the connection was lost")]
    Lost(#[source] io::Error),
    #[error("no answer in time")]
    TimedOut,
    #[error("the answer ended early")]
    ShortAnswer,
    #[error("the answer came before the end of the document")]
    EarlyAnswer,
    #[error("clamd failed: {0}")]
    Clamd(String),
    #[error("the answer is not from clamd")]
    Foreign,
    #[error("the spooled file cannot be read")]
    File(#[source] io::Error),
    #[error("the spooled file no longer has the size that it was received with")]
    FileChanged,
    /// The panic hook has logged the panic.
    #[error("reading the spooled file panicked")]
    Panicked,
}

impl From<Failure> for ScanError {
    fn from(failure: Failure) -> Self {
        Self::Unavailable(failure.into())
    }
}
