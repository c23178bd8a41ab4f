//! The appointment as an iCalendar file (RFC 5545).

use domain::{
    appointment::AppointmentTime,
    delivery::{Extent, MailSubject, Notification},
};
use lettre::message::Mailbox;
use time::{Duration, OffsetDateTime, error::Format, macros::format_description};

use super::{
    facts::{address_line, is_user, link},
    times::appointment,
};
use crate::Sender;

/// The length of an appointment that has only a start: about what a signing takes.
const LENGTH: Duration = Duration::HOUR;

/// Greatest length of a line in bytes, without its end (section 3.1).
const MAX_LINE: usize = 75;

/// Returns whether a mail has a calendar file: its news may put the appointment into a calendar, move it
/// or remove it.
pub(super) fn has_calendar(subject: MailSubject) -> bool {
    use MailSubject::{Cancelled, Changed, Created, Reinstated};
    matches!(subject, Created | Changed | Cancelled | Reinstated)
}

/// Returns the method of the calendar file of a mail (RFC 5546, section 1.4).
pub(super) fn method(subject: MailSubject) -> &'static str {
    if subject == MailSubject::Cancelled { "CANCEL" } else { "PUBLISH" }
}

/// Returns a file with the appointment of an order, or one that removes it (RFC 5546, section 3.2.5).
/// Deterministic, and equal for all recipients but the observer, who gets neither the signer's phone nor a link.
pub(super) fn calendar(notification: &Notification, sender: &Sender) -> Result<String, Format> {
    let organizer = &sender.mailbox;
    let Notification { order: stored, subject, sequence, .. } = notification;
    let order = &stored.order;
    let signing = &order.signing;
    let (id, file_number) = (stored.id.0, order.file_number.as_str());
    let kind = if signing.ron_signing { "Remote online notarization (RON)" } else { "Signing" };
    let mut file = File::default();
    file.line("BEGIN:VCALENDAR");
    file.line("VERSION:2.0");
    file.line("PRODID:-//notary-orders//notary-orders//EN");
    file.line("CALSCALE:GREGORIAN");
    file.line(&format!("METHOD:{}", method(*subject)));
    file.line("BEGIN:VEVENT");
    file.line(&format!("UID:{}", stored.calendar_uid()));
    file.line(&format!("DTSTAMP:{}", instant(stored.updated_at)?));
    file.line(&format!("SEQUENCE:{sequence}"));
    if *subject == MailSubject::Cancelled {
        file.line("STATUS:CANCELLED");
    }
    file.line(&format!("ORGANIZER{}:mailto:{}", common_name(organizer), organizer.email));
    if notification.extent == Extent::EndOnly {
        // The identifier removes the appointment (RFC 5546, section 3.2.5: all else is optional).
        file.text("SUMMARY", &format!("Signing, file {file_number}"));
        file.line("END:VEVENT");
        file.line("END:VCALENDAR");
        return Ok(file.0);
    }
    file.text("SUMMARY", &format!("{kind}: {}, file {file_number}", signing.signing_type));
    file.text("LOCATION", &address_line(signing.signing_location()));
    let phone = Some(&signing.signer.phone).filter(|_| is_user(notification));
    let signer: Vec<_> = std::iter::once(&signing.signer.name).chain(phone).cloned().collect();
    let mut description = vec![
        format!("Signer: {}", signer.join(", ")),
        appointment(&order.appointment)?,
        format!("Order {id}"),
    ];
    description.extend(link(sender, notification));
    file.text("DESCRIPTION", &description.join("\n"));
    match order.appointment.time {
        AppointmentTime::At(at) => file.span(at.utc, at.utc.saturating_add(LENGTH))?,
        AppointmentTime::Between { start, end } => file.span(start.utc, end.utc)?,
        AppointmentTime::Anytime => {
            // A whole day, which does not make its owner busy.
            let (form, date) = (format_description!("[year][month][day]"), order.appointment.date);
            let next = date.next_day().unwrap_or(date);
            file.line(&format!("DTSTART;VALUE=DATE:{}", date.format(form)?));
            file.line(&format!("DTEND;VALUE=DATE:{}", next.format(form)?));
            file.line("TRANSP:TRANSPARENT");
        }
    }
    file.line("END:VEVENT");
    file.line("END:VCALENDAR");
    Ok(file.0)
}

/// Returns the parameter with the name of the organizer (RFC 5545, section 3.2.2). The characters that a
/// value cannot have are encoded (RFC 6868).
fn common_name(organizer: &Mailbox) -> String {
    let Some(name) = &organizer.name else { return String::new() };
    let name = name.replace('^', "^^").replace('"', "^'");
    format!(";CN=\"{name}\"")
}

#[derive(Default)]
struct File(String);

impl File {
    /// Adds a time from one instant to another. Instants in UTC need no definition of their zone,
    /// which mail programs read differently.
    fn span(&mut self, start: OffsetDateTime, end: OffsetDateTime) -> Result<(), Format> {
        self.line(&format!("DTSTART:{}", instant(start)?));
        self.line(&format!("DTEND:{}", instant(end)?));
        Ok(())
    }

    /// Adds a text (section 3.3.11).
    fn text(&mut self, name: &str, text: &str) {
        let mut line = format!("{name}:");
        for character in text.replace("\r\n", "\n").chars() {
            match character {
                '\\' | ';' | ',' => line.extend(['\\', character]),
                '\n' | '\r' => line.push_str("\\n"),
                // Some programs take these characters for the end of a line.
                '\u{2028}' | '\u{2029}' => line.push(' '),
                _ if character.is_control() && character != '\t' => line.push(' '),
                _ => line.push(character),
            }
        }
        self.line(&line);
    }

    /// Adds a line in pieces: each further piece begins with a space.
    fn line(&mut self, line: &str) {
        let mut length = 0;
        for character in line.chars() {
            if length + character.len_utf8() > MAX_LINE {
                self.0.push_str("\r\n ");
                length = 1;
            }
            self.0.push(character);
            length += character.len_utf8();
        }
        self.0.push_str("\r\n");
    }
}

fn instant(instant: OffsetDateTime) -> Result<String, Format> {
    instant.format(format_description!("[year][month][day]T[hour][minute][second]Z"))
}

#[cfg(test)]
#[path = "calendar_tests.rs"]
mod tests;
