//! What webhooks need: the key of their secrets, and the proxy.

use domain::ports::error_chain;

use super::finding::Finding;
use crate::{
    adapters::webhook_sender,
    secrets_key::{self, Key},
    settings::Settings,
};

const CHECK: &str = "webhooks";

pub(super) fn check(settings: &Settings) -> Vec<Finding> {
    // The check of the database reports a wrong URL.
    let mut findings: Vec<_> =
        settings.database().is_ok().then(|| key(settings)).into_iter().collect();
    if let Err(error) = webhook_sender(settings) {
        let advice = "Correct the setting, or install root certificates";
        findings.push(Finding::fail(CHECK, error_chain(error.as_ref()), advice));
    }
    findings
}

fn key(settings: &Settings) -> Finding {
    match secrets_key::find(settings) {
        Ok(Key::Set(_)) => Finding::ok(CHECK, "the key of their secrets can be read"),
        Ok(Key::Unmade(path)) => {
            let shown = path.display();
            Finding::ok(CHECK, format!("their key is missing yet; the first start makes {shown}"))
        }
        Ok(Key::Missing) => Finding::warn(
            CHECK,
            "there is no key of their secrets, so no webhook can be created or sent",
            format!(
                "Set {} to the output of `openssl rand -base64 32`, the same for all instances, \
                 or use no webhooks",
                secrets_key::SETTING
            ),
        ),
        Err(error) => Finding::fail(
            CHECK,
            error_chain(error.as_ref()),
            "Let the user of the service read the key, or put the former one back: without it, \
             the secrets of all endpoints are lost",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;

    #[test]
    fn wrong_database_url_is_no_fault_of_the_key() {
        assert_eq!(check(&settings(&["--database-url=mysql://host/orders"])), []);
    }
}
