use async_trait::async_trait;

use super::Cause;
use crate::delivery::Notification;

/// Why a mail was not handed over.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    /// Nobody's mail is taken now: the relay does not answer or refuses the service itself, the
    /// disk is full.
    #[error("no mail is taken now")]
    Unavailable(#[source] Cause),
    /// This mail may be taken later, whatever becomes of others.
    #[error("the mail was not taken this time")]
    Transient(#[source] Cause),
    /// This mail will never be taken, such as when the recipient is refused.
    #[error("the mail will never be taken")]
    Permanent(#[source] Cause),
}

/// Tells people about orders.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait Notifier: Send + Sync {
    /// Hands a mail over to whoever delivers it, durably; answers within 30 seconds. The same
    /// notification handed over again bears the same `Message-ID`.
    async fn notify(&self, notification: &Notification) -> Result<(), NotifyError>;

    /// Whether mails can be handed over now; hands none over, and answers within 5 seconds. All it
    /// fails with is [`NotifyError::Unavailable`].
    async fn check(&self) -> Result<(), NotifyError>;
}
