//! A mail relay.
//!
//! Whose a failure is, the phase tells. Up to the sender, nothing differs from mail to mail, so a
//! failure is everybody's. From the recipient on, a refusal is the mail's; a silence or a broken
//! connection may be either's, and a new connection tells (docs/adr/0010).

mod failure;
mod relay;
mod unencrypted;
mod url;

use std::time::Duration;

use ::url::Url;
use async_trait::async_trait;
use domain::{
    delivery::Notification,
    ports::{Notifier, NotifyError},
};
use tokio::time::timeout;

use self::{
    failure::{Failure, Verdict},
    relay::Relay,
    url::RelayUrl,
};
use crate::{OpenError, Sender, message::render};

/// How long a relay may take for each part of its work. Together less than the 30 seconds that a
/// notifier has.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// Until it has accepted the sender; includes the wait for a connection.
    begin: Duration,
    /// From the recipient until it has taken the mail.
    transfer: Duration,
    /// For what shows afterwards whether it takes mails at all.
    aftermath: Duration,
    /// For a check.
    check: Duration,
}

const PATIENCE: Patience = Patience {
    begin: Duration::from_secs(8),
    transfer: Duration::from_secs(18),
    aftermath: Duration::from_secs(3),
    // A little less than a notifier has.
    check: Duration::from_millis(4_900),
};

/// Hands mails over to a relay.
pub(crate) struct Smtp {
    sender: Sender,
    relay: Relay,
    patience: Patience,
}

impl Smtp {
    /// The relay that an `smtp:` or `smtps:` URL names.
    pub(crate) fn open(url: &Url, sender: Sender) -> Result<Self, OpenError> {
        let relay = Relay::new(RelayUrl::parse(url)?, sender.mailbox().email.clone())?;
        Ok(Self { sender, relay, patience: PATIENCE })
    }
}

#[async_trait]
impl Notifier for Smtp {
    async fn notify(&self, notification: &Notification) -> Result<(), NotifyError> {
        let mail = render(&self.sender, notification)?;
        let [recipient] = mail.envelope().to() else {
            return Err(NotifyError::Permanent("a mail has one recipient".into()));
        };
        let text = String::from_utf8(mail.formatted())
            .map_err(|error| NotifyError::Permanent(error.into()))?;
        let mut transaction =
            within(self.patience.begin, self.relay.begin()).await.map_err(unavailable)?;
        let Err(failure) = within(self.patience.transfer, transaction.send(recipient, &text)).await
        else {
            transaction.done();
            return Ok(());
        };
        match failure.verdict() {
            Verdict::Service => Err(unavailable(failure)),
            verdict @ (Verdict::Later | Verdict::Never) => {
                // Whether it is of use again does not change what became of this mail.
                let _ = within(self.patience.aftermath, transaction.reset()).await;
                Err(if verdict == Verdict::Never {
                    NotifyError::Permanent(failure.into())
                } else {
                    NotifyError::Transient(failure.into())
                })
            }
            Verdict::Unknown => {
                match within(self.patience.aftermath, transaction.check_relay()).await {
                    Ok(()) => Err(NotifyError::Transient(failure.into())),
                    Err(_) => Err(unavailable(failure)),
                }
            }
        }
    }

    async fn check(&self) -> Result<(), NotifyError> {
        within(self.patience.check, self.relay.check()).await.map_err(unavailable)
    }
}

async fn within<T>(
    patience: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout(patience, work).await.unwrap_or(Err(Failure::Silence))
}

fn unavailable(failure: Failure) -> NotifyError {
    NotifyError::Unavailable(failure.into())
}

#[cfg(test)]
mod tests;
