//! The certificate of the API and its key, if the settings name them.

use std::{fs, os::unix::fs::MetadataExt as _};

use adapter_http::TlsPair;
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

use super::finding::{Failure, Findings, Subject, advise};
use crate::{
    settings::Settings,
    tls_files::{CERT_SETTING, KEY_SETTING, read_pair},
};

/// Time before its end at which a certificate must be renewed (docs/operations.md).
const RENEWAL: Duration = Duration::days(14);

const RENEW: &str = "Renew it; a running service uses changed files within seconds";

pub(super) async fn check(of: &Subject, found: &mut Findings) -> Result<(), Failure> {
    examine(&of.settings, of.clock.now(), found)
}

fn examine(settings: &Settings, now: OffsetDateTime, found: &mut Findings) -> Result<(), Failure> {
    let advice =
        format!("Correct {CERT_SETTING} and {KEY_SETTING}; the service does not start with them");
    let Some((.., pair)) = advise(read_pair(settings), advice)? else { return Ok(()) };
    judge_time(&pair, now, found);
    if let Some(key) = &settings.tls_key
        && fs::metadata(key).is_ok_and(|file| file.mode() & 0o004 != 0)
    {
        let key = key.display();
        found.warn(
            format!("every user of this machine can read the key in {key}"),
            format!("Run `chmod o= {key}`"),
        );
    }
    Ok(())
}

/// Judges the time in which a certificate is valid.
fn judge_time(pair: &TlsPair, now: OffsetDateTime, found: &mut Findings) {
    let [begins_at, expires_at] = [pair.begins_at, pair.expires_at]
        .map(|at| at.format(&Rfc3339).unwrap_or_else(|_| at.to_string()));
    let left = pair.expires_at - now;
    if now < pair.begins_at {
        let text = format!("it is not valid before {begins_at}, so clients reject it");
        found.fail(text, "Use one that is valid now, or correct the clock of this machine");
    } else if !left.is_positive() {
        found.fail(format!("it expired at {expires_at}"), RENEW);
    } else if left <= RENEWAL {
        let days = match left.whole_days() {
            1 => "1 day is left".to_owned(),
            days => format!("{days} days are left"),
        };
        found.warn(format!("it is valid only until {expires_at}: {days}"), RENEW);
    } else {
        let names = pair.names.join(", ");
        found.ok(format!("it fits its key, and is valid until {expires_at}: {names}"));
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};

    use test_servers::certificates::Certificates;
    use time::macros::datetime;

    use super::*;
    use crate::{
        doctor::{Finding, Level},
        settings::tests::settings,
    };

    fn findings_of(settings: &Settings, now: OffsetDateTime) -> Vec<Finding> {
        let mut found = Findings::of("certificate");
        if let Err(Failure(text, advice)) = examine(settings, now, &mut found) {
            found.fail(text, advice);
        }
        found.list
    }

    /// Examines a certificate that ends with the year 2029, and its key.
    fn examined(
        certificates: &Certificates,
        key: &str,
        mode: u32,
        now: OffsetDateTime,
    ) -> Vec<Finding> {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        fs::write(path("cert.pem"), certificates.cert_pem()).unwrap();
        fs::write(path("key.pem"), key).unwrap();
        fs::set_permissions(path("key.pem"), Permissions::from_mode(mode)).unwrap();
        let flags = [("cert", "cert.pem"), ("key", "key.pem")]
            .map(|(flag, name)| format!("--tls-{flag}={}", path(name).display()));
        findings_of(&settings(&flags.each_ref().map(String::as_str)), now)
    }

    fn certificates(names: &[&str]) -> Certificates {
        Certificates::issue_until("Root", names, 2030)
    }

    #[test]
    fn certificate_must_be_valid_for_another_fortnight() {
        let certificates = certificates(&["orders.example.com", "192.0.2.1"]);
        for (now, level, text) in [
            (
                datetime!(2029-12-17 23:59 UTC),
                Level::Ok,
                "it fits its key, and is valid until 2030-01-01T00:00:00Z: orders.example.com, \
                 192.0.2.1",
            ),
            (
                datetime!(2029-12-18 00:00 UTC),
                Level::Warn,
                "it is valid only until 2030-01-01T00:00:00Z: 14 days are left",
            ),
            (
                datetime!(2029-12-31 23:59 UTC),
                Level::Warn,
                "it is valid only until 2030-01-01T00:00:00Z: 0 days are left",
            ),
            (datetime!(2030-01-01 00:00 UTC), Level::Fail, "it expired at 2030-01-01T00:00:00Z"),
            (
                datetime!(1970-01-01 00:00 UTC),
                Level::Fail,
                "it is not valid before 1975-01-01T00:00:00Z, so clients reject it",
            ),
        ] {
            let found = examined(&certificates, &certificates.key_pem(), 0o640, now);
            let found: Vec<_> = found.iter().map(|found| (found.level, &*found.text)).collect();
            assert_eq!(found, [(level, text)]);
        }
    }

    #[test]
    fn faults_of_a_pair_are_named() {
        let now = datetime!(2029-01-01 00:00 UTC);
        let (good, other) = (certificates(&["localhost"]), certificates(&["localhost"]));
        let found = examined(&good, &other.key_pem(), 0o600, now);
        assert!(found[0].level == Level::Fail && found[0].text.contains("does not belong"));
        let found = examined(&good, &good.key_pem(), 0o604, now);
        assert_eq!([found[0].level, found[1].level], [Level::Ok, Level::Warn]);
        assert!(found[1].text.contains("every user"), "{found:?}");
        let refused = findings_of(&settings(&["--tls-key=/no/key"]), now);
        assert!(refused[0].level == Level::Fail && refused[0].text.contains("needs --tls-cert"));
        assert_eq!(findings_of(&settings(&[]), now), []);
    }
}
