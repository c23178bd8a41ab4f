//! Opens what the settings name, for a service that starts: what does not answer is a warning.

use std::sync::Arc;

use adapter_clamd::Clamd;
use anyhow::{Context as _, Result};
use domain::ports::{DocumentScanner as _, Notifier, error_chain};
use operator::{
    adapters::{
        MAIL, SCANNER, check_file, create_data_dir, document_store, notifier, scanner,
        webhook_sender,
    },
    secrets_key,
    settings::{Database, Settings, checked},
};

/// Reads every setting that names something to open, so that a wrong one is found whatever the other
/// ends do. Makes missing folders, and does not connect.
pub(crate) fn check_settings(settings: &Settings) -> Result<()> {
    create_data_dir(settings)?;
    if let Database::Sqlite(path) = settings.database()? {
        checked(check_file(&path), settings.database_setting())?;
    }
    document_store(settings)?;
    notifier(settings)?;
    scanner(settings)?;
    // Root certificates take milliseconds to read, and the service reads them once more.
    if settings.webhook_proxy.is_some() {
        webhook_sender(settings)?;
    }
    settings.logins()?;
    secrets_key::find(settings).map(drop)
}

/// Opens the malware scanner of the settings, if they name one. One that does not answer is a
/// warning. Fails if the URL is wrong.
pub(crate) async fn open_scanner(settings: &Settings) -> Result<Option<Clamd>> {
    let Some(scanner) = scanner(settings)? else { return Ok(None) };
    if let Err(error) = scanner.check().await {
        tracing::warn!(
            setting = SCANNER,
            error = error_chain(&error),
            required = settings.scan_required,
            "the malware scanner is unavailable; until it answers, orders with documents get 503 \
             if scans are required, and are stored unscanned otherwise"
        );
    }
    Ok(Some(scanner))
}

/// Opens the mail relay or folder of the settings, and returns whether it accepts mails. One that
/// does not answer is a warning: mails wait for it. Fails if the settings are wrong.
pub(crate) async fn open_notifier(settings: &Settings) -> Result<(Arc<dyn Notifier>, bool)> {
    let notifier = notifier(settings)?;
    let Err(error) = notifier.check().await else { return Ok((notifier, true)) };
    if adapter_mail::is_refusal(&error) {
        return Err(error).context(MAIL);
    }
    if adapter_mail::is_slow(&error) {
        tracing::warn!(setting = MAIL, "the mail relay is slow; mails wait longer for it");
        return Ok((notifier, true));
    }
    tracing::warn!(
        setting = MAIL,
        error = error_chain(&error),
        "the mail relay is unavailable; mails wait until it answers"
    );
    Ok((notifier, false))
}
