//! Moves from the embedded database to PostgreSQL.

use anyhow::{Context as _, Result, bail, ensure};
use domain::ports::StoreTarget as _;

use crate::{
    adapters::{open_postgres, open_sqlite},
    settings::{Database, Settings},
};

/// Copies everything, and says what it was.
pub(crate) async fn everything(from: &str, to: &str, settings: &Settings) -> Result<String> {
    let (Database::Sqlite(from), Database::Postgres(to)) =
        (from.parse().context("--from")?, to.parse().context("--to")?)
    else {
        bail!(
            "--from must be sqlite://PATH and --to must be postgres://USER:PASSWORD@HOST/DATABASE"
        );
    };
    // An empty database would be made where none is.
    ensure!(from.is_file(), "--from: there is no database at {}", from.display());
    let source = open_sqlite(&from, "--from").await?;
    let target = open_postgres(&to, settings, "--to").await?;
    let copied = target.take_over(&source).await?;
    Ok(format!("copied {copied}; the documents themselves stay where they are\n"))
}
