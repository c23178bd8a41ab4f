//! The errors of a scan.

use std::{borrow::Cow, io};

use domain::ports::ScanError;

/// The reason why there is no verdict. The texts have nothing of a document.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the connection failed")]
    Connect(#[source] io::Error),
    #[error("the connection was lost")]
    Lost(#[source] io::Error),
    #[error("the spooled file cannot be read")]
    File(#[source] io::Error),
    #[error("{0}")]
    Other(Cow<'static, str>),
}

impl From<Failure> for ScanError {
    fn from(failure: Failure) -> Self {
        Self::Unavailable(failure.into())
    }
}
