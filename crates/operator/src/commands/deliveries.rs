//! The commands about deliveries.

use anyhow::{Context as _, Result, ensure};
use clap::Subcommand;
use domain::{
    delivery::{Delivery, DeliveryId},
    webhook::{WebhookDelivery, WebhookDeliveryId, WebhookStatus},
};
use time::OffsetDateTime;

use super::{
    output::{print, second, table},
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
            print(&listed(&mails, &webhooks, failed))?;
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

fn listed(mails: &[Delivery], webhooks: &[WebhookDelivery], failed: bool) -> String {
    let mails = mails.iter().map(|mail| {
        [
            mail.id.0.to_string(),
            mail.order_id.0.to_string(),
            mail.attempts.to_string(),
            second(mail.created_at),
            second(mail.failed_at.unwrap_or(mail.due_at)),
            mail.last_error.as_deref().unwrap_or_default().escape_debug().to_string(),
        ]
    });
    let webhooks = webhooks.iter().map(|webhook| {
        let last = webhook.attempts.last().map_or(webhook.created_at, |attempt| attempt.at);
        let at = match webhook.status {
            WebhookStatus::Pending { due_at } => due_at,
            WebhookStatus::Delivered | WebhookStatus::Failed => last,
        };
        [
            format!("w{}", webhook.id.0),
            webhook.order_id.map_or_else(|| "-".to_owned(), |id| id.0.to_string()),
            webhook.failures.to_string(),
            second(webhook.created_at),
            second(at),
            last_attempt(webhook),
        ]
    });
    let at = if failed { "FAILED" } else { "DUE" };
    table(["ID", "ORDER", "ATTEMPTS", "CREATED", at, "LAST ERROR"], mails.chain(webhooks))
}
