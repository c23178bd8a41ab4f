use proptest::prelude::*;
use time::macros::{date, datetime, time};

use super::*;

fn zone(id: &str) -> Zone {
    Zone::from_stored(id).unwrap()
}

#[test]
fn conversion_follows_zone_and_season() {
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
fn every_zone_is_found_by_its_name() {
    for id in ZoneDatabase::current().ids() {
        assert_eq!(zone(&id.to_ascii_uppercase()).id(), id);
    }
}

#[test]
fn zones_are_compared_by_identifier() {
    assert_eq!(zone("America/Chicago"), zone("america/chicago"));
    assert_ne!(zone("America/Chicago"), zone("America/New_York"));
}

#[test]
fn skipped_local_time_is_an_error() {
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
fn repeated_local_time_is_the_earlier_unless_hinted() {
    let new_york = zone("America/New_York");
    let convert = |hint| new_york.to_utc(date!(2026 - 11 - 01), time!(01:30), hint);
    let (earlier, later) = (datetime!(2026-11-01 05:30 UTC), datetime!(2026-11-01 06:30 UTC));
    assert_eq!(convert(None), Ok(earlier));
    assert_eq!(convert(Some(later)), Ok(later));
    assert_eq!(convert(Some(earlier)), Ok(earlier));
    assert_eq!(convert(Some(datetime!(2026-11-01 07:30 UTC))), Ok(earlier));
}

/// Also on a day that is longer or shorter, or whose last midnight the clocks skip.
#[test]
fn any_time_appointment_is_from_eight_to_midnight_in_its_zone() {
    for (id, date, starts, ends) in [
        (
            "America/Chicago",
            date!(2026 - 03 - 08),
            datetime!(2026-03-08 13:00 UTC),
            datetime!(2026-03-09 05:00 UTC),
        ),
        (
            "America/Chicago",
            date!(2026 - 11 - 01),
            datetime!(2026-11-01 14:00 UTC),
            datetime!(2026-11-02 06:00 UTC),
        ),
        (
            "Pacific/Kiritimati",
            date!(2026 - 12 - 02),
            datetime!(2026-12-01 18:00 UTC),
            datetime!(2026-12-02 10:00 UTC),
        ),
        (
            "Asia/Beirut",
            date!(2024 - 03 - 30),
            datetime!(2024-03-30 06:00 UTC),
            datetime!(2024-03-30 22:00 UTC),
        ),
    ] {
        let day = Appointment { date, zone: zone(id), time: AppointmentTime::Anytime };
        assert_eq!((day.starts(), day.ends()), (starts, ends), "{id} {date}");
    }
}

#[test]
fn unknown_zones_are_rejected() {
    assert_eq!(zone("america/chicago").id(), "America/Chicago");
    for unknown in ["Factory", "factory", "localtime", "posixrules", "posix/UTC", "right/UTC"] {
        assert!(Zone::named(unknown).is_none(), "{unknown}");
    }
    for unknown in ["", "CST6", "America/Nowhere", "UTC+5", "Central", "../etc/passwd"] {
        assert!(Zone::named(unknown).is_none(), "{unknown}");
    }
}

#[test]
fn dates_and_times_have_one_format() {
    assert_eq!(parse_date("2024-02-29"), Some(date!(2024 - 02 - 29)));
    for invalid in "2023-02-29 2026-13-01 2026-1-1 26-01-01 2026/01/01 01-02-2026 2026-01-01T00:00 \
         0000-01-01 -001-01-01 +026-01-01 ２026-01-01"
        .split(' ')
    {
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
fn datetimes_without_utc_are_rejected() {
    for valid in [
        "2026-12-01T19:30:00Z",
        "2026-12-01T19:30:00.000Z",
        "2026-12-01T19:30:00+00:00",
        // As generated clients write it.
        "2026-12-01T19:30:00+0000",
        "2026-12-01T19:30:00.0000000+0000",
        "2026-12-01T19:30:00.000000000Z",
        "2026-12-01T19:30Z",
        "20261201T193000Z",
    ] {
        assert_eq!(parse_utc(valid), Some(datetime!(2026-12-01 19:30 UTC)), "{valid}");
    }
    for invalid in
        "2026-12-01|2026-12-01T19:30:00|2026-12-01T19:30:00-06:00|2026-12-01T19:30:00-0600|2026-12-01 19:30|yesterday|\
         2026-02-30T00:00:00Z|1764617400"
            .split('|')
    {
        assert_eq!(parse_utc(invalid), None, "{invalid}");
    }
}

/// Generates every zone, at the minutes around one of its own clock changes.
fn around_a_clock_change() -> impl Strategy<Value = (Zone, OffsetDateTime)> {
    let ids: Vec<_> = ZoneDatabase::current().ids().collect();
    (prop::sample::select(ids), any::<prop::sample::Index>(), -200_i64..200).prop_map(
        |(id, change, minutes)| {
            let zone = zone(id);
            let (first, last) = (
                date!(1900 - 01 - 01).midnight().assume_utc().unix_timestamp(),
                date!(2200 - 01 - 01).midnight().assume_utc().unix_timestamp(),
            );
            // The listed transitions end where the yearly rule takes over, so days of later
            // years are added.
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

    /// Round trip from UTC: exact with a hint, and otherwise never a later instant.
    #[test]
    fn conversion_round_trips((zone, utc) in around_a_clock_change()) {
        let (date, time) = local(&zone, utc);
        prop_assert_eq!(zone.to_utc(date, time, Some(utc)), Ok(utc));
        let unnamed = zone.to_utc(date, time, None).unwrap();
        prop_assert!(unnamed <= utc);
        prop_assert_eq!(local(&zone, unnamed), (date, time));
    }

    /// A local time either has an instant that shows it, or no instant near it shows it.
    #[test]
    fn only_skipped_times_are_errors((zone, utc) in around_a_clock_change()) {
        // Any local time, shown or not.
        let (date, time) = (utc.date(), utc.time());
        match zone.to_utc(date, time, None) {
            Ok(instant) => prop_assert_eq!(local(&zone, instant), (date, time)),
            Err(error) => {
                prop_assert_eq!(error, ConversionError::Skipped);
                let shown = (-26 * 60..=26 * 60).any(|minutes| {
                    local(&zone, utc + Duration::minutes(minutes)) == (date, time)
                });
                prop_assert!(!shown, "{} {} in {} is shown", date, time, zone.id());
            }
        }
    }
}

#[test]
fn every_clock_change_round_trips() {
    let mut changes = 0;
    for name in ZoneDatabase::current().ids() {
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
