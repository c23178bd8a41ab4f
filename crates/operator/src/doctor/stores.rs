//! The document store, mails, the malware scanner, webhooks and traces.

use std::sync::Arc;

use domain::ports::{DocumentScanner as _, error_chain};
use time::{Duration, OffsetDateTime};

use super::{
    database::compare_clock,
    finding::{Check, Finding, Subject},
};
use crate::{
    adapters::{self, DOCUMENTS, MAIL, MAIL_FROM, SCANNER},
    secrets_key::{self, Key},
};

/// A store reports the instants of objects in whole seconds.
const HALF_SECOND: Duration = Duration::milliseconds(500);

pub(super) async fn documents(of: Arc<Subject>) -> Vec<Finding> {
    let check = Check("documents");
    let folder = of.settings.documents();
    // Opening a folder makes it.
    if let Some(folder) = folder.as_ref().filter(|folder| !folder.exists()) {
        let shown = folder.display();
        return vec![check.ok(format!("there are none yet; the first start makes {shown}"))];
    }
    let store = match adapters::document_store(&of.settings) {
        Ok(store) => store,
        Err(error) => {
            return vec![check.fail(error_chain(error.as_ref()), format!("Correct {DOCUMENTS}"))];
        }
    };
    let before = of.clock.now();
    let probed = store.probe().await;
    let took = of.clock.now() - before;
    match (probed, folder) {
        (Err(error), _) => vec![check.fail(
            format!("no object can be put, read and removed: {}", error_chain(&error)),
            format!("Repair the store, or correct {DOCUMENTS} or its credentials and rights"),
        )],
        (Ok(_), Some(folder)) => {
            let shown = folder.display();
            vec![check.ok(format!("a file was written, read and removed in {shown}"))]
        }
        (Ok(put_at), None) => vec![
            check.ok("an object was put, read and removed in the bucket"),
            compare_clock(
                "document store",
                OffsetDateTime::from(put_at) + HALF_SECOND - (before + took / 2),
                HALF_SECOND + took / 2,
            ),
        ],
    }
}

pub(super) async fn mail(of: Arc<Subject>) -> Vec<Finding> {
    let check = Check("mail");
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
            return vec![check.fail(error_chain(error.as_ref()), advice)];
        }
    };
    if let Some(notifier) = notifier
        && let Err(error) = notifier.check().await
    {
        let advice = format!("Repair the relay, or correct {MAIL} or {MAIL_FROM}");
        return vec![check.fail(error_chain(&error), advice)];
    }
    if let Some(folder) = folder {
        let shown = folder.display();
        return vec![check.ok(format!("mails become files in {shown}, and are not sent"))];
    }
    let mut findings = vec![check.ok("the relay accepts mails of the sender")];
    if of.settings.mail_from.trim_end_matches('>').ends_with("@localhost") {
        findings.push(check.warn(
            "the sender of mails is at localhost, which recipients reject",
            format!("Set {MAIL_FROM} to an address of yours"),
        ));
    }
    findings
}

pub(super) async fn scanner(of: Arc<Subject>) -> Vec<Finding> {
    let check = Check("scanner");
    let scanner = match adapters::scanner(&of.settings) {
        Ok(None) => return Vec::new(),
        Ok(Some(scanner)) => scanner,
        Err(error) => {
            return vec![check.fail(error_chain(error.as_ref()), format!("Correct {SCANNER}"))];
        }
    };
    vec![match scanner.check().await {
        Ok(()) => check.ok("it answers"),
        Err(error) => check.fail(error_chain(&error), format!("Start it, or correct {SCANNER}")),
    }]
}

/// Checks the key of the secrets of webhooks, and the proxy.
pub(super) async fn webhooks(of: Arc<Subject>) -> Vec<Finding> {
    let (check, mut findings) = (Check("webhooks"), Vec::new());
    // The check of the database reports a wrong URL.
    if of.settings.database().is_ok() {
        findings.push(match secrets_key::find(&of.settings) {
            Ok(Key::Set(_)) => check.ok("the key of their secrets can be read"),
            Ok(Key::Unmade(path)) => {
                let shown = path.display();
                check.ok(format!("their key is missing yet; the first start makes {shown}"))
            }
            Ok(Key::Missing) => check.warn(
                "there is no key of their secrets, so no webhook can be created or sent",
                format!(
                    "Set {} to the output of `openssl rand -base64 32`, the same for all \
                     instances, or use no webhooks",
                    secrets_key::SETTING
                ),
            ),
            Err(error) => check.fail(
                error_chain(error.as_ref()),
                "Let the user of the service read the key, or put the former one back: without \
                 it, the secrets of all endpoints are lost",
            ),
        });
    }
    if let Err(error) = adapters::webhook_sender(&of.settings) {
        let advice = "Correct the setting, or install root certificates";
        findings.push(check.fail(error_chain(error.as_ref()), advice));
    }
    findings
}

/// Checks the collector of traces, if the environment names one.
pub(super) async fn traces(of: Arc<Subject>) -> Vec<Finding> {
    let check = Check("traces");
    let probe = move || telemetry::traces::probe(&of.settings.environment);
    let Ok(probed) = tokio::task::spawn_blocking(probe).await else { return Vec::new() };
    match probed {
        Ok(None) => Vec::new(),
        Ok(Some(Ok(()))) => vec![check.ok("the collector accepts spans")],
        // No order needs it.
        Ok(Some(Err(cause))) => vec![check.warn(
            format!("the collector accepts no spans, so there are no traces: {cause}"),
            "Start it, or correct OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_HEADERS",
        )],
        Err(error) => {
            let advice = "Correct this variable; the service does not start with it";
            vec![check.fail(error_chain(&error), advice)]
        }
    }
}
