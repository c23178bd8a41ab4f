//! Date, time and time zone of a signing, and the conversion to UTC.

mod zones;

use time::{
    Date, Duration, OffsetDateTime, Time, UtcOffset,
    format_description::well_known::{Iso8601, Rfc3339},
    macros::{format_description, time},
};
use tz::{TimeZoneRef, datetime::DateTime, datetime::FoundDateTimeKind};

pub use self::zones::ZoneDatabase;

/// The appointment of a signing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appointment {
    /// Local date.
    pub date: Date,
    /// Time zone of the date and of every local time.
    pub zone: Zone,
    /// The time on that date.
    pub time: AppointmentTime,
}

/// When an any-time appointment begins, in its zone.
const DAY_STARTS: Time = time!(8:00);

impl Appointment {
    /// Returns when the signing begins: at any time of the day is from 8:00 on.
    pub fn starts(&self) -> OffsetDateTime {
        let [start, _] = self.time.bounds();
        start.map_or_else(|| self.instant(self.date, DAY_STARTS), |moment| moment.utc)
    }

    /// Returns when the signing is over: at its specific time, or at the end of its range or its day.
    pub fn ends(&self) -> OffsetDateTime {
        match self.time {
            AppointmentTime::At(at) => at.utc,
            AppointmentTime::Between { end, .. } => end.utc,
            AppointmentTime::Anytime => {
                let next = self.date.next_day().unwrap_or(self.date);
                self.instant(next, Time::MIDNIGHT)
            }
        }
    }

    /// Returns the instant of a local time. If a clock change skips it, that is an hour later.
    fn instant(&self, date: Date, time: Time) -> OffsetDateTime {
        let to_utc = |time| self.zone.to_utc(date, time, None);
        to_utc(time)
            .or_else(|_| to_utc(time + Duration::HOUR))
            .unwrap_or_else(|_| date.with_time(time).assume_utc())
    }
}

/// The time of a signing on its date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppointmentTime {
    /// At a specific time.
    At(Moment),
    /// Within a range. The end is after the start, both in local time and in UTC.
    Between {
        /// Start of the range.
        start: Moment,
        /// End of the range.
        end: Moment,
    },
    /// At any time of the day.
    Anytime,
}

impl AppointmentTime {
    /// Returns the specific moment, and the first and the last one of a range.
    pub(crate) fn moments(self) -> [Option<Moment>; 3] {
        match self {
            Self::At(at) => [Some(at), None, None],
            Self::Between { start, end } => [None, Some(start), Some(end)],
            Self::Anytime => [None; 3],
        }
    }

    /// Returns when the signing begins, and when a range ends.
    pub fn bounds(self) -> [Option<Moment>; 2] {
        let [at, start, end] = self.moments();
        [at.or(start), end]
    }
}

/// A local time and its instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Local time in whole minutes.
    pub local: Time,
    /// The same in UTC.
    pub utc: OffsetDateTime,
}

/// A zone of the IANA time zone database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    id: &'static str,
    rules: TimeZoneRef<'static>,
}

/// The reason why a local time has no instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConversionError {
    /// A clock change skips this local time.
    #[error("does not exist on this date: the clocks of the time zone skip it")]
    Skipped,
    /// The instant is outside of the supported years.
    #[error("is outside of the supported range")]
    OutOfRange,
}

impl Zone {
    /// Returns the zone with an IANA identifier. Letter case does not matter. The placeholders of
    /// the database are no zones: a machine without a zone is in `Factory`, and `localtime` is that
    /// of the machine.
    pub fn named(id: &str) -> Option<Self> {
        let zone = Self::from_stored(id)?;
        let is_placeholder = ["Factory", "localtime", "posixrules"].contains(&zone.id)
            || ["posix/", "right/"].iter().any(|copy| zone.id.starts_with(copy));
        (!is_placeholder).then_some(zone)
    }

    /// Returns a zone that was read from storage. It followed the rules of its day.
    pub(crate) fn from_stored(id: &str) -> Option<Self> {
        zones::find(id).map(|(id, rules)| Self { id, rules })
    }

    /// Returns the zone of instants without one.
    pub(crate) const fn utc() -> Self {
        Self { id: "UTC", rules: TimeZoneRef::utc() }
    }

    /// Returns the IANA identifier as the database spells it.
    pub fn id(&self) -> &'static str {
        self.id
    }

    /// Returns the local time of an instant, and the short name of the zone at that time, such as `CST`;
    /// `None` outside of the supported years. A zone without a short name has its difference from UTC,
    /// such as `UTC+03`.
    pub fn local(&self, instant: OffsetDateTime) -> Option<(OffsetDateTime, String)> {
        let kind = self.rules.find_local_time_type(instant.unix_timestamp()).ok()?;
        let offset = UtcOffset::from_whole_seconds(kind.ut_offset()).ok()?;
        let name = kind.time_zone_designation();
        let is_number = name.starts_with(['+', '-']);
        let name = if is_number { format!("UTC{name}") } else { name.to_owned() };
        Some((instant.checked_to_offset(offset)?, name))
    }

    /// Returns the instant of a local time.
    ///
    /// A local time that occurs twice is the earlier instant, unless `hint` is the later one.
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
        let instants = found.into_iter().filter_map(|kind| match kind {
            FoundDateTimeKind::Normal(instant) => {
                Some(OffsetDateTime::from_unix_timestamp(instant.unix_time()))
            }
            FoundDateTimeKind::Skipped { .. } => None,
        });
        let instants: Result<Vec<_>, _> = instants.collect();
        let instants = instants.map_err(|_| ConversionError::OutOfRange)?;
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
    // The parser also takes a year with a sign, which is longer.
    (text.len() == 10 && (1..=9999).contains(&date.year())).then_some(date)
}

/// Reads a time of the form `HH:MM`, from 00:00 to 23:59.
pub fn parse_time(text: &str) -> Option<Time> {
    Time::parse(text, format_description!("[hour]:[minute]")).ok()
}

/// Reads an RFC 3339 datetime. Its offset may lack the colon: `strftime` writes it so, and clients are generated.
pub fn parse_instant(text: &str) -> Option<OffsetDateTime> {
    in_either_form(text, |text| OffsetDateTime::parse(text, &Rfc3339).ok())
}

/// Reads a text, or else the one that has a colon in its offset.
fn in_either_form<T>(text: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    read(text).or_else(|| {
        let (rest, offset) = text.split_at_checked(text.len().checked_sub(4)?)?;
        let is_offset = rest.ends_with(['+', '-']) && offset.bytes().all(|it| it.is_ascii_digit());
        let (hours, minutes) = offset.split_at_checked(2).filter(|_| is_offset)?;
        read(&format!("{rest}{hours}:{minutes}"))
    })
}

/// Reads an ISO 8601 datetime in UTC (`Z` or a zero offset).
pub fn parse_utc(text: &str) -> Option<OffsetDateTime> {
    let instant = in_either_form(text, |text| OffsetDateTime::parse(text, &Iso8601::PARSING).ok())?;
    let whole = text.contains('T') && instant.offset().is_utc();
    (whole && (1..=9999).contains(&instant.year())).then_some(instant)
}

/// Checks whether the client's instant equals the service's, to the second.
pub fn agrees(supplied: OffsetDateTime, converted: OffsetDateTime) -> bool {
    (supplied - converted).abs() < Duration::SECOND
}

#[cfg(test)]
#[path = "appointment_tests.rs"]
mod tests;
