//! Date, time and time zone of a signing, and their conversion to UTC.

use time::{Date, Duration, OffsetDateTime, Time, macros::format_description};
use tz::{TimeZoneRef, datetime::DateTime, datetime::FoundDateTimeKind};

/// When a signing takes place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appointment {
    /// Local date.
    pub date: Date,
    /// Time zone of the date and of every local time.
    pub zone: Zone,
    /// At which time of that date.
    pub time: AppointmentTime,
}

/// At which time of its date a signing takes place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppointmentTime {
    /// At a specific time.
    At(Moment),
    /// Within a range; the end is after the start, on the wall clock and in UTC.
    Between {
        /// Start of the range.
        start: Moment,
        /// End of the range.
        end: Moment,
    },
    /// At any time.
    Anytime,
}

/// A time on the wall clock and the instant that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Local time, whole minutes.
    pub local: Time,
    /// The same in UTC.
    pub utc: OffsetDateTime,
}

/// A zone of the IANA time zone database that is embedded in the program.
#[derive(Debug, Clone, Copy)]
pub struct Zone {
    id: &'static str,
    rules: TimeZoneRef<'static>,
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Zone {}

/// Why a local time is no instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConversionError {
    /// The clocks of the zone were put forward over this time.
    #[error("does not exist on this date: the clocks of the time zone skip it")]
    Skipped,
    /// The instant is outside of the years that UTC datetimes have here.
    #[error("is outside of the supported range")]
    OutOfRange,
}

impl Zone {
    /// The zone of an IANA identifier; letter case does not matter, as in the IANA database itself.
    pub fn named(id: &str) -> Option<Self> {
        let id = tzdb::TZ_NAMES.iter().copied().find(|name| name.eq_ignore_ascii_case(id))?;
        tzdb::tz_by_name(id).map(|rules| Self { id, rules })
    }

    /// The IANA identifier, as the database spells it.
    pub fn id(&self) -> &'static str {
        self.id
    }

    /// The instant of a local time.
    ///
    /// Of a time that occurs twice because clocks are put back it is the earlier instant, unless
    /// `hint` is the later.
    pub fn to_utc(
        &self,
        date: Date,
        time: Time,
        hint: Option<OffsetDateTime>,
    ) -> Result<OffsetDateTime, ConversionError> {
        let found = DateTime::find(
            date.year(),
            date.month().into(),
            date.day(),
            time.hour(),
            time.minute(),
            time.second(),
            0,
            self.rules,
        )
        .map_err(|_| ConversionError::OutOfRange)?
        .into_inner();
        let mut instants = Vec::with_capacity(found.len());
        for kind in found {
            if let FoundDateTimeKind::Normal(instant) = kind {
                instants.push(
                    OffsetDateTime::from_unix_timestamp(instant.unix_time())
                        .map_err(|_| ConversionError::OutOfRange)?,
                );
            }
        }
        let earliest = instants.iter().min().copied().ok_or(ConversionError::Skipped)?;
        Ok(hint
            .and_then(|hint| instants.into_iter().find(|instant| agrees(hint, *instant)))
            .unwrap_or(earliest))
    }
}

/// Reads a date of the form `YYYY-MM-DD`, from year 1 to 9999.
pub fn parse_date(text: &str) -> Option<Date> {
    let form = format_description!("[year base:calendar repr:full sign:automatic]-[month]-[day]");
    let date = Date::parse(text, form).ok()?;
    // A year with a sign is longer.
    (text.len() == 10 && (1..=9999).contains(&date.year())).then_some(date)
}

/// Reads a time of the form `HH:MM`, from 00:00 to 23:59.
pub fn parse_time(text: &str) -> Option<Time> {
    Time::parse(text, format_description!("[hour]:[minute]")).ok()
}

/// Reads an ISO 8601 datetime that says itself to be UTC (`Z` or a zero offset).
pub fn parse_utc(text: &str) -> Option<OffsetDateTime> {
    let instant =
        OffsetDateTime::parse(text, &time::format_description::well_known::Iso8601::PARSING)
            .ok()?;
    let whole = text.contains('T') && instant.offset().is_utc();
    (whole && (1..=9999).contains(&instant.year())).then_some(instant)
}

/// Whether an instant that the client computed is the one that the service computed, to the second.
pub fn agrees(supplied: OffsetDateTime, converted: OffsetDateTime) -> bool {
    (supplied - converted).abs() < Duration::SECOND
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::macros::{date, datetime, time};

    use super::*;

    fn zone(id: &str) -> Zone {
        Zone::named(id).unwrap()
    }

    #[test]
    fn a_local_time_becomes_the_instant_of_its_zone_and_season() {
        let chicago = zone("America/Chicago");
        assert_eq!(
            chicago.to_utc(date!(2026 - 01 - 15), time!(14:30), None),
            Ok(datetime!(2026-01-15 20:30 UTC))
        );
        assert_eq!(
            chicago.to_utc(date!(2026 - 07 - 15), time!(14:30), None),
            Ok(datetime!(2026-07-15 19:30 UTC))
        );
        assert_eq!(
            zone("Asia/Kathmandu").to_utc(date!(2026 - 01 - 01), time!(00:00), None),
            Ok(datetime!(2025-12-31 18:15 UTC))
        );
    }

    #[test]
    fn a_zone_is_itself_alone() {
        assert_eq!(zone("America/Chicago"), zone("america/chicago"));
        assert_ne!(zone("America/Chicago"), zone("America/New_York"));
    }

    #[test]
    fn a_time_that_clocks_skip_is_an_error() {
        assert_eq!(
            zone("America/New_York").to_utc(date!(2026 - 03 - 08), time!(02:30), None),
            Err(ConversionError::Skipped)
        );
        assert_eq!(
            zone("Pacific/Apia").to_utc(date!(2011 - 12 - 30), time!(12:00), None),
            Err(ConversionError::Skipped)
        );
        assert!(zone("America/Phoenix").to_utc(date!(2026 - 03 - 08), time!(02:30), None).is_ok());
    }

    #[test]
    fn a_time_that_occurs_twice_is_the_earlier_unless_the_hint_names_the_later() {
        let new_york = zone("America/New_York");
        let convert = |hint| new_york.to_utc(date!(2026 - 11 - 01), time!(01:30), hint);
        let (earlier, later) = (datetime!(2026-11-01 05:30 UTC), datetime!(2026-11-01 06:30 UTC));
        assert_eq!(convert(None), Ok(earlier));
        assert_eq!(convert(Some(later)), Ok(later));
        assert_eq!(convert(Some(earlier)), Ok(earlier));
        assert_eq!(convert(Some(datetime!(2026-11-01 07:30 UTC))), Ok(earlier));
    }

    #[test]
    fn only_zones_of_the_iana_database_are_known() {
        assert_eq!(zone("america/chicago").id(), "America/Chicago");
        for unknown in ["", "CST6", "America/Nowhere", "UTC+5", "Central", "../etc/passwd"] {
            assert!(Zone::named(unknown).is_none(), "{unknown}");
        }
    }

    #[test]
    fn dates_and_times_have_one_form() {
        assert_eq!(parse_date("2024-02-29"), Some(date!(2024 - 02 - 29)));
        for invalid in [
            "2023-02-29",
            "2026-13-01",
            "2026-1-1",
            "26-01-01",
            "2026/01/01",
            "01-02-2026",
            "2026-01-01T00:00",
            "0000-01-01",
            "-001-01-01",
            "+026-01-01",
            "２026-01-01",
        ] {
            assert_eq!(parse_date(invalid), None, "{invalid}");
        }
        assert_eq!(parse_time("00:00"), Some(time!(00:00)));
        assert_eq!(parse_time("23:59"), Some(time!(23:59)));
        for invalid in
            ["24:00", "12:60", "9:30", "09:30:00", "0930", "+9:30", " 9:30", "09-30", "9:30 PM"]
        {
            assert_eq!(parse_time(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn instants_less_than_a_second_apart_agree() {
        let instant = datetime!(2026-12-01 19:30 UTC);
        assert!(
            agrees(instant + Duration::milliseconds(999), instant)
                && agrees(instant - Duration::milliseconds(999), instant)
        );
        assert!(
            !agrees(instant + Duration::SECOND, instant)
                && !agrees(instant - Duration::SECOND, instant)
        );
    }

    #[test]
    fn utc_datetimes_say_that_they_are_utc() {
        for valid in [
            "2026-12-01T19:30:00Z",
            "2026-12-01T19:30:00.000Z",
            "2026-12-01T19:30:00+00:00",
            "2026-12-01T19:30Z",
            "20261201T193000Z",
        ] {
            assert_eq!(parse_utc(valid), Some(datetime!(2026-12-01 19:30 UTC)), "{valid}");
        }
        for invalid in [
            "2026-12-01",
            "2026-12-01T19:30:00",
            "2026-12-01T19:30:00-06:00",
            "2026-12-01 19:30",
            "yesterday",
            "2026-02-30T00:00:00Z",
            "1764617400",
        ] {
            assert_eq!(parse_utc(invalid), None, "{invalid}");
        }
    }

    /// Every zone, at the minutes around one of its own clock changes.
    fn around_a_clock_change() -> impl Strategy<Value = (Zone, OffsetDateTime)> {
        (0..tzdb::TZ_NAMES.len(), any::<prop::sample::Index>(), -200_i64..200).prop_map(
            |(name, change, minutes)| {
                let zone = zone(tzdb::TZ_NAMES[name]);
                let (first, last) = (
                    date!(1900 - 01 - 01).midnight().assume_utc().unix_timestamp(),
                    date!(2200 - 01 - 01).midnight().assume_utc().unix_timestamp(),
                );
                // The listed transitions end where the yearly rule takes over, so days of any year
                // join them.
                let mut changes: Vec<i64> = zone
                    .rules
                    .transitions()
                    .iter()
                    .map(tz::timezone::Transition::unix_leap_time)
                    .filter(|at| (first..last).contains(at))
                    .collect();
                changes.extend((0..1_800).map(|week| 1_700_000_000 + week * 7 * 86_400));
                let at = *change.get(&changes) + minutes * 60;
                (zone, OffsetDateTime::from_unix_timestamp(at - at.rem_euclid(60)).unwrap())
            },
        )
    }

    fn local(zone: &Zone, utc: OffsetDateTime) -> (Date, Time) {
        let offset = zone.rules.find_local_time_type(utc.unix_timestamp()).unwrap().ut_offset();
        let local = utc + Duration::seconds(offset.into());
        (local.date(), local.time())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        /// From UTC to the wall clock and back: the instant itself when it is named, and otherwise
        /// never a later one.
        #[test]
        fn what_the_wall_clock_shows_leads_back((zone, utc) in around_a_clock_change()) {
            let (date, time) = local(&zone, utc);
            prop_assert_eq!(zone.to_utc(date, time, Some(utc)), Ok(utc));
            let unnamed = zone.to_utc(date, time, None).unwrap();
            prop_assert!(unnamed <= utc);
            prop_assert_eq!(local(&zone, unnamed), (date, time));
        }

        /// A wall-clock time either is shown at the instant given for it, or is shown at no instant
        /// near it.
        #[test]
        fn only_times_that_no_clock_shows_are_skipped((zone, utc) in around_a_clock_change()) {
            // Any wall-clock time, shown or not: read the instant as if it were one.
            let (date, time) = (utc.date(), utc.time());
            match zone.to_utc(date, time, None) {
                Ok(instant) => prop_assert_eq!(local(&zone, instant), (date, time)),
                Err(error) => {
                    prop_assert_eq!(error, ConversionError::Skipped);
                    let shown = (-26 * 60..=26 * 60).any(|minutes| local(&zone, utc + Duration::minutes(minutes)) == (date, time));
                    prop_assert!(!shown, "{} {} in {} is shown", date, time, zone.id());
                }
            }
        }
    }

    #[test]
    fn every_clock_change_of_every_zone_is_converted_back_and_forth() {
        let mut changes = 0;
        for name in tzdb::TZ_NAMES {
            let zone = zone(name);
            for change in zone.rules.transitions() {
                for minutes in [-31, -1, 0, 29] {
                    let Ok(utc) =
                        OffsetDateTime::from_unix_timestamp(change.unix_leap_time() + minutes * 60)
                    else {
                        continue;
                    };
                    let (date, time) = local(&zone, utc);
                    assert_eq!(zone.to_utc(date, time, Some(utc)), Ok(utc), "{name}");
                    assert!(zone.to_utc(date, time, None).unwrap() <= utc, "{name}");
                }
                changes += 1;
            }
        }
        assert!(changes > 10_000, "only {changes} clock changes were tried");
    }
}
