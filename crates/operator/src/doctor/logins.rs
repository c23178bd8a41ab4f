//! The ways in which people sign in: logins of companies, and passkeys.

use std::net::SocketAddr;

use domain::{
    person::Origin,
    ports::{LoginError, ProviderReport, error_chain},
};
use futures_util::future::join_all;
use time::Duration;

use super::finding::{Failure, Findings, Subject, advise};
use crate::{
    adapters,
    settings::{LOGINS, Settings},
};

/// Greatest difference between the clocks of a provider and of this machine: with more, logins fail.
const TOLERATED: Duration = Duration::MINUTE;

/// A `Date` is in whole seconds (RFC 9110, section 5.6.7).
const HALF_SECOND: Duration = Duration::milliseconds(500);

/// Names the setting of the address.
const PUBLIC_URL: &str = "--public-url (NOTARY_ORDERS_PUBLIC_URL)";

/// Reads the discovery document and the keys of each provider, all at once.
pub(super) async fn logins(of: &Subject, found: &mut Findings) -> Result<(), Failure> {
    let opened = adapters::identity_providers(&of.settings, &of.clock);
    let providers = advise(opened, "Correct the setting; the service does not start with it")?;
    let checks = providers.iter().map(async |provider| {
        let before = of.clock.now();
        let checked = provider.check().await;
        let took = of.clock.now() - before;
        // The answer with the time is the first of two.
        let ahead =
            |report: &ProviderReport| Some(report.server_time? + HALF_SECOND - (before + took / 2));
        let ahead = checked.as_ref().ok().and_then(ahead);
        (provider.name(), checked, ahead, HALF_SECOND + took / 2)
    });
    for (name, checked, ahead, uncertainty) in join_all(checks).await {
        judge(&name, checked, ahead, uncertainty, found);
    }
    Ok(())
}

fn judge(
    name: &str,
    checked: Result<ProviderReport, LoginError>,
    ahead: Option<Duration>,
    uncertainty: Duration,
    found: &mut Findings,
) {
    let report = match checked {
        Ok(report) => report,
        Err(error @ LoginError::Unavailable(_)) => {
            return found.fail(
                format!("{name}: {}", error_chain(&error)),
                format!(
                    "Let this machine reach the provider by https, or correct {LOGINS}; passkeys \
                     and keys work meanwhile"
                ),
            );
        }
        Err(error @ LoginError::Rejected(_)) => {
            return found.fail(
                format!("{name}: {}", error_chain(&error)),
                format!(
                    "Correct {LOGINS}: the issuer must be that of the document, letter by letter"
                ),
            );
        }
    };
    let ProviderReport { issuer, usable_keys, .. } = report;
    if usable_keys == 0 {
        return found.fail(
            format!("{name}: none of the keys of {issuer} can be used"),
            "Let the provider sign ID tokens by RS256 or ES256",
        );
    }
    if let Some(ahead) = ahead.filter(|ahead| ahead.abs() - uncertainty > TOLERATED) {
        let direction = if ahead.is_positive() { "ahead of" } else { "behind" };
        let seconds = ahead.abs().whole_seconds();
        return found.fail(
            format!(
                "{name}: the clock of {issuer} is {seconds} s {direction} that of this machine"
            ),
            "Synchronize the clock of this machine by NTP: over a minute apart, logins fail",
        );
    }
    let keys = if usable_keys == 1 { "1 key".to_owned() } else { format!("{usable_keys} keys") };
    let clock = if ahead.is_some() { "its clock agrees" } else { "it does not tell its time" };
    found.ok(format!("{name}: {issuer} answers with its document and {keys}; {clock}"));
}

/// Checks that browsers allow passkeys where users reach the page.
pub(super) async fn passkeys(of: &Subject, found: &mut Findings) -> Result<(), Failure> {
    judge_address(&of.settings, found);
    Ok(())
}

fn judge_address(settings: &Settings, found: &mut Findings) {
    let advice =
        format!("Set {PUBLIC_URL} to an https address with a name, or use keys and logins");
    match &settings.public_url {
        Some(url) if Origin::parse(url.as_str()).is_some() => {
            found.ok(format!("browsers allow them at {url}"));
        }
        Some(url) => found.warn(format!("they do not work: browsers forbid them at {url}"), advice),
        None if is_local(&settings.listen) => {
            found.ok("browsers allow them at localhost; elsewhere they need --public-url");
        }
        None => found.warn("they do not work but at localhost: there is no --public-url", advice),
    }
}

/// Returns whether only this machine reaches an address.
fn is_local(listen: &str) -> bool {
    match listen.parse::<SocketAddr>() {
        Ok(address) => address.ip().is_loopback(),
        Err(_) => listen.starts_with("localhost:"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        doctor::{Finding, Level},
        settings::tests::settings,
    };

    fn judged(checked: Result<ProviderReport, LoginError>, ahead: Option<i64>) -> Finding {
        let mut found = Findings::of("logins");
        let ahead = ahead.map(Duration::seconds);
        judge("Entra", checked, ahead, Duration::SECOND, &mut found);
        assert_eq!(found.list.len(), 1);
        found.list.remove(0)
    }

    fn report(usable_keys: usize) -> ProviderReport {
        let issuer = "https://login.example.com".to_owned();
        ProviderReport { issuer, usable_keys, server_time: None }
    }

    #[test]
    fn provider_works_with_keys_and_a_clock_within_a_minute() {
        for (keys, ahead, level, words) in [
            (2, None, Level::Ok, "2 keys; it does not tell its time"),
            (1, Some(0), Level::Ok, "1 key; its clock agrees"),
            (1, Some(61), Level::Ok, "agrees"),
            (1, Some(62), Level::Fail, "62 s ahead of"),
            (1, Some(-61), Level::Ok, "agrees"),
            (1, Some(-62), Level::Fail, "62 s behind"),
            (0, Some(0), Level::Fail, "none of the keys"),
        ] {
            let Finding { level: found, text, .. } = judged(Ok(report(keys)), ahead);
            assert!(found == level && text.contains(words), "{ahead:?}: {text}");
            assert!(text.starts_with("Entra: "), "{text}");
        }
    }

    #[test]
    fn advice_differs_for_a_provider_that_is_down_and_one_that_is_another() {
        for (error, words) in [
            (LoginError::Unavailable("connection refused".into()), "reach the provider"),
            (LoginError::Rejected("of another issuer".into()), "letter by letter"),
        ] {
            let cause = error_chain(&error);
            let Finding { level, text, advice, .. } = judged(Err(error), None);
            assert_eq!((level, text), (Level::Fail, format!("Entra: {cause}")));
            assert!(advice.unwrap().contains(words));
        }
    }

    #[test]
    fn passkeys_need_https_or_localhost() {
        for (flags, level) in [
            (&["--public-url=https://orders.example.com/base"][..], Level::Ok),
            (&["--public-url=http://localhost:8080"], Level::Ok),
            (&["--public-url=http://orders.example.com"], Level::Warn),
            (&["--public-url=https://192.0.2.1"], Level::Warn),
            (&[], Level::Ok),
            (&["--listen=localhost:8080"], Level::Ok),
            (&["--listen=[::1]:8080"], Level::Ok),
            (&["--listen=:8080"], Level::Warn),
            (&["--listen=orders.example.com:8080"], Level::Warn),
            (&["--listen=:8080", "--public-url=https://orders.example.com"], Level::Ok),
        ] {
            let mut found = Findings::of("passkeys");
            judge_address(&settings(flags), &mut found);
            assert_eq!(found.levels(), [level], "{flags:?}");
        }
    }
}
