//! Runs a backup or a restore, and prints its progress.

use anyhow::{Context as _, Result};

use super::output::print;
use crate::settings::Settings;

/// Runs blocking work, whose lines appear at once.
pub(super) async fn run(
    settings: Settings,
    work: impl FnOnce(&Settings, &mut dyn FnMut(String) -> Result<()>) -> Result<()> + Send + 'static,
) -> Result<()> {
    tokio::task::spawn_blocking(move || work(&settings, &mut |line| print(&format!("{line}\n"))))
        .await
        .context("the work on the files panicked")?
}
