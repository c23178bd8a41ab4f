//! Sends mails to an SMTP relay.
//!
//! A failure before `MAIL FROM` is answered is the relay's fault and affects all mails. Afterwards
//! a rejection belongs to this mail alone. A timeout or a broken connection may be either; a check
//! on a new connection decides (docs/adr/0010). After the final dot, the outcome stays unknown: the
//! relay may have accepted the mail.

mod failure;
mod relay;
mod timeouts;
mod unencrypted;
mod url;
mod waiting;

use std::{
    io::{self, ErrorKind},
    time::Duration,
};

use ::url::Url;
use async_trait::async_trait;
use domain::{
    delivery::Notification,
    ports::{Notice, Notifier, NotifyError},
};
use lettre::Message;
use tokio::time::timeout;

pub use self::relay::MAX_CONNECTIONS;
use self::{
    failure::{Failure, Fault},
    relay::{Connection, Relay},
    timeouts::{TIMEOUTS, Timeouts},
    url::RelayUrl,
};
use crate::{OpenError, Sender, notice, order};

/// A notifier that sends mails to a relay.
pub(crate) struct Smtp {
    sender: Sender,
    relay: Relay,
    timeouts: Timeouts,
}

impl Smtp {
    /// Creates a notifier for the relay that an `smtp:` or `smtps:` URL names.
    pub(crate) fn open(url: &Url, sender: Sender) -> Result<Self, OpenError> {
        let relay = Relay::new(RelayUrl::parse(url)?, sender.mailbox.email.clone())?;
        Ok(Self { sender, relay, timeouts: TIMEOUTS })
    }
}

#[async_trait]
impl Notifier for Smtp {
    async fn notify(&self, notification: &Notification) -> Result<(), NotifyError> {
        self.send(&order::render(&self.sender, notification)?).await
    }

    async fn tell(&self, notice: &Notice) -> Result<(), NotifyError> {
        self.send(&notice::render(&self.sender, notice)?).await
    }

    async fn check(&self) -> Result<(), NotifyError> {
        let check = async {
            let _permit = self.relay.permits.acquire().await;
            self.relay.check().await
        };
        within(self.timeouts.check, check).await.map_err(unavailable)
    }

    fn waiting(&self) -> usize {
        self.relay.beginning.count() + self.relay.confirming.count()
    }

    fn stop(&self) {
        self.relay.beginning.stop();
    }
}

impl Smtp {
    async fn send(&self, mail: &Message) -> Result<(), NotifyError> {
        let [recipient] = mail.envelope().to() else {
            return Err(NotifyError::Permanent("a mail must have one recipient".into()));
        };
        let text = String::from_utf8(mail.formatted())
            .map_err(|error| NotifyError::Permanent(error.into()))?;
        let Timeouts { patience, begin, transfer, confirm, .. } = self.timeouts;
        let begun = within(begin, self.relay.begin(self.timeouts)).await;
        let (mut connection, mut permit) = begun.map_err(unavailable)?;
        let waiting = &self.relay.confirming;
        let announced = connection.announce(recipient);
        if let Err(failure) = waiting.within([patience, transfer], &mut permit, announced).await {
            return Err(self.after(failure, connection).await);
        }
        let sent = connection.send(&text);
        match waiting.within([patience, confirm], &mut permit, sent).await {
            Ok(()) => {
                self.relay.keep(connection);
                Ok(())
            }
            // The relay has the whole mail, and may have accepted it.
            Err(failure) if failure.fault() == Fault::Unknown => {
                Err(NotifyError::Unknown(failure.into()))
            }
            Err(failure) => Err(self.after(failure, connection).await),
        }
    }

    /// Returns the error for a failure after the relay has accepted the sender.
    async fn after(&self, failure: Failure, mut connection: Connection) -> NotifyError {
        match failure.fault() {
            Fault::Relay => return unavailable(failure),
            Fault::Mail => {
                // The outcome of this mail does not depend on whether the connection is reusable.
                if within(self.timeouts.cleanup, connection.reset()).await.is_ok() {
                    self.relay.keep(connection);
                }
                if failure.is_refusal() {
                    return NotifyError::Permanent(failure.into());
                }
            }
            Fault::Unknown => {
                drop(connection);
                if within(self.timeouts.begin, self.relay.check()).await.is_err() {
                    return unavailable(failure);
                }
            }
        }
        NotifyError::Transient(failure.into())
    }
}

/// Returns whether a check failed because of the settings: the relay rejects the credentials or the
/// sender, or lacks what they require, or the folder cannot be written. A relay that does not answer
/// is no refusal.
pub fn is_refusal(error: &NotifyError) -> bool {
    let NotifyError::Unavailable(cause) = error else { return false };
    let folder_is_closed = |error: &io::Error| {
        matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
    };
    cause.downcast_ref().is_some_and(Failure::is_refusal)
        || cause.downcast_ref().is_some_and(folder_is_closed)
}

/// Returns whether a check failed only because the relay is slow. Mails wait longer for it.
pub fn is_slow(error: &NotifyError) -> bool {
    let NotifyError::Unavailable(cause) = error else { return false };
    matches!(cause.downcast_ref(), Some(Failure::Timeout))
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout(limit, work).await.unwrap_or(Err(Failure::Timeout))
}

fn unavailable(failure: Failure) -> NotifyError {
    NotifyError::Unavailable(failure.into())
}

#[cfg(test)]
mod tests;
