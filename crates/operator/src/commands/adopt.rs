//! The command that makes a copy of a database the original.

use anyhow::Result;

use super::output::print;
use crate::{adapters::Storage, progress::counted, settings::Settings};

pub(super) async fn run(storage: &Storage, settings: &Settings) -> Result<()> {
    let here = storage.installations(settings)?.adopt().await?;
    let (mails, webhooks) = (storage.queue.stats().await?, storage.webhook_queue.stats().await?);
    let waiting = [
        counted(&mails.events, "event"),
        counted(&mails.pending, "mail"),
        counted(&webhooks.pending, "webhook"),
    ];
    print(&format!(
        "the database belongs to this installation: {here}\nwhat waits leaves: {}\n",
        waiting.join(", ")
    ))
}
