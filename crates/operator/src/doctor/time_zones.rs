//! The age of the time zone data.

use domain::appointment::ZoneDatabase;
use time::{Date, Month};

use super::finding::{Failure, Findings, Subject};

/// Warns of data that is over a year old.
pub(super) async fn check(of: &Subject, found: &mut Findings) -> Result<(), Failure> {
    examine(ZoneDatabase::current().version(), of.clock.now().date(), found);
    Ok(())
}

fn examine(version: &str, today: Date, found: &mut Findings) {
    let advice = "Update the service, or set --tzdata-dir (NOTARY_ORDERS_TZDATA_DIR) to newer data: \
                  states change their clocks, and appointments would be wrong by an hour";
    // A version has the year of its release only, so its age counts from the middle of the year.
    let year = version.get(..4).and_then(|year| year.parse::<i32>().ok());
    match year.map(|year| Date::from_calendar_date(year + 1, Month::July, 1)) {
        Some(Ok(old_from)) if today < old_from => found.ok(format!("IANA {version}")),
        Some(_) => found.warn(format!("IANA {version} is over a year old"), advice),
        None => found.warn("the version of the time zone data is unknown", advice),
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
            let mut found = Findings::of("tzdata");
            examine(version, today, &mut found);
            assert_eq!(found.levels(), [level], "{version} {today}");
        }
    }
}
