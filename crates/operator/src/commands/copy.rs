//! Copies the embedded database to PostgreSQL.

use std::collections::BTreeMap;

use adapter_sqlite::{EXPORTED_TABLES, Export};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use serde_json::json;

use super::output::{Column, table};
use crate::{
    adapters::{describe_orphans, open_postgres, open_sqlite},
    progress::Progress,
    secrets_key,
    settings::{Database, Settings, WrongSetting, checked},
};

/// Rows that one statement writes.
const PAGE: usize = 500;

/// The tables, as the output names their rows.
const ROWS: [(&str, &str); EXPORTED_TABLES.len()] = [
    ("signing_services", "signing services"),
    ("orders", "orders"),
    ("order_changes", "changes of orders"),
    ("order_notes", "notes of orders"),
    ("documents", "documents"),
    ("uploads", "unfinished uploads"),
    ("events", "events"),
    ("deliveries", "deliveries"),
    ("order_recipients", "recipients of orders"),
    ("recipient_mails", "counts of mails in an hour"),
    ("webhook_endpoints", "webhook endpoints"),
    ("webhook_deliveries", "webhooks"),
    ("api_keys", "API keys"),
    ("key_events", "lines of their trail"),
    ("idempotency_keys", "idempotency keys"),
    ("accesses", "accesses"),
    ("access_runs", "runs that number accesses"),
    ("order_feed", "changes in the feed"),
    ("order_feed_epochs", "epochs of the feed"),
    ("rejected_requests", "counts of rejected requests"),
    ("people", "people"),
    ("invitations", "invitations"),
    ("passkeys", "passkeys"),
    ("identities", "logins of people"),
];

/// Returns the numbers of rows of each table, with what they are.
fn rows(counts: &BTreeMap<&str, u64>) -> [(&'static str, u64); EXPORTED_TABLES.len()] {
    ROWS.map(|(table, rows)| (rows, counts.get(table).copied().unwrap_or_default()))
}

/// Describes the tables that have rows.
fn describe(counts: &BTreeMap<&str, u64>) -> String {
    let some = rows(counts).into_iter().filter(|(_, count)| *count > 0);
    some.map(|(rows, count)| format!("{rows}: {count}")).collect::<Vec<_>>().join(", ")
}

/// Returns a table with the numbers of all rows.
fn table_of(counts: &BTreeMap<&str, u64>) -> String {
    let columns: [Column<'_, (&str, u64)>; 2] =
        [("COPIED", "", &|(rows, _)| json!(rows)), ("ROWS", "", &|(_, count)| json!(count))];
    table(&columns, &[], &rows(counts))
}

/// Copies all rows in one transaction and returns a text that counts them.
pub(crate) async fn everything(
    from: &str,
    to: &str,
    settings: &Settings,
    progress: &Progress,
) -> Result<String> {
    let (from, to) = (checked(from.parse(), "--from")?, checked(to.parse(), "--to")?);
    let (Database::Sqlite(from), Database::Postgres(to)) = (from, to) else {
        let rule =
            "--from must be sqlite://PATH and --to must be postgres://USER:PASSWORD@HOST/DATABASE";
        bail!(WrongSetting(anyhow!(rule)));
    };
    // Opening a database creates it.
    let missing = || anyhow!("--from: there is no database at {}", from.display());
    ensure!(from.is_file(), WrongSetting(missing()));
    // The export needs every migration, and the database for itself.
    drop(open_sqlite(&from, "--from").await?);
    let mut source = Export::begin(&from).context("--from")?;
    let target = open_postgres(&to, settings, "--to").await?;
    let mut orphans = source.orphans().context("--from")?;
    // Rows that are older than their order go with it.
    orphans.retain(|(orphans, _)| orphans.contains(" without "));
    let mut import = target.begin_import().await.context("--to")?;
    let mut counts = BTreeMap::new();
    for table in EXPORTED_TABLES {
        counts.insert(table, import.count(table).await.context("--to")?);
    }
    let is_empty = counts.values().all(|count| *count == 0);
    ensure!(is_empty, "the target is not empty: it has {}", describe(&counts));

    for table in EXPORTED_TABLES {
        let mut last: Option<String> = None;
        while let Some(page) = source.page(table, last.as_deref(), PAGE).context("--from")? {
            import.insert(table, &page.rows).await.context("--to")?;
            *counts.entry(table).or_default() += page.count;
            last = Some(page.last);
            progress.set(format!("copied {}", describe(&counts)));
        }
    }
    let assigned = source.assigned_identifiers().context("--from")?;
    import.commit(&assigned).await.context("--to")?;
    let key = settings.in_data_dir(secrets_key::FILE);
    let left_out = if orphans.is_empty() {
        String::new()
    } else {
        format!("Left out: {}.\n", describe_orphans(&orphans))
    };
    Ok(format!(
        "{}\n{left_out}The documents themselves stay where they are. For webhooks the new service needs the same \
         NOTARY_ORDERS_SECRETS_KEY, by default the content of {}\nThe copy takes orders, and sends no \
         mails and webhooks until `notary-orders adopt`\n",
        table_of(&counts),
        key.display()
    ))
}
