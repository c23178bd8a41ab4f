//! The clock of this machine, compared with those of the database and the bucket.

use domain::ports::Clock;
use time::{Duration, format_description::well_known::Rfc3339};

use super::finding::Finding;
use crate::settings::{Database, Settings};

const CHECK: &str = "clock";

/// Greatest difference between the clocks of instances (docs/topologies.md).
const TOLERATED: Duration = Duration::SECOND;

/// Half the time of a lease: an instance that is further ahead delivers mails twice.
const HARMFUL: Duration = Duration::MINUTE;

/// Compares the clock of this machine with another, which is ahead by so much. The measurement may
/// be wrong by `uncertainty`.
pub(super) fn compare(of: &str, ahead: Duration, uncertainty: Duration) -> Finding {
    let difference = (ahead.abs() - uncertainty).max(Duration::ZERO);
    if difference <= TOLERATED {
        let text = format!("the clock of the {of} agrees with that of this machine");
        return Finding::ok(CHECK, text);
    }
    let direction = if ahead.is_positive() { "ahead of" } else { "behind" };
    let seconds = ahead.abs().as_seconds_f64();
    let text = format!("the clock of the {of} is {seconds:.1} s {direction} that of this machine");
    let advice = "Synchronize the clocks of all machines by NTP";
    if difference <= HARMFUL {
        Finding::warn(CHECK, text, advice)
    } else {
        Finding::fail(CHECK, text, advice)
    }
}

/// Says so if there is no other clock. The checks of the database and of the bucket compare theirs.
pub(super) fn check(settings: &Settings, clock: &dyn Clock) -> Vec<Finding> {
    let is_alone =
        matches!(settings.database(), Ok(Database::Sqlite(_))) && settings.documents().is_some();
    let now = clock.now().truncate_to_second().format(&Rfc3339);
    match now {
        Ok(now) if is_alone => {
            vec![Finding::ok(CHECK, format!("{now}; there is no other clock to compare it with"))]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn difference_beyond_the_uncertainty_counts() {
        for (ahead, uncertainty, level) in [
            (0.9, 0.0, Level::Ok),
            (-0.9, 0.0, Level::Ok),
            (2.4, 1.5, Level::Ok),
            (1.1, 0.0, Level::Warn),
            (-59.0, 0.0, Level::Warn),
            (61.0, 0.5, Level::Fail),
            (-3_600.0, 5.0, Level::Fail),
        ] {
            let [ahead, uncertainty] = [ahead, uncertainty].map(Duration::seconds_f64);
            assert_eq!(compare("database", ahead, uncertainty).level, level, "{ahead}");
        }
        let behind = compare("bucket", Duration::seconds(-90), Duration::ZERO);
        assert_eq!(behind.text, "the clock of the bucket is 90.0 s behind that of this machine");
    }
}
