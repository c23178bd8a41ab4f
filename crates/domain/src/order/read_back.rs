//! The request that creates an equal order.

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
    EmailAddress, Money, Order, OrderRequest, RequestedBy, SigningContacts, SigningDetails,
    json::{Fields, Json},
    record::hh_mm,
};
use crate::appointment::AppointmentTime;

impl OrderRequest {
    /// Returns an order in the names of the request: trimmed, with its defaults, and with the
    /// instants of the service's own conversion. The signing service is left out. Sent again with
    /// one, and with another file number, it creates an equal order.
    pub fn of(order: &Order) -> Self {
        let [at, start, end] =
            order.appointment.time.moments().map(|moment| instant(moment.map(|moment| moment.utc)));
        Self(Fields::from([
            ("signingContactsFormData", contacts(&order.contacts)),
            ("signingDetailsFormData", details(order)),
            ("utcTimeDate", at),
            ("utcStartTimeDate", start),
            ("utcEndTimeDate", end),
            ("requestedBy", requested_by(&order.requested_by)),
        ]))
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<&String> for Json {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<&EmailAddress> for Json {
    fn from(email: &EmailAddress) -> Self {
        Self::Text(email.as_str().to_owned())
    }
}

impl From<Money> for Json {
    fn from(money: Money) -> Self {
        Self::Number(money.to_string())
    }
}

impl<const N: usize> From<[(&'static str, Json); N]> for Json {
    fn from(fields: [(&'static str, Json); N]) -> Self {
        Self::Object(fields.into())
    }
}

/// Returns an instant as a request may have it: not before the year 1.
fn instant(at: Option<OffsetDateTime>) -> Json {
    let at = at.filter(|at| at.year() >= 1).and_then(|at| at.format(&Rfc3339).ok());
    at.as_ref().into()
}

fn contacts(contacts: &SigningContacts) -> Json {
    Json::from([
        ("orderContactEmail", (&contacts.order_contact_email).into()),
        ("clientCompanyId", contacts.client_company_id.map(Json::Integer).into()),
        ("observer", contacts.observer.as_ref().into()),
        ("inHouseContact", contacts.in_house_contact.as_ref().into()),
        ("inHouseContact2", contacts.in_house_contact2.as_ref().into()),
    ])
}

fn details(order: &Order) -> Json {
    let Order { file_number, appointment, signing, .. } = order;
    let SigningDetails { property, signer, co_signer, invoice, .. } = signing;
    let mut location = signing.signing_location();
    if signing.location.is_none() && !signing.is_property_address_same {
        // Only the address has a default.
        (location.city, location.state, location.zipcode) = (None, None, None);
    }
    let kind = match appointment.time {
        AppointmentTime::At(_) => "at",
        AppointmentTime::Between { .. } => "between",
        AppointmentTime::Anytime => "anytime",
    };
    let moments = appointment.time.moments();
    let [at, start, end] = moments.map(|moment| moment.map(|moment| hh_mm(moment.local)));
    Json::from([
        ("fileNumber", Json::Text(file_number.as_str().to_owned())),
        ("signingDate", Json::Text(appointment.date.to_string())),
        ("signingTimeType", Json::Text(kind.to_owned())),
        ("specificTime", at.as_ref().into()),
        ("startTime", start.as_ref().into()),
        ("endTime", end.as_ref().into()),
        ("timeZoneId", Json::Text(appointment.zone.id().to_owned())),
        ("propertyAddress", (&property.address).into()),
        ("signingType", (&signing.signing_type).into()),
        ("signerName", (&signer.name).into()),
        ("signerPhone", (&signer.phone).into()),
        ("signerEmail", (&signer.email).into()),
        ("city", (&property.city).into()),
        ("state", (&property.state).into()),
        ("zipcode", (&property.zipcode).into()),
        ("language", (&signing.language).into()),
        ("spouseName", signer.spouse_name.as_ref().into()),
        ("coSignerName", co_signer.name.as_ref().into()),
        ("coSignerSpouseName", co_signer.spouse_name.as_ref().into()),
        ("coSignerPhone", co_signer.phone.as_ref().into()),
        ("coSignerEmail", co_signer.email.as_ref().into()),
        ("signingAddress", (&location.address).into()),
        ("signingCity", location.city.as_ref().into()),
        ("signingState", location.state.as_ref().into()),
        ("signingZipcode", location.zipcode.as_ref().into()),
        ("isPropertyAddressSame", Json::Bool(signing.is_property_address_same)),
        ("esigningPlatform", signing.esigning_platform.as_ref().into()),
        ("scanbacksRequired", Json::Bool(signing.scanbacks_required)),
        ("ronSigning", Json::Bool(signing.ron_signing)),
        ("documentDelivery", signing.document_delivery.as_ref().into()),
        ("lender", signing.lender.as_ref().into()),
        ("specialInstructions", signing.special_instructions.as_ref().into()),
        ("loanOfficer", signing.loan_officer.as_ref().into()),
        ("invoiceOrderTo", invoice.recipient.as_ref().into()),
        ("invoiceName", invoice.name.as_ref().into()),
        ("invoicePhone", invoice.phone.as_ref().into()),
        ("invoiceEmail", invoice.email.as_ref().into()),
        ("invoiceFee", invoice.fee.into()),
        ("notaryPay", invoice.notary_pay.into()),
    ])
}

fn requested_by(requested_by: &RequestedBy) -> Json {
    Json::from([
        ("userId", Json::Integer(requested_by.user_id)),
        ("userRole", requested_by.user_role.as_ref().into()),
        ("signingServiceId", requested_by.signing_service_id.map(|id| Json::Integer(id.0)).into()),
    ])
}

#[cfg(test)]
#[path = "read_back_tests.rs"]
mod tests;
