use async_trait::async_trait;

use crate::{
    access::BusyKeyNotice,
    delivery::Notification,
    order::EmailAddress,
    person::InvitationNotice,
    ports::{Cause, error_chain},
    rejected::RejectedNotice,
    webhook::EndpointNotice,
};

/// The reason why a mail was not handed over.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    /// No mail can be handed over now: the relay does not answer or rejects the service itself, or
    /// the disk is full.
    #[error("no mail can be handed over now")]
    Unavailable(#[source] Cause),
    /// This mail may succeed later.
    #[error("the mail was rejected this time")]
    Transient(#[source] Cause),
    /// The relay has the whole mail, and has not said whether it accepted it.
    #[error("the mail was sent, and it is unknown whether it was accepted")]
    Unknown(#[source] Cause),
    /// This mail will never succeed, for example because the relay rejects the recipient.
    #[error("the mail was rejected for good")]
    Permanent(#[source] Cause),
}

/// A mail about something else than an order: to the contact of a key, or to an invited person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A webhook endpoint fails or is disabled.
    Endpoint(EndpointNotice),
    /// A key reads more orders than the operator expects.
    BusyKey(BusyKeyNotice),
    /// Requests of a key were rejected.
    Rejected(RejectedNotice),
    /// A person is invited.
    Invitation(InvitationNotice),
}

impl Notice {
    /// Returns the address that receives the mail.
    pub fn recipient(&self) -> &EmailAddress {
        match self {
            Self::Endpoint(notice) => &notice.recipient,
            Self::BusyKey(notice) => &notice.recipient,
            Self::Rejected(notice) => &notice.recipient,
            Self::Invitation(notice) => &notice.recipient,
        }
    }

    /// Returns the key of the mail, from which its `Message-ID` is derived: equal notices are the same
    /// mail.
    pub fn message_key(&self) -> String {
        match self {
            Self::Endpoint(notice) => notice.message_key(),
            Self::BusyKey(notice) => notice.message_key(),
            Self::Rejected(notice) => notice.message_key(),
            Self::Invitation(notice) => notice.message_key(),
        }
    }
}

/// The outcome of a notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoticeOutcome {
    /// It was sent.
    Told,
    /// There is no contact.
    NoContact,
    /// It will never be sent, for this reason.
    Failed(String),
    /// It is sent again in the next step.
    Later(String),
}

impl NoticeOutcome {
    /// Returns what became of a notice that was handed over, or was not.
    pub(crate) fn of(told: Result<(), NotifyError>) -> Self {
        match told {
            Ok(()) => Self::Told,
            // A notice that may have arrived is not repeated.
            Err(error @ (NotifyError::Permanent(_) | NotifyError::Unknown(_))) => {
                Self::Failed(error_chain(&error))
            }
            Err(error) => Self::Later(error_chain(&error)),
        }
    }
}

/// Hands mails over to a relay.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait Notifier: Send + Sync {
    /// Hands a mail over.
    ///
    /// An implementation guarantees:
    /// - When the call returns, the relay has accepted the mail, or it is durable in a folder.
    /// - The call returns within 26 minutes. A relay may take minutes for each step (RFC 5321, section
    ///   4.5.3.2).
    /// - Equal notifications have the same `Message-ID`.
    ///
    /// # Errors
    /// [`NotifyError`] says whether a later attempt can succeed. Its text contains no address.
    async fn notify(&self, notification: &Notification) -> Result<(), NotifyError>;

    /// Hands a notice over, like [`Self::notify`].
    ///
    /// # Errors
    /// As for [`Self::notify`].
    async fn tell(&self, notice: &Notice) -> Result<(), NotifyError>;

    /// Returns the number of calls that wait for a slow relay. They hold up no other mail, so they
    /// take no slot of the worker.
    fn waiting(&self) -> usize {
        0
    }

    /// Gives up the calls that wait for a relay which knows nothing of their mails yet, and those that would.
    /// They fail with [`NotifyError::Unavailable`]. The service calls it when it stops.
    fn stop(&self) {}

    /// Checks within 5 seconds whether mails can be handed over now. Hands none over. A relay that is
    /// only slow may fail it and still accept mails.
    ///
    /// # Errors
    /// [`NotifyError::Unavailable`] only.
    async fn check(&self) -> Result<(), NotifyError>;
}
