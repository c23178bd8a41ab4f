//! The document store, mails, the malware scanner and webhooks.

use anyhow::Context as _;
use domain::ports::{DocumentScanner as _, error_chain};
use time::{Duration, OffsetDateTime};
use url::Url;

use super::{
    database::compare_clock,
    finding::{Failure, Findings, Subject, advise},
};
use crate::{
    adapters::{self, DATA_DIR, DOCUMENTS, MAIL, MAIL_FROM, SCANNER},
    secrets_key,
    settings::Database,
};

/// A store reports the instants of objects in whole seconds.
const HALF_SECOND: Duration = Duration::milliseconds(500);

pub(super) async fn documents(of: &Subject, found: &mut Findings) -> Result<(), Failure> {
    let folder = of.settings.documents();
    // Opening a folder makes it.
    if let Some(folder) = folder.as_ref().filter(|folder| !folder.exists()) {
        let shown = folder.display();
        found.ok(format!("there are none yet; the first start makes {shown}"));
        return Ok(());
    }
    let opened = adapters::document_store(&of.settings);
    let setting = if of.settings.documents_url.is_none() { DATA_DIR } else { DOCUMENTS };
    let store = advise(opened, format!("Correct {setting}"))?;
    let before = of.clock.now();
    let probed = store.probe().await.context("no object can be put, read and removed");
    let took = of.clock.now() - before;
    let advice = if folder.is_some() {
        format!("Give the folder to the user of the service, or correct {setting}")
    } else {
        format!("Repair the store, or correct {DOCUMENTS} or its credentials and rights")
    };
    let put_at = advise(probed, advice)?;
    if let Some(folder) = folder {
        found.ok(format!("a file was written, read and removed in {}", folder.display()));
    } else {
        let encryption = asked_encryption(of.settings.documents_url.as_deref());
        let encryption = encryption.map(|asked| format!("; it was put with sse={asked}"));
        let encryption = encryption.unwrap_or_default();
        found.ok(format!("an object was put, read and removed in the bucket{encryption}"));
        let ahead = OffsetDateTime::from(put_at) + HALF_SECOND - (before + took / 2);
        compare_clock("document store", ahead, HALF_SECOND + took / 2, "", found);
    }
    Ok(())
}

/// Returns the encryption that a URL asks of its bucket. Opening the store has checked it.
fn asked_encryption(url: Option<&str>) -> Option<String> {
    let url = Url::parse(url?).ok()?;
    url.query_pairs().find(|(name, _)| name == "sse").map(|(_, asked)| asked.into_owned())
}

pub(super) async fn mail(of: &Subject, found: &mut Findings) -> Result<(), Failure> {
    let folder = of.settings.mail_drop();
    let opened = match &folder {
        // Opening a folder makes it.
        Some(folder) if !folder.exists() => adapters::sender(&of.settings).map(|_| None),
        _ => adapters::notifier(&of.settings).map(Some),
    };
    let mut is_slow = false;
    let setting = if of.settings.mail_url.is_none() { DATA_DIR } else { MAIL };
    if let Some(notifier) = advise(opened, format!("Correct {setting} or {MAIL_FROM}"))? {
        let advice = match &folder {
            Some(_) => format!("Give the folder to the user of the service, or correct {setting}"),
            None => format!("Repair the relay, or correct {setting} or {MAIL_FROM}"),
        };
        let checked = notifier.check().await;
        is_slow = checked.as_ref().is_err_and(adapter_mail::is_slow);
        if !is_slow {
            advise(checked, advice)?;
        }
    }
    if let Some(folder) = folder {
        let shown = folder.display();
        found.ok(format!("mails become files in {shown}, and are not sent"));
        return Ok(());
    }
    if is_slow {
        found.warn(
            "the relay did not answer within 5 seconds; mails wait for it up to 5 minutes",
            "Look whether mails leave, or find out why the relay is slow",
        );
    } else {
        found.ok("the relay accepts mails of the sender");
    }
    if of.settings.mail_from.trim_end_matches('>').ends_with("@localhost") {
        found.warn(
            "the sender of mails is at localhost, which recipients reject",
            format!("Set {MAIL_FROM} to an address of yours"),
        );
    }
    Ok(())
}

pub(super) async fn scanner(of: &Subject, found: &mut Findings) -> Result<(), Failure> {
    let opened = adapters::scanner(&of.settings);
    if let Some(scanner) = advise(opened, format!("Correct {SCANNER}"))? {
        advise(scanner.check().await, format!("Start it, or correct {SCANNER}"))?;
        found.ok("it answers");
    }
    Ok(())
}

/// Checks the key of the secrets of webhooks, and the proxy.
pub(super) async fn webhooks(of: &Subject, found: &mut Findings) -> Result<(), Failure> {
    // The check of the database reports a wrong URL, and secrets that the key does not decrypt.
    if let Ok(database) = of.settings.database() {
        match secrets_key::find(&of.settings) {
            Ok(keys) if !keys.is_empty() => found.ok("the key of their secrets can be read"),
            Ok(_) if matches!(database, Database::Sqlite(_)) => {
                found.ok("the key of their secrets is missing yet; the first start makes it");
            }
            Ok(_) => found.warn(
                "there is no key of their secrets, so no webhook can be created or sent",
                format!(
                    "Set {} to the output of `openssl rand -base64 32`, the same for all \
                     instances, or use no webhooks",
                    secrets_key::SETTING
                ),
            ),
            Err(error) => found.fail(
                error_chain(error.as_ref()),
                "Let the user of the service read the key, or put the former one back: without \
                 it, the secrets of all endpoints are lost",
            ),
        }
    }
    advise(adapters::webhook_sender(&of.settings), "Correct the setting").map(drop)
}
