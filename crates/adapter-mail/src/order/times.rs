//! Times as people in the United States write them, with the zone and UTC beside.

use domain::appointment::{Appointment, AppointmentTime, Moment, Zone};
use time::{
    OffsetDateTime, Time, error::Format, format_description::BorrowedFormatItem,
    macros::format_description,
};

const CLOCK: &[BorrowedFormatItem<'_>] =
    format_description!("[hour repr:12 padding:none]:[minute] [period]");

/// Returns an appointment, such as `Tuesday, December 1, 2026, 2:30 PM CST`.
pub(super) fn appointment(appointment: &Appointment) -> Result<String, Format> {
    let date = appointment
        .date
        .format(format_description!("[weekday], [month repr:long] [day padding:none], [year]"))?;
    let zone = appointment.zone;
    Ok(match appointment.time {
        AppointmentTime::At(at) => format!("{date}, {}", named_time(zone, at)?),
        AppointmentTime::Between { start, end } => {
            let (from, to) = (named_time(zone, start)?, named_time(zone, end)?);
            format!("{date}, between {from} and {to}")
        }
        AppointmentTime::Anytime => format!("{date}, at any time"),
    })
}

/// Returns the zone of an appointment with its time in UTC, such as
/// `America/Chicago (2026-12-01 20:30 UTC)`.
pub(super) fn zone(appointment: &Appointment) -> Result<String, Format> {
    let id = appointment.zone.id();
    Ok(match appointment.time {
        AppointmentTime::At(at) => format!("{id} ({} UTC)", utc(at.utc)?),
        AppointmentTime::Between { start, end } => {
            format!("{id} ({} to {} UTC)", utc(start.utc)?, utc(end.utc)?)
        }
        AppointmentTime::Anytime => id.to_owned(),
    })
}

/// Returns an appointment for a subject, such as `Dec 1, 2:30 PM`.
pub(super) fn short_appointment(appointment: &Appointment) -> Result<String, Format> {
    let date =
        appointment.date.format(format_description!("[month repr:short] [day padding:none]"))?;
    Ok(match appointment.time {
        AppointmentTime::At(at) => format!("{date}, {}", clock_time(at.local)?),
        AppointmentTime::Between { start, end } => {
            format!("{date}, {} to {}", clock_time(start.local)?, clock_time(end.local)?)
        }
        AppointmentTime::Anytime => date,
    })
}

/// Returns an instant in a zone, such as `Nov 21, 2026, 6:00 AM CST`.
pub(super) fn instant(zone: Zone, instant: OffsetDateTime) -> Result<String, Format> {
    let Some((local, name)) = zone.local(instant) else {
        return Ok(format!("{} UTC", utc(instant)?));
    };
    let date = local.format(format_description!(
        "[month repr:short] [day padding:none], [year], [hour repr:12 padding:none]:[minute] [period]"
    ))?;
    Ok(format!("{date} {name}"))
}

/// Returns a time of the clock with the short name of the zone.
fn named_time(zone: Zone, moment: Moment) -> Result<String, Format> {
    let time = clock_time(moment.local)?;
    Ok(zone.local(moment.utc).map_or_else(|| time.clone(), |(_, name)| format!("{time} {name}")))
}

fn clock_time(time: Time) -> Result<String, Format> {
    time.format(CLOCK)
}

fn utc(instant: OffsetDateTime) -> Result<String, Format> {
    instant.format(format_description!("[year]-[month]-[day] [hour]:[minute]"))
}
