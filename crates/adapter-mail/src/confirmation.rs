//! The content of the mails about an order.

use askama::Template;
use domain::{
    appointment::{Appointment, AppointmentTime},
    delivery::{Audience, MailSubject, Notification},
    order::{ChangeKind, Money, SigningLocation, StoredOrder},
};
use time::{OffsetDateTime, Time, macros::format_description};

use crate::language::language_name;

/// The content of a mail, rendered as text and as HTML.
pub(crate) struct Confirmation {
    heading: &'static str,
    introduction: &'static str,
    /// Why the recipient gets the mail.
    closing: &'static str,
    /// Lines of the mail: a label and its value.
    facts: Vec<(&'static str, String)>,
    instructions: Vec<String>,
}

#[derive(Template)]
#[template(path = "confirmation.txt")]
pub(crate) struct Text<'a>(pub(crate) &'a Confirmation);

#[derive(Template)]
#[template(path = "confirmation.html")]
pub(crate) struct Html<'a>(pub(crate) &'a Confirmation);

impl Confirmation {
    pub(crate) fn new(notification: &Notification) -> Result<Self, time::error::Format> {
        let Notification { order: stored, subject, audience, .. } = notification;
        let order = &stored.order;
        let signing = &order.signing;
        let is_for_service = *audience == Audience::Service;
        let location = if signing.is_property_address_same && !is_for_service {
            "At the property".to_owned()
        } else {
            address_line(signing.signing_location())
        };
        let states = stored.changes.iter().filter(|change| change.kind == ChangeKind::Status);
        let reason = states.last().and_then(|change| change.reason.clone());
        let of_service = |value: Option<String>| value.filter(|_| is_for_service);
        let (invoice, co_signer) = (&signing.invoice, &signing.co_signer);
        let scanbacks = if signing.scanbacks_required { "required" } else { "not required" };
        let facts = [
            ("Reason", reason.filter(|_| *subject == MailSubject::Cancelled)),
            ("Order", Some(stored.id.0.to_string())),
            ("File number", Some(order.file_number.as_str().to_owned())),
            ("Signing service", Some(order.signing_service_id.0.to_string())),
            ("Signing type", Some(signing.signing_type.clone())),
            ("Appointment", Some(appointment(&order.appointment)?)),
            ("Property", Some(address_line(signing.property.clone().into()))),
            ("Signing location", Some(location)),
            ("Signer", Some(signing.signer.name.clone())),
            ("Signer's phone", of_service(Some(signing.signer.phone.clone()))),
            ("Co-signer", co_signer.name.clone()),
            ("Co-signer's phone", of_service(co_signer.phone.clone())),
            ("Language", Some(language_name(&signing.language))),
            (
                "Remote online notarization (RON)",
                Some(if signing.ron_signing { "yes" } else { "no" }.to_owned()),
            ),
            ("Scanbacks", Some(scanbacks.to_owned())),
            ("E-signing platform", of_service(signing.esigning_platform.clone())),
            ("Document delivery", of_service(signing.document_delivery.clone())),
            ("Lender", signing.lender.clone()),
            ("Documents", Some(documents(stored))),
            ("Invoice fee", of_service(invoice.fee.map(dollars))),
            ("Notary pay", of_service(invoice.notary_pay.map(dollars))),
            ("Received", Some(instant(stored.created_at)?)),
        ];
        let facts = facts.into_iter().filter_map(|(label, value)| Some((label, value?))).collect();
        // A mail program does not treat a lone carriage return as a line end.
        let instructions = signing
            .special_instructions
            .as_deref()
            .unwrap_or_default()
            .replace("\r\n", "\n")
            .replace('\r', "\n");
        let (heading, introduction) = opening(*subject, *audience);
        let closing = match audience {
            Audience::Client => {
                "You receive this automatic message because the order names you as a contact."
            }
            Audience::Service => {
                "You receive this automatic message because the order names your signing service."
            }
        };
        let instructions = instructions.lines().map(str::to_owned).collect();
        Ok(Self { heading, introduction, closing, facts, instructions })
    }
}

/// Returns the heading and the first sentences of a mail.
fn opening(subject: MailSubject, audience: Audience) -> (&'static str, &'static str) {
    match (subject, audience) {
        (MailSubject::Created, Audience::Client) => (
            "We have received your signing order",
            "Thank you for your order. Please check the details below, and tell your signing \
            service if anything needs to be corrected.",
        ),
        (MailSubject::Created, Audience::Service) => (
            "A new signing order",
            "A client has created this order for your signing service. Please assign a notary.",
        ),
        (MailSubject::DocumentsAdded, _) => {
            ("A signing order has new documents", "The client has added documents to this order.")
        }
        (MailSubject::Reinstated, _) => (
            "A signing order takes place again",
            "The order was cancelled, and is not any more. The attached calendar file has the \
            appointment.",
        ),
        (MailSubject::Cancelled, _) => (
            "A signing order is cancelled",
            "The signing does not take place. The attached calendar file removes the appointment.",
        ),
    }
}

fn dollars(amount: Money) -> String {
    format!("{amount} USD")
}

pub(crate) fn appointment(appointment: &Appointment) -> Result<String, time::error::Format> {
    let date = appointment
        .date
        .format(format_description!("[weekday], [month repr:long] [day padding:none], [year]"))?;
    let zone = appointment.zone.id();
    Ok(match appointment.time {
        AppointmentTime::At(at) => {
            format!("{date} at {} ({zone}; {})", clock_time(at.local)?, instant(at.utc)?)
        }
        AppointmentTime::Between { start, end } => {
            let (from, to) = (clock_time(start.local)?, clock_time(end.local)?);
            format!(
                "{date} between {from} and {to} ({zone}; {} to {})",
                instant(start.utc)?,
                instant(end.utc)?
            )
        }
        AppointmentTime::Anytime => format!("{date} at any time ({zone})"),
    })
}

fn clock_time(time: Time) -> Result<String, time::error::Format> {
    time.format(format_description!("[hour repr:12 padding:none]:[minute] [period]"))
}

fn instant(instant: OffsetDateTime) -> Result<String, time::error::Format> {
    instant.format(format_description!("[year]-[month]-[day] [hour]:[minute] UTC"))
}

/// Formats an address as one line. Clients often put the whole address into its first field; if that
/// ends with all of the other fields, they would only repeat it. The last word of a street may be
/// the name of its city.
pub(crate) fn address_line(
    SigningLocation { address, city, state, zipcode }: SigningLocation,
) -> String {
    let is_whole = city.is_some() && state.is_some() && zipcode.is_some();
    let region = [state, zipcode].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let rest: Vec<_> = city.into_iter().chain([region]).filter(|part| !part.is_empty()).collect();
    let rest = rest.join(", ");
    if rest.is_empty() || is_whole && words(&address).ends_with(&words(&rest)) {
        return address;
    }
    format!("{address}, {rest}")
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| c == ',' || c == '.' || c.is_whitespace());
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

fn documents(stored: &StoredOrder) -> String {
    let current = stored.documents.iter().filter(|document| document.is_current());
    let names: Vec<_> = current.map(|document| document.name.as_str()).collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        format!("{} ({})", names.len(), names.join(", "))
    }
}
