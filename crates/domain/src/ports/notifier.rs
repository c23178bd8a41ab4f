use async_trait::async_trait;

use super::Cause;
use crate::follow_up::Notification;

/// Why a mail was not handed over.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    /// It may be taken later: the relay does not answer, is busy, or the disk is full.
    #[error("the mail was not taken this time")]
    Transient(#[source] Cause),
    /// It will never be taken, such as when the recipient is refused.
    #[error("the mail will never be taken")]
    Permanent(#[source] Cause),
}

/// Tells people about orders.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait Notifier: Send + Sync {
    /// Hands a mail over to whoever delivers it, durably; answers within 30 seconds. The same notification handed over
    /// again bears the same `Message-ID`.
    async fn notify(&self, notification: &Notification) -> Result<(), NotifyError>;
}
