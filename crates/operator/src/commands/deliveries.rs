//! The commands about deliveries.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use clap::Subcommand;
use domain::{
    delivery::{Delivery, DeliveryId},
    webhook::{WebhookDelivery, WebhookDeliveryId, WebhookStatus},
};
use time::OffsetDateTime;

use super::{
    output::{print, second},
    webhooks::last_attempt,
};
use crate::adapters::Storage;

/// Maximum number of listed mails, and of listed webhooks.
const MAX_LISTED: usize = 1_000;

#[derive(Debug, Subcommand)]
pub enum DeliveriesCommand {
    /// List deliveries that wait: mails, and webhooks, whose identifiers begin with w
    List {
        /// List deliveries that failed for good instead
        #[arg(long, alias = "buried")]
        failed: bool,
    },
    /// Attempt a delivery again at once
    Retry {
        /// Its identifier, as listed
        id: String,
    },
}

pub(super) async fn run(
    command: DeliveriesCommand,
    storage: &Storage,
    now: OffsetDateTime,
) -> Result<()> {
    match command {
        DeliveriesCommand::List { failed } => {
            let mails = storage.queue.list(failed, MAX_LISTED).await?;
            let webhooks = storage.webhook_queue.list(failed, MAX_LISTED).await?;
            print(&table(&mails, &webhooks, failed)?)?;
            if mails.len().max(webhooks.len()) == MAX_LISTED {
                eprintln!("only the oldest {MAX_LISTED} are listed");
            }
            Ok(())
        }
        DeliveriesCommand::Retry { id } => {
            let number = id.strip_prefix('w').unwrap_or(&id);
            let number = number.parse().with_context(|| format!("there is no delivery {id}"))?;
            let is_known = if id.starts_with('w') {
                storage.webhook_queue.retry(WebhookDeliveryId(number), now).await?
            } else {
                storage.queue.retry(DeliveryId(number), now).await?
            };
            ensure!(is_known, "there is no delivery {id}");
            print(&format!("delivery {id} is due now\n"))
        }
    }
}

fn table(mails: &[Delivery], webhooks: &[WebhookDelivery], failed: bool) -> Result<String> {
    let mut table = format!(
        "{:>8}  {:>8}  {:>8}  {:<20} {:<20} LAST ERROR\n",
        "ID",
        "ORDER",
        "ATTEMPTS",
        "CREATED",
        if failed { "FAILED" } else { "DUE" }
    );
    for Delivery { id, order_id, attempts, created_at, due_at, failed_at, last_error, .. } in mails
    {
        writeln!(
            table,
            "{:>8}  {:>8}  {attempts:>8}  {:<20} {:<20} {}",
            id.0,
            order_id.0,
            second(*created_at),
            second(failed_at.unwrap_or(*due_at)),
            last_error.as_deref().unwrap_or_default().escape_debug()
        )?;
    }
    for webhook in webhooks {
        let last = webhook.attempts.last().map_or(webhook.created_at, |attempt| attempt.at);
        let at = match webhook.status {
            WebhookStatus::Pending { due_at } => due_at,
            WebhookStatus::Delivered | WebhookStatus::Failed => last,
        };
        writeln!(
            table,
            "{:>8}  {:>8}  {:>8}  {:<20} {:<20} {}",
            format!("w{}", webhook.id.0),
            webhook.order_id.map_or_else(|| "-".to_owned(), |id| id.0.to_string()),
            webhook.failures,
            second(webhook.created_at),
            second(at),
            last_attempt(webhook),
        )?;
    }
    Ok(table)
}
