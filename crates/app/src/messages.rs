//! Whether mails and webhooks leave. A copy of a database sends nothing until an operator adopts it.

use std::time::Duration;

use anyhow::{Context as _, Result};
use domain::{installation::SendsMessages, use_cases::installations::Installations};
use operator::{adapters::Storage, settings::Settings};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Pause between two looks at a copy.
const LOOK_PAUSE: Duration = Duration::from_secs(5);

/// The permission for which workers wait that act outside of the database.
#[derive(Clone)]
pub(crate) struct Messages {
    installations: Installations,
    sends: SendsMessages,
    /// Cancelled once messages may leave. They do so until the stop.
    pub(crate) may_leave: CancellationToken,
}

impl Messages {
    /// Takes the database on if it belongs to no installation. Says so if it belongs to another one.
    ///
    /// # Errors
    /// The database does not answer, or a setting is wrong.
    pub(crate) async fn begin(settings: &Settings, storage: &Storage) -> Result<Self> {
        let (installations, sends) = (storage.installations(settings)?, settings.sends_messages);
        let copy = installations.begin().await.context(settings.database_setting())?;
        let may_leave = CancellationToken::new();
        if sends.may_send(copy.as_ref()) {
            may_leave.cancel();
        }
        match (sends, copy) {
            (SendsMessages::Auto, Some(copy)) => tracing::warn!(
                original = %copy.original,
                here = %copy.here,
                "this database is a copy: it belongs to another installation, which may still run. Orders \
                 are taken; mails, webhooks and deletions of documents wait. If it replaces the other one, \
                 run `notary-orders adopt`"
            ),
            (SendsMessages::Always, Some(copy)) => tracing::warn!(
                original = %copy.original,
                here = %copy.here,
                "this database is a copy, and sends mails and webhooks all the same: --sends-messages is true"
            ),
            (SendsMessages::Never, _) => tracing::warn!(
                "mails, webhooks and deletions of documents wait: --sends-messages is false"
            ),
            (_, None) => {}
        }
        Ok(Self { installations, sends, may_leave })
    }

    /// Lets messages leave once an operator has adopted the copy. Ends at the stop.
    pub(crate) async fn watch(self, stop: CancellationToken) -> Result<()> {
        while self.sends == SendsMessages::Auto && !self.may_leave.is_cancelled() {
            if stop.run_until_cancelled(sleep(LOOK_PAUSE)).await.is_none() {
                return Ok(());
            }
            // Another worker reports a database that does not answer.
            if let Ok(None) = self.installations.copy().await {
                self.may_leave.cancel();
                tracing::info!("the database was adopted; mails and webhooks leave");
            }
        }
        stop.cancelled().await;
        Ok(())
    }
}
