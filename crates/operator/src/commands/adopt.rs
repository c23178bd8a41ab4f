//! The command that makes a copy of a database the original.

use anyhow::{Context as _, Result};

use super::output::print;
use crate::{adapters::Storage, progress::counted, settings::Settings};

pub(super) async fn run(storage: &Storage, settings: &Settings) -> Result<()> {
    let before = storage.installation.recorded().await?.context(
        "no service has used this database, so its first start takes it on; name the settings of the service",
    )?;
    let here = storage.installations(settings)?.adopt().await?;
    let (mails, webhooks) = (storage.queue.stats().await?, storage.webhook_queue.stats().await?);
    let waiting = [
        counted(&mails.events, "event"),
        counted(&mails.pending, "mail"),
        counted(&webhooks.pending, "webhook"),
    ];
    print(&format!(
        "the database belonged to: {before}\nthe database belongs to this installation: {here}\n\
        A service with other settings of the database or the documents is a copy from its next start.\n\
        what waits leaves, unless --sends-messages is false: {}\n",
        waiting.join(", ")
    ))
}
