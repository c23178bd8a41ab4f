//! What a mail says about an order that was placed.

use askama::Template;
use domain::{
    appointment::{Appointment, AppointmentTime},
    order::{SigningDetails, StoredOrder},
};
use time::{OffsetDateTime, Time, macros::format_description};

/// A line of the mail.
struct Fact {
    label: &'static str,
    value: String,
}

/// The confirmation of an order, to be read as text or as HTML.
pub(crate) struct Confirmation {
    facts: Vec<Fact>,
    instructions: Vec<String>,
}

#[derive(Template)]
#[template(path = "confirmation.txt")]
struct Text<'a> {
    facts: &'a [Fact],
    instructions: &'a [String],
}

#[derive(Template)]
#[template(path = "confirmation.html")]
struct Html<'a> {
    facts: &'a [Fact],
    instructions: &'a [String],
}

impl Confirmation {
    pub(crate) fn new(stored: &StoredOrder) -> Result<Self, time::error::Format> {
        let order = &stored.order;
        let property = &order.signing.property;
        let facts = [
            ("Order", Some(stored.id.0.to_string())),
            ("File number", Some(order.file_number.as_str().to_owned())),
            ("Signing service", Some(order.signing_service_id.0.to_string())),
            ("Signing type", Some(order.signing.signing_type.clone())),
            ("Appointment", Some(appointment(&order.appointment)?)),
            (
                "Property",
                Some(place(
                    &property.address,
                    Some(&property.city),
                    Some(&property.state),
                    Some(&property.zipcode),
                )),
            ),
            ("Signing location", Some(location(&order.signing))),
            ("Signer", Some(order.signing.signer.name.clone())),
            ("Co-signer", order.signing.co_signer.name.clone()),
            ("Language", Some(order.signing.language.clone())),
            ("Remote online notarization", Some(yes_or_no(order.signing.ron_signing))),
            ("Scanbacks required", Some(yes_or_no(order.signing.scanbacks_required))),
            ("Lender", order.signing.lender.clone()),
            ("Documents", Some(documents(stored))),
            ("Received", Some(instant(stored.created_at)?)),
        ];
        let facts = facts
            .into_iter()
            .filter_map(|(label, value)| value.map(|value| Fact { label, value }))
            .collect();
        // A carriage return alone ends no line in a mail.
        let instructions = order
            .signing
            .special_instructions
            .as_deref()
            .unwrap_or_default()
            .replace("\r\n", "\n")
            .replace('\r', "\n");
        Ok(Self { facts, instructions: instructions.lines().map(str::to_owned).collect() })
    }

    pub(crate) fn text(&self) -> askama::Result<String> {
        Text { facts: &self.facts, instructions: &self.instructions }.render()
    }

    pub(crate) fn html(&self) -> askama::Result<String> {
        Html { facts: &self.facts, instructions: &self.instructions }.render()
    }
}

fn appointment(appointment: &Appointment) -> Result<String, time::error::Format> {
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

fn location(signing: &SigningDetails) -> String {
    if signing.is_property_address_same {
        return "At the property".to_owned();
    }
    let location = signing.signing_location();
    place(
        &location.address,
        location.city.as_deref(),
        location.state.as_deref(),
        location.zipcode.as_deref(),
    )
}

/// An address in one line. Clients often write the whole of it into its first field, so it is not
/// told twice.
fn place(address: &str, city: Option<&str>, state: Option<&str>, zipcode: Option<&str>) -> String {
    if zipcode.is_some_and(|zipcode| address.contains(zipcode)) {
        return address.to_owned();
    }
    let region = [state, zipcode].into_iter().flatten().collect::<Vec<_>>().join(" ");
    [address, city.unwrap_or_default(), &region]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(", ")
}

fn documents(stored: &StoredOrder) -> String {
    match stored.documents.as_slice() {
        [] => "none".to_owned(),
        documents => {
            let names = documents
                .iter()
                .map(|document| document.name.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            format!("{} ({names})", documents.len())
        }
    }
}

fn yes_or_no(flag: bool) -> String {
    if flag { "yes" } else { "no" }.to_owned()
}
