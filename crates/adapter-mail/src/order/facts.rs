//! The facts of an order that a mail shows.

use domain::{
    delivery::{Audience, Extent, MailContent, MailSubject, Notification},
    document::stored_count,
    order::{Contact, EmailAddress, Money, Notary, Order, SigningLocation, StoredOrder},
    request::phone_parts,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use time::error::Format;

use super::{
    language::language_name,
    times::{appointment, instant, zone},
};
use crate::Sender;

/// The characters that a value of a link may have unescaped (RFC 3986, section 2.3).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The label of the time of the appointment.
const WHEN: &str = "Appointment";

/// The label of its place.
const WHERE: &str = "Signing location";

/// The label of the property.
const PROPERTY: &str = "Property";

/// The label of the zone.
const ZONE: &str = "Time zone";

/// A line of a mail.
pub(super) struct Fact {
    pub(super) label: &'static str,
    /// The parts of the value; a comma stands between them.
    pub(super) parts: Vec<Part>,
}

/// A part of a value, and the address that it opens.
pub(super) struct Part {
    pub(super) text: String,
    pub(super) link: Option<String>,
}

/// A fact that has changed. Its values may have several lines.
pub(super) struct Change {
    pub(super) label: &'static str,
    pub(super) was: Vec<String>,
    pub(super) now: Vec<String>,
}

impl Fact {
    /// Returns the value without its links.
    pub(super) fn value(&self) -> String {
        let parts: Vec<_> = self.parts.iter().map(|part| part.text.as_str()).collect();
        parts.join(", ")
    }
}

impl Part {
    fn text(text: String) -> Self {
        Self { text, link: None }
    }

    /// Returns a number that opens a phone, with its extension (RFC 3966, section 3).
    fn phone(text: String) -> Self {
        let link = phone_parts(&text).map(|(number, extension)| {
            let dialled: String =
                number.chars().filter(|c| c.is_ascii_digit() || *c == '+').collect();
            let extension = extension.map(|digits| format!(";ext={digits}")).unwrap_or_default();
            format!("tel:{dialled}{extension}")
        });
        Self { text, link }
    }

    fn email(address: &EmailAddress) -> Self {
        let text = address.as_str().to_owned();
        let (user, host) = text.rsplit_once('@').unwrap_or((&text, ""));
        let link = format!("mailto:{}@{host}", utf8_percent_encode(user, UNRESERVED));
        Self { link: Some(link), text }
    }

    /// Returns an address that opens a map.
    fn place(text: String) -> Self {
        let query = utf8_percent_encode(&text, UNRESERVED);
        let link = format!("https://www.google.com/maps/search/?api=1&query={query}");
        Self { link: Some(link), text }
    }
}

/// Returns where the signing takes place.
pub(super) fn place(order: &Order) -> Part {
    Part::place(address_line(order.signing.signing_location()))
}

/// Returns the address of the order in the console, if the recipient can sign in.
pub(super) fn link(sender: &Sender, notification: &Notification) -> Option<String> {
    let page = sender.order_page(notification.order.id)?;
    is_user(notification).then_some(page)
}

/// Returns whether the recipient is a party of the order that can sign in.
pub(super) fn is_user(
    Notification { extent, audience, order, recipient, .. }: &Notification,
) -> bool {
    let contacts = &order.order.contacts;
    *extent == Extent::Whole
        && (*audience == Audience::Service || !contacts.is_only_observer(recipient))
}

/// Returns what the mail shows.
pub(super) fn facts(notification: &Notification) -> Result<Vec<Fact>, Format> {
    let Notification { order: stored, subject, audience, service, .. } = notification;
    let order = &stored.order;
    let text = |label, value: Option<String>| (label, vec![value.map(Part::text)]);
    if notification.extent == Extent::EndOnly {
        let known = [
            text("Order", Some(stored.id.0.to_string())),
            text("File number", Some(order.file_number.as_str().to_owned())),
        ];
        return Ok(known.into_iter().filter_map(fact).collect());
    }
    let is_told = [MailSubject::Cancelled, MailSubject::NotSigned].contains(subject);
    let reason = stored.reason_of_status().filter(|_| is_told).map(str::to_owned);
    let number = order.signing_service_id.0;
    let service = service
        .as_ref()
        .map_or_else(|| number.to_string(), |service| format!("{} ({number})", service.name));
    let is_for_service = *audience == Audience::Service;
    let property = (!order.signing.is_property_address_same)
        .then(|| Part::place(address_line(order.signing.property.clone().into())));
    // The first line has the time and the place.
    let is_beside = |(label, _): &Parts| ![WHEN, ZONE, WHERE, PROPERTY].contains(label);
    let first = [
        text("Reason", reason),
        text("Order", Some(stored.id.0.to_string())),
        text("File number", Some(order.file_number.as_str().to_owned())),
        text("Client", stored.names.client.clone().filter(|_| is_for_service)),
        text("Signing service", Some(service).filter(|_| !is_for_service)),
        ("Notary", notary(notification)),
        text(ZONE, Some(zone(&order.appointment)?)),
        (PROPERTY, vec![property]),
    ];
    let signed = stored_count(&stored.signed_documents);
    let last = [
        text("Documents", Some(documents(stored))),
        text("Signed documents", (signed > 0).then(|| signed.to_string())),
        text("Received", Some(instant(order.appointment.zone, stored.created_at)?)),
    ];
    let known = of_order(order, *audience)?.into_iter().filter(is_beside);
    let all = first.into_iter().chain(known).chain(last);
    Ok(all.filter_map(fact).collect())
}

/// A label, and parts of which some may be missing.
type Parts = (&'static str, Vec<Option<Part>>);

fn fact((label, parts): Parts) -> Option<Fact> {
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then_some(Fact { label, parts })
}

/// Returns the notary, as far as it is known. News of a status does not name a later one.
fn notary(Notification { order, content, .. }: &Notification) -> Vec<Option<Part>> {
    if matches!(content, Some(MailContent::Notary(then)) if !then.is_of(order)) {
        return Vec::new();
    }
    let number = order.notary_id.map(|number| number.to_string());
    let Some(Notary { name, phone, email }) = &order.notary else {
        return vec![number.map(Part::text)];
    };
    let name = number.map_or_else(|| name.clone(), |number| format!("{name} ({number})"));
    vec![Some(Part::text(name)), phone.clone().map(Part::phone), email.as_ref().map(Part::email)]
}

/// Returns what the client has said about the order.
fn of_order(order: &Order, audience: Audience) -> Result<Vec<Parts>, Format> {
    let (signing, contacts) = (&order.signing, &order.contacts);
    let is_for_service = audience == Audience::Service;
    let location = if signing.is_property_address_same {
        Part::text("At the property".to_owned())
    } else {
        place(order)
    };
    let text = |label, value: Option<String>| (label, vec![value.map(Part::text)]);
    let of_service = |label, value: Option<String>| {
        (label, vec![value.filter(|_| is_for_service).map(Part::text)])
    };
    let phone = |number: Option<String>| number.filter(|_| is_for_service).map(Part::phone);
    let email =
        |address: Option<&EmailAddress>| address.filter(|_| is_for_service).map(Part::email);
    let contact = |label, contact: Option<&Contact>| {
        let contact = contact.filter(|_| is_for_service).cloned().unwrap_or_default();
        let Contact { name, phone: number, email: address } = contact;
        (label, vec![name.map(Part::text), phone(number), email(address.as_ref())])
    };
    let (signer, co_signer, invoice) = (&signing.signer, &signing.co_signer, &signing.invoice);
    let scanbacks = if signing.scanbacks_required { "required" } else { "not required" };
    let ron = if signing.ron_signing { "yes" } else { "no" };
    Ok(vec![
        text("Signing type", Some(signing.signing_type.clone())),
        text(WHEN, Some(appointment(&order.appointment)?)),
        (ZONE, vec![Some(Part::text(order.appointment.zone.id().to_owned()))]),
        (PROPERTY, vec![Some(Part::place(address_line(signing.property.clone().into())))]),
        (WHERE, vec![Some(location)]),
        (
            "Signer",
            vec![
                Some(Part::text(signer.name.clone())),
                phone(Some(signer.phone.clone())),
                email(Some(&signer.email)),
            ],
        ),
        of_service("Signer's spouse", signer.spouse_name.clone()),
        (
            "Co-signer",
            vec![
                co_signer.name.clone().map(Part::text),
                phone(co_signer.phone.clone()),
                email(co_signer.email.as_ref()),
            ],
        ),
        of_service("Co-signer's spouse", co_signer.spouse_name.clone()),
        text("Language", Some(language_name(&signing.language))),
        text("Remote online notarization (RON)", Some(ron.to_owned())),
        text("Scanbacks", Some(scanbacks.to_owned())),
        of_service("E-signing platform", signing.esigning_platform.clone()),
        of_service("Document delivery", signing.document_delivery.clone()),
        text("Lender", signing.lender.clone()),
        contact("Loan officer", signing.loan_officer.as_ref()),
        ("Order contact", vec![email(Some(&contacts.order_contact_email))]),
        contact("In-house contact", contacts.in_house_contact.as_ref()),
        contact("Second in-house contact", contacts.in_house_contact2.as_ref()),
        of_service("Invoice fee", invoice.fee.map(dollars)),
        of_service("Notary pay", invoice.notary_pay.map(dollars)),
    ])
}

/// Returns what a mail shows only when it changes.
fn beside_facts(order: &Order) -> Vec<Parts> {
    let (signing, contacts, requested_by) = (&order.signing, &order.contacts, &order.requested_by);
    let text = |value: Option<String>| value.map(Part::text);
    let number = |value: Option<i64>| value.map(|number| Part::text(number.to_string()));
    let at_property = if signing.is_property_address_same { "yes" } else { "no" };
    let invoice = &signing.invoice;
    let recipient = invoice.recipient.clone().unwrap_or_default();
    let region = region(recipient.state, recipient.zipcode);
    let service = requested_by.signing_service_id.map(|service| service.0);
    vec![
        ("Signing at the property", vec![text(Some(at_property.to_owned()))]),
        ("Observer", vec![contacts.observer.as_ref().map(Part::email)]),
        ("Client company", vec![number(contacts.client_company_id)]),
        (
            "Invoice to",
            vec![
                text(recipient.company_name),
                text(recipient.address),
                text(recipient.city),
                text(region),
            ],
        ),
        (
            "Invoice contact",
            vec![
                text(invoice.name.clone()),
                invoice.phone.clone().map(Part::phone),
                invoice.email.as_ref().map(Part::email),
            ],
        ),
        (
            "Requested by",
            vec![number(Some(requested_by.user_id)), text(requested_by.user_role.clone())],
        ),
        ("Service of the user", vec![number(service)]),
    ]
}

/// Returns the facts that differ from those of the order before its change, with both values. Both sides see
/// all of them: a mail about a change that it does not name would be a riddle.
pub(super) fn changes(notification: &Notification) -> Result<Vec<Change>, Format> {
    let Some(MailContent::Previous(record)) = &notification.content else { return Ok(Vec::new()) };
    // A mail without the values before is better than none.
    let Ok(previous) = record.clone().into_order() else { return Ok(Vec::new()) };
    let values = |order: &Order| -> Result<Vec<_>, Format> {
        let facts = of_order(order, Audience::Service)?.into_iter().chain(beside_facts(order));
        let mut values: Vec<_> =
            facts.map(|parts| (parts.0, fact(parts).map(|fact| fact.value()))).collect();
        values.push(("Special instructions", order.signing.special_instructions.clone()));
        Ok(values)
    };
    let (before, after) = (values(&previous)?, values(&notification.order.order)?);
    let shown = |value: Option<String>| lines(Some(value.as_deref().unwrap_or("none")));
    let both = before.into_iter().zip(after);
    let changed = both.filter(|((_, was), (_, now))| was != now);
    Ok(changed
        .map(|((label, was), (_, now))| Change { label, was: shown(was), now: shown(now) })
        .collect())
}

/// Returns the lines of a text. A mail program does not treat a lone carriage return as a line end.
pub(super) fn lines(text: Option<&str>) -> Vec<String> {
    let text = text.unwrap_or_default().replace("\r\n", "\n").replace('\r', "\n");
    text.lines().map(str::to_owned).collect()
}

fn dollars(amount: Money) -> String {
    format!("{amount} USD")
}

/// Formats an address as one line. Clients often put the whole address into its first field; if that
/// ends with all of the other fields, they would only repeat it. The last word of a street may be
/// the name of its city.
pub(super) fn address_line(
    SigningLocation { address, city, state, zipcode }: SigningLocation,
) -> String {
    let is_whole = city.is_some() && state.is_some() && zipcode.is_some();
    let rest = city.into_iter().chain(region(state, zipcode)).collect::<Vec<_>>().join(", ");
    if rest.is_empty() || is_whole && words(&address).ends_with(&words(&rest)) {
        return address;
    }
    format!("{address}, {rest}")
}

/// Returns a state with its ZIP code, as addresses have them.
fn region(state: Option<String>, zipcode: Option<String>) -> Option<String> {
    let parts: Vec<_> = state.into_iter().chain(zipcode).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
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
