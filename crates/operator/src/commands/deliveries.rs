//! The commands about deliveries.

use anyhow::{Result, bail};
use clap::Subcommand;
use domain::{
    delivery::{Delivery, DeliveryId},
    ports::Retried,
    webhook::{WebhookDelivery, WebhookDeliveryId, WebhookStatus},
};
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::{
    output::{Column, Format, at, instant, print},
    webhooks::last_attempt,
};
use crate::{adapters::Storage, progress::counted};

/// Maximum number of mails, and of webhooks, in a table.
const MAX_LISTED: usize = 1_000;

#[derive(Debug, Subcommand)]
pub enum DeliveriesCommand {
    /// List deliveries that wait: mails, and webhooks, whose identifiers begin with w
    List {
        /// List deliveries that failed for good instead
        #[arg(long)]
        failed: bool,
        #[command(flatten)]
        format: Format,
    },
    /// Attempt a delivery, or all that failed for good, again at once
    Retry {
        /// Its identifier, as listed
        #[arg(value_parser = listed_id, required_unless_present = "failed")]
        id: Option<(String, i64)>,
        /// Attempt all deliveries that failed for good again
        #[arg(long, conflicts_with = "id")]
        failed: bool,
        /// Only those that failed at this instant or later, such as 2026-12-01T08:00:00Z
        #[arg(long, value_name = "INSTANT", value_parser = instant, requires = "failed")]
        since: Option<OffsetDateTime>,
    },
}

/// Reads the identifier of a mail or, with a `w` before it, of a webhook.
fn listed_id(text: &str) -> Result<(String, i64), &'static str> {
    let number = text.strip_prefix('w').unwrap_or(text).parse().ok();
    let number =
        number.ok_or("must be a number, or w and a number, as `deliveries list` shows it")?;
    Ok((text.to_owned(), number))
}

pub(super) async fn run(
    command: DeliveriesCommand,
    storage: &Storage,
    now: OffsetDateTime,
) -> Result<()> {
    match command {
        DeliveriesCommand::List { failed, format } => {
            let limit = format.limit(MAX_LISTED);
            let mails = storage.queue.list(failed, limit).await?;
            let webhooks = storage.webhook_queue.list(failed, limit).await?;
            let rows = mails.iter().map(of_mail).chain(webhooks.iter().map(of_webhook));
            let time = if failed { "FAILED" } else { "DUE" };
            let columns: [Column<'_, [Value; 6]>; 6] = [
                ("ID", "", &|row| row[0].clone()),
                ("ORDER", "-", &|row| row[1].clone()),
                ("ATTEMPTS", "", &|row| row[2].clone()),
                ("CREATED", "", &|row| row[3].clone()),
                (time, "", &|row| row[4].clone()),
                ("LAST ERROR", "", &|row| row[5].clone()),
            ];
            format.print(&columns, &rows.collect::<Vec<_>>())?;
            if mails.len().max(webhooks.len()) == limit {
                eprintln!("only the oldest {limit} are listed; --json lists all");
            }
            Ok(())
        }
        DeliveriesCommand::Retry { id: Some((id, number)), .. } => {
            let retried = if id.starts_with('w') {
                storage.webhook_queue.retry(WebhookDeliveryId(number), now).await?
            } else {
                storage.queue.retry(DeliveryId(number), now).await?
            };
            match retried {
                Retried::Due => print(&format!("delivery {id} is due now\n")),
                Retried::Leased => {
                    bail!("delivery {id} is being sent now; see whether it leaves")
                }
                Retried::NotFound => bail!("there is no delivery {id}"),
            }
        }
        DeliveriesCommand::Retry { since, .. } => {
            let [mails, webhooks] = retry_failed(storage, since, now).await?;
            let (mails, webhooks) = (counted(&mails, "mail"), counted(&webhooks, "webhook"));
            print(&format!("{mails} and {webhooks} are due now\n"))
        }
    }
}

/// Makes the deliveries due that failed for good since an instant. Returns the numbers of mails and
/// webhooks.
async fn retry_failed(
    storage: &Storage,
    since: Option<OffsetDateTime>,
    now: OffsetDateTime,
) -> Result<[usize; 2]> {
    let is_later = |failed_at: OffsetDateTime| since.is_none_or(|since| failed_at >= since);
    let mut retried = [0; 2];
    for mail in storage.queue.list(true, usize::MAX).await? {
        if mail.failed_at.is_some_and(is_later) {
            retried[0] += usize::from(storage.queue.retry(mail.id, now).await? == Retried::Due);
        }
    }
    for webhook in storage.webhook_queue.list(true, usize::MAX).await? {
        if is_later(last_attempt_at(&webhook)) {
            let webhook = storage.webhook_queue.retry(webhook.id, now).await?;
            retried[1] += usize::from(webhook == Retried::Due);
        }
    }
    Ok(retried)
}

fn of_mail(mail: &Delivery) -> [Value; 6] {
    [
        json!(mail.id.0.to_string()),
        json!(mail.order_id.0),
        json!(mail.attempts),
        at(mail.created_at),
        at(mail.failed_at.unwrap_or(mail.due_at)),
        json!(mail.last_error),
    ]
}

fn last_attempt_at(webhook: &WebhookDelivery) -> OffsetDateTime {
    webhook.attempts.last().map_or(webhook.created_at, |attempt| attempt.at)
}

fn of_webhook(webhook: &WebhookDelivery) -> [Value; 6] {
    let time = match webhook.status {
        WebhookStatus::Pending { due_at } => due_at,
        WebhookStatus::Delivered | WebhookStatus::Failed => last_attempt_at(webhook),
    };
    [
        json!(format!("w{}", webhook.id.0)),
        json!(webhook.order_id.map(|id| id.0)),
        json!(webhook.failures),
        at(webhook.created_at),
        at(time),
        last_attempt(webhook),
    ]
}
