//! The commands about deliveries.

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use clap::Subcommand;
use domain::{
    delivery::{Delivery, DeliveryId},
    ports::DeliveryQueue,
};
use time::OffsetDateTime;

use super::output::{print, second};

/// Maximum number of listed deliveries.
const MAX_LISTED: usize = 1_000;

#[derive(Debug, Subcommand)]
pub(super) enum DeliveriesCommand {
    /// List deliveries that wait
    List {
        /// List deliveries that failed for good instead
        #[arg(long, alias = "buried")]
        failed: bool,
    },
    /// Attempt a delivery again at once
    Retry {
        /// Its identifier, as listed
        id: i64,
    },
}

pub(super) async fn run(
    command: DeliveriesCommand,
    queue: &dyn DeliveryQueue,
    now: OffsetDateTime,
) -> Result<()> {
    match command {
        DeliveriesCommand::List { failed } => {
            let deliveries = queue.list(failed, MAX_LISTED).await?;
            print(&table(&deliveries, failed)?)?;
            if deliveries.len() == MAX_LISTED {
                eprintln!("only the oldest {MAX_LISTED} are listed");
            }
            Ok(())
        }
        DeliveriesCommand::Retry { id } => {
            ensure!(queue.retry(DeliveryId(id), now).await?, "there is no delivery {id}");
            print(&format!("delivery {id} is due now\n"))
        }
    }
}

fn table(deliveries: &[Delivery], failed: bool) -> Result<String> {
    let mut table = format!(
        "{:>8}  {:>8}  {:>8}  {:<20} {:<20} LAST ERROR\n",
        "ID",
        "ORDER",
        "ATTEMPTS",
        "CREATED",
        if failed { "FAILED" } else { "DUE" }
    );
    for Delivery { id, order_id, attempts, created_at, due_at, failed_at, last_error, .. } in
        deliveries
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
    Ok(table)
}
