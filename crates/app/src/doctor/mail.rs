//! The mail relay, or the folder of mails.

use std::sync::Arc;

use anyhow::Error;
use domain::ports::{Notifier, error_chain};
use tokio::task::spawn_blocking;

use super::finding::{Checked, Finding};
use crate::{
    adapters::{MAIL, MAIL_FROM, notifier, sender},
    settings::Settings,
};

const CHECK: &str = "mail";

pub(super) async fn check(settings: Arc<Settings>) -> Checked {
    let opened = Arc::clone(&settings);
    let notifier = match spawn_blocking(move || open(&opened)).await? {
        Ok(notifier) => notifier,
        Err(finding) => return Ok(vec![finding]),
    };
    if let Err(error) = notifier.check().await {
        let advice = format!("Repair the relay, or correct {MAIL} or {MAIL_FROM}");
        return Ok(vec![Finding::fail(CHECK, error_chain(&error), advice)]);
    }
    let Some(folder) = settings.mail_drop() else { return Ok(relay(&settings)) };
    let text = format!("mails become files in {}, and are not sent", folder.display());
    Ok(vec![Finding::ok(CHECK, text)])
}

fn open(settings: &Settings) -> Result<Arc<dyn Notifier>, Finding> {
    let wrong = |error: Error| {
        let advice = format!("Correct {MAIL} or {MAIL_FROM}");
        Finding::fail(CHECK, error_chain(error.as_ref()), advice)
    };
    sender(settings).map_err(wrong)?;
    match settings.mail_drop() {
        // Opening a folder makes it.
        Some(folder) if !folder.exists() => Err(Finding::ok(
            CHECK,
            format!("there are none yet; mails become files in {}", folder.display()),
        )),
        _ => notifier(settings).map_err(wrong),
    }
}

/// Returns the findings for a relay that accepts the sender.
fn relay(settings: &Settings) -> Vec<Finding> {
    let mut findings = vec![Finding::ok(CHECK, "the relay accepts mails of the sender")];
    if settings.mail_from.trim_end_matches('>').ends_with("@localhost") {
        findings.push(Finding::warn(
            CHECK,
            "the sender of mails is at localhost, which recipients reject",
            format!("Set {MAIL_FROM} to an address of yours"),
        ));
    }
    findings
}
