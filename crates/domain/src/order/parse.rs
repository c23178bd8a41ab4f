//! Parses a request into a valid order, or into all of its violations.

use std::borrow::Cow;

use time::{Date, OffsetDateTime, Time};

use super::{
    Address, CoSigner, Contact, EmailAddress, FileNumber, Invoice, InvoiceRecipient, Money, Order,
    OrderRequest, RequestedBy, Signer, SigningContacts, SigningDetails, SigningLocation,
    SigningServiceId, default_language, default_same,
    misplaced::misplaced,
    money::Amount,
    request::{
        ContactRequest, ContactsRequest, DetailsRequest, InvoiceRecipientRequest, OrderMembers,
        RequestedByRequest,
    },
};
use crate::{
    appointment::{
        self, Appointment, AppointmentTime, ConversionError, Moment, Zone, parse_date, parse_time,
        parse_utc,
    },
    request::{Code, Line, Object, Sent, Text as _, Violation, ViolationCode, rules::violations},
};

/// A valid order, and notes for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedOrder {
    /// The order.
    pub order: Box<Order>,
    /// Names of the `utc…` fields that disagree with the service's own conversion. The conversion
    /// is stored.
    pub utc_disagreements: Vec<&'static str>,
}

impl OrderRequest {
    /// Returns the valid order of the request.
    ///
    /// # Errors
    ///
    /// All violations of the request.
    pub fn parse(self) -> Result<ParsedOrder, Vec<Violation>> {
        self.parse_beside(false)
    }

    /// Gives the request a file number, unless it has one, or would lose one that stands elsewhere.
    #[must_use]
    pub(crate) fn or_file_number(self, number: &str) -> Self {
        let mut given = self.clone();
        match &mut given.signingDetailsFormData {
            Sent::Value(details) if details.fileNumber.is_absent() => {
                details.fileNumber = Sent::Value(Line::clean(number.to_owned()));
            }
            _ => return self,
        }
        let loses_one = misplaced(&given, false).len() < misplaced(&self, false).len();
        if loses_one { self } else { given }
    }

    /// Parses the request like [`parse`](Self::parse). If it was sent with documents, what it says about
    /// them besides is ignored.
    pub(crate) fn parse_beside(self, documents: bool) -> Result<ParsedOrder, Vec<Violation>> {
        let mut violations = violations(&self);
        violations.extend(misplaced(&self, documents));
        let utc = self.utc();
        let appointment = self
            .signingDetailsFormData
            .value()
            .and_then(|details| appointment(details, utc, &mut violations));
        match appointment.and_then(|appointment| order(self.members, appointment)) {
            Some(order) if violations.is_empty() => {
                let names = ["utcTimeDate", "utcStartTimeDate", "utcEndTimeDate"];
                let moments = order.appointment.time.moments();
                let disagrees = |field: &usize| {
                    let both = utc[*field].zip(moments[*field]);
                    both.is_some_and(|(sent, moment)| !appointment::agrees(sent, moment.utc))
                };
                let utc_disagreements =
                    (0..names.len()).filter(disagrees).map(|field| names[field]).collect();
                Ok(ParsedOrder { order: Box::new(order), utc_disagreements })
            }
            _ => Err(violations),
        }
    }
}

impl OrderMembers {
    /// Returns the instants of the client. Those that do not count are checked by no rule.
    fn utc(&self) -> [Option<OffsetDateTime>; 3] {
        [&self.utcTimeDate, &self.utcStartTimeDate, &self.utcEndTimeDate]
            .map(|sent| parse_utc(sent.value()?))
    }
}

/// Returns the order of a request without violations.
fn order(request: OrderMembers, appointment: Appointment) -> Option<Order> {
    let details = request.signingDetailsFormData.into_value()?.members;
    Some(Order {
        signing_service_id: SigningServiceId(request.signingServiceId.into_value()?),
        file_number: FileNumber::new(details.fileNumber.value()?.to_string())?,
        appointment,
        contacts: contacts(request.signingContactsFormData.into_value()?.members)?,
        signing: signing(details)?,
        requested_by: requested_by(request.requestedBy.into_value()?.members)?,
        trace: None,
    })
}

fn contacts(sent: ContactsRequest) -> Option<SigningContacts> {
    Some(SigningContacts {
        order_contact_email: email(sent.orderContactEmail)?,
        client_company_id: sent.clientCompanyId.into_value(),
        observer: email(sent.observer),
        in_house_contact: contact(sent.inHouseContact),
        in_house_contact2: contact(sent.inHouseContact2),
    })
}

fn requested_by(sent: RequestedByRequest) -> Option<RequestedBy> {
    Some(RequestedBy {
        user_id: sent.userId.into_value()?,
        user_role: text(sent.userRole),
        signing_service_id: sent.signingServiceId.into_value().map(SigningServiceId),
    })
}

fn signing(sent: DetailsRequest) -> Option<SigningDetails> {
    let is_property_address_same =
        sent.isPropertyAddressSame.value().copied().unwrap_or_else(default_same);
    let property = Address {
        address: text(sent.propertyAddress)?,
        city: text(sent.city)?,
        state: text(sent.state)?.to_ascii_uppercase(),
        zipcode: text(sent.zipcode)?,
    };
    let location = SigningLocation {
        address: text(sent.signingAddress).unwrap_or_else(|| property.address.clone()),
        city: text(sent.signingCity),
        state: text(sent.signingState).map(state_code),
        zipcode: text(sent.signingZipcode),
    };
    Some(SigningDetails {
        is_property_address_same,
        location: (!is_property_address_same && !is_just(&location, &property)).then_some(location),
        property,
        signing_type: text(sent.signingType)?,
        signer: Signer {
            name: text(sent.signerName)?,
            phone: text(sent.signerPhone)?,
            email: email(sent.signerEmail)?,
            spouse_name: text(sent.spouseName),
        },
        co_signer: CoSigner {
            name: text(sent.coSignerName),
            spouse_name: text(sent.coSignerSpouseName),
            phone: text(sent.coSignerPhone),
            email: email(sent.coSignerEmail),
        },
        language: text(sent.language).unwrap_or_else(default_language),
        esigning_platform: text(sent.esigningPlatform),
        scanbacks_required: sent.scanbacksRequired.into_value().unwrap_or_default(),
        ron_signing: sent.ronSigning.into_value().unwrap_or_default(),
        document_delivery: text(sent.documentDelivery),
        lender: text(sent.lender),
        special_instructions: text(sent.specialInstructions),
        loan_officer: contact(sent.loanOfficer),
        invoice: Invoice {
            recipient: recipient(sent.invoiceOrderTo),
            name: text(sent.invoiceName),
            phone: text(sent.invoicePhone),
            email: email(sent.invoiceEmail),
            fee: money(&sent.invoiceFee),
            notary_pay: money(&sent.notaryPay),
        },
    })
}

/// Returns whether a location says no more than the address of the property.
fn is_just(location: &SigningLocation, property: &Address) -> bool {
    location.address == property.address
        && [&location.city, &location.state, &location.zipcode].iter().all(|part| part.is_none())
}

fn state_code(state: String) -> String {
    if state.len() == 2 { state.to_ascii_uppercase() } else { state }
}

/// An object without any value counts as absent.
fn contact(sent: Sent<Object<ContactRequest>>) -> Option<Contact> {
    let sent = sent.into_value()?.members;
    let contact = Contact {
        name: text(sent.contact_name),
        phone: text(sent.contact_phone),
        email: email(sent.contact_email),
    };
    (contact != Contact::default()).then_some(contact)
}

fn recipient(sent: Sent<Object<InvoiceRecipientRequest>>) -> Option<InvoiceRecipient> {
    let sent = sent.into_value()?.members;
    let recipient = InvoiceRecipient {
        company_name: text(sent.company_name),
        address: text(sent.invoice_address),
        city: text(sent.city),
        state: text(sent.state),
        zipcode: text(sent.zipcode),
    };
    (recipient != InvoiceRecipient::default()).then_some(recipient)
}

fn text(sent: Sent<impl Into<String>>) -> Option<String> {
    sent.into_value().map(Into::into)
}

fn email(sent: Sent<Code>) -> Option<EmailAddress> {
    text(sent).map(EmailAddress::from_stored)
}

fn money(sent: &Sent<Amount>) -> Option<Money> {
    sent.value()?.0.ok()
}

/// Returns the appointment, or reports which local times do not exist or are in the wrong order.
fn appointment(
    details: &DetailsRequest,
    [at, start, end]: [Option<OffsetDateTime>; 3],
    violations: &mut Vec<Violation>,
) -> Option<Appointment> {
    let date = details.signingDate.value().and_then(|date| parse_date(date));
    let zone = details.timeZoneId.value().and_then(|zone| Zone::named(zone));
    let day = date.zip(zone);
    let local = |sent: &Sent<Code>| parse_time(sent.value()?);
    let mut report = |name: &str, code, detail: Cow<'static, str>| {
        let pointer = format!("/signingDetailsFormData/{name}").into();
        violations.push(Violation { pointer, code, detail });
    };
    let mut moment = |name: &str, local: Option<Time>, sent| {
        let (local, (date, zone)) = local.zip(day)?;
        match convert(date, local, zone, sent) {
            Ok(moment) => Some(moment),
            Err((code, detail)) => {
                report(name, code, detail);
                None
            }
        }
    };
    let time = if details.has_time("at") {
        AppointmentTime::At(moment("specificTime", local(&details.specificTime), at)?)
    } else if details.has_time("between") {
        let (from, to) = (local(&details.startTime), local(&details.endTime));
        let start = moment("startTime", from, start);
        let end = moment("endTime", to, end);
        let is_after = from.zip(to).is_none_or(|(from, to)| from < to);
        let occurs_after = start.zip(end).is_none_or(|(start, end)| start.utc < end.utc);
        if !is_after || !occurs_after {
            let detail = if is_after {
                "occurs twice on this date: name the later by utcEndTimeDate to be after startTime"
            } else {
                "must be after startTime"
            };
            report("endTime", ViolationCode::EndNotAfterStart, detail.into());
        }
        AppointmentTime::Between { start: start?, end: end? }
    } else {
        AppointmentTime::Anytime
    };
    let (date, zone) = day?;
    Some(Appointment { date, zone, time })
}

/// Converts a local time. The client's UTC value decides which, if it occurs twice.
fn convert(
    date: Date,
    local: Time,
    zone: Zone,
    sent: Option<OffsetDateTime>,
) -> Result<Moment, (ViolationCode, Cow<'static, str>)> {
    let utc = zone.to_utc(date, local, sent).map_err(|error| {
        let code = match error {
            ConversionError::Skipped => ViolationCode::NonexistentLocalTime,
            ConversionError::OutOfRange => ViolationCode::OutOfRange,
        };
        (code, error.to_string().into())
    })?;
    Ok(Moment { local, utc })
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
