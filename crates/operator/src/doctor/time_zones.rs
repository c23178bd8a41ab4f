//! The age of the time zone data.

use std::sync::Arc;

use domain::appointment::ZoneDatabase;
use time::{Date, Month};

use super::finding::{Check, Finding, Subject};

const TZDATA: Check = Check("tzdata");

/// Warns of data that is over a year old.
pub(super) async fn check(of: Arc<Subject>) -> Vec<Finding> {
    vec![examined(ZoneDatabase::current().version(), of.clock.now().date())]
}

fn examined(version: &str, today: Date) -> Finding {
    let advice = "Update the service, or set --tzdata-dir (NOTARY_ORDERS_TZDATA_DIR) to newer data: \
                  states change their clocks, and appointments would be wrong by an hour";
    // A version has the year of its release only, so its age counts from the middle of the year.
    let year = version.get(..4).and_then(|year| year.parse::<i32>().ok());
    match year.map(|year| Date::from_calendar_date(year + 1, Month::July, 1)) {
        Some(Ok(old_from)) if today < old_from => TZDATA.ok(format!("IANA {version}")),
        Some(_) => TZDATA.warn(format!("IANA {version} is over a year old"), advice),
        None => TZDATA.warn("the version of the time zone data is unknown", advice),
    }
}

#[cfg(test)]
mod tests {
    use time::macros::date;

    use super::*;
    use crate::doctor::Level;

    #[test]
    fn data_over_a_year_old_is_a_warning() {
        for (version, today, level) in [
            ("2026f", date!(2026 - 11 - 27), Level::Ok),
            ("2026f", date!(2027 - 06 - 30), Level::Ok),
            ("2026f", date!(2027 - 07 - 01), Level::Warn),
            ("2025b", date!(2026 - 11 - 27), Level::Warn),
            ("unknown", date!(2026 - 11 - 27), Level::Warn),
            ("", date!(2026 - 11 - 27), Level::Warn),
        ] {
            assert_eq!(examined(version, today).level, level, "{version} {today}");
        }
    }
}
