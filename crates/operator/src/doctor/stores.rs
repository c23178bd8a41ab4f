//! The document store, mails, the malware scanner, webhooks and traces.

use domain::ports::{DocumentScanner as _, error_chain};
use time::{Duration, OffsetDateTime};

use super::{
    database::compare_clock,
    finding::{Findings, Subject},
};
use crate::{
    adapters::{self, DOCUMENTS, MAIL, MAIL_FROM, SCANNER},
    secrets_key::{self, Key},
};

/// A store reports the instants of objects in whole seconds.
const HALF_SECOND: Duration = Duration::milliseconds(500);

pub(super) async fn documents(of: &Subject, found: &mut Findings) {
    let folder = of.settings.documents();
    // Opening a folder makes it.
    if let Some(folder) = folder.as_ref().filter(|folder| !folder.exists()) {
        let shown = folder.display();
        return found.ok(format!("there are none yet; the first start makes {shown}"));
    }
    let store = match adapters::document_store(&of.settings) {
        Ok(store) => store,
        Err(error) => {
            return found.fail(error_chain(error.as_ref()), format!("Correct {DOCUMENTS}"));
        }
    };
    let before = of.clock.now();
    let probed = store.probe().await;
    let took = of.clock.now() - before;
    match (probed, folder) {
        (Err(error), _) => found.fail(
            format!("no object can be put, read and removed: {}", error_chain(&error)),
            format!("Repair the store, or correct {DOCUMENTS} or its credentials and rights"),
        ),
        (Ok(_), Some(folder)) => {
            found.ok(format!("a file was written, read and removed in {}", folder.display()));
        }
        (Ok(put_at), None) => {
            found.ok("an object was put, read and removed in the bucket");
            let ahead = OffsetDateTime::from(put_at) + HALF_SECOND - (before + took / 2);
            compare_clock("document store", ahead, HALF_SECOND + took / 2, found);
        }
    }
}

pub(super) async fn mail(of: &Subject, found: &mut Findings) {
    let folder = of.settings.mail_drop();
    let opened = match &folder {
        // Opening a folder makes it.
        Some(folder) if !folder.exists() => adapters::sender(&of.settings).map(|_| None),
        _ => adapters::notifier(&of.settings).map(Some),
    };
    let notifier = match opened {
        Ok(notifier) => notifier,
        Err(error) => {
            let advice = format!("Correct {MAIL} or {MAIL_FROM}");
            return found.fail(error_chain(error.as_ref()), advice);
        }
    };
    if let Some(notifier) = notifier
        && let Err(error) = notifier.check().await
    {
        let advice = format!("Repair the relay, or correct {MAIL} or {MAIL_FROM}");
        return found.fail(error_chain(&error), advice);
    }
    if let Some(folder) = folder {
        let shown = folder.display();
        return found.ok(format!("mails become files in {shown}, and are not sent"));
    }
    found.ok("the relay accepts mails of the sender");
    if of.settings.mail_from.trim_end_matches('>').ends_with("@localhost") {
        found.warn(
            "the sender of mails is at localhost, which recipients reject",
            format!("Set {MAIL_FROM} to an address of yours"),
        );
    }
}

pub(super) async fn scanner(of: &Subject, found: &mut Findings) {
    match adapters::scanner(&of.settings) {
        Ok(None) => {}
        Ok(Some(scanner)) => match scanner.check().await {
            Ok(()) => found.ok("it answers"),
            Err(error) => {
                found.fail(error_chain(&error), format!("Start it, or correct {SCANNER}"));
            }
        },
        Err(error) => found.fail(error_chain(error.as_ref()), format!("Correct {SCANNER}")),
    }
}

/// Checks the key of the secrets of webhooks, and the proxy.
pub(super) async fn webhooks(of: &Subject, found: &mut Findings) {
    // The check of the database reports a wrong URL.
    if of.settings.database().is_ok() {
        match secrets_key::find(&of.settings) {
            Ok(Key::Set(_)) => found.ok("the key of their secrets can be read"),
            Ok(Key::Unmade(path)) => {
                let shown = path.display();
                found.ok(format!("their key is missing yet; the first start makes {shown}"));
            }
            Ok(Key::Missing) => found.warn(
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
    if let Err(error) = adapters::webhook_sender(&of.settings) {
        found.fail(error_chain(error.as_ref()), "Correct the setting");
    }
}

/// Checks the collector of traces, if the environment names one.
pub(super) async fn traces(of: &Subject, found: &mut Findings) {
    let environment = of.settings.environment.clone();
    let probe = move || telemetry::traces::probe(&environment);
    let Ok(probed) = tokio::task::spawn_blocking(probe).await else { return };
    match probed {
        Ok(None) => {}
        Ok(Some(Ok(()))) => found.ok("the collector accepts spans"),
        // No order needs it.
        Ok(Some(Err(cause))) => found.warn(
            format!("the collector accepts no spans, so there are no traces: {cause}"),
            "Start it, or correct OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_HEADERS",
        ),
        Err(error) => {
            let advice = "Correct this variable; the service does not start with it";
            found.fail(error_chain(&error), advice);
        }
    }
}
