//! The request that creates an equal order.

use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{Contact, InvoiceRecipient, Money, Order, OrderRequest, SigningDetails, record::hh_mm};
use crate::appointment::AppointmentTime;

impl OrderRequest {
    /// Returns an order in the names of the request: trimmed, with its defaults, and with the
    /// instants of the service's own conversion. The signing service is left out. Sent again with
    /// one, and with another file number, it creates an equal order.
    pub fn of(order: &Order) -> Value {
        let Order { contacts, requested_by, appointment, .. } = order;
        let [at, start, end] =
            appointment.time.moments().map(|moment| instant(moment.map(|moment| moment.utc)));
        let contacts = [
            ("orderContactEmail", json!(contacts.order_contact_email)),
            ("clientCompanyId", json!(contacts.client_company_id)),
            ("observer", json!(contacts.observer)),
            ("inHouseContact", json!(contacts.in_house_contact.as_ref().map(Contact::to_request))),
            (
                "inHouseContact2",
                json!(contacts.in_house_contact2.as_ref().map(Contact::to_request)),
            ),
        ];
        let requested_by = [
            ("userId", json!(requested_by.user_id)),
            ("userRole", json!(requested_by.user_role)),
            ("signingServiceId", json!(requested_by.signing_service_id)),
        ];
        object([
            ("signingContactsFormData", object(contacts)),
            ("signingDetailsFormData", details(order)),
            ("utcTimeDate", at),
            ("utcStartTimeDate", start),
            ("utcEndTimeDate", end),
            ("requestedBy", object(requested_by)),
        ])
    }
}

/// Returns an object without its absent fields.
pub(super) fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let present = fields.into_iter().filter(|(_, value)| !value.is_null());
    present.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns an instant as a request may have it: not before the year 1.
fn instant(at: Option<OffsetDateTime>) -> Value {
    json!(at.filter(|at| at.year() >= 1).and_then(|at| at.format(&Rfc3339).ok()))
}

fn details(order: &Order) -> Value {
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
    object([
        ("fileNumber", json!(file_number.as_str())),
        ("signingDate", json!(appointment.date.to_string())),
        ("signingTimeType", json!(kind)),
        ("specificTime", json!(at)),
        ("startTime", json!(start)),
        ("endTime", json!(end)),
        ("timeZoneId", json!(appointment.zone.id())),
        ("propertyAddress", json!(property.address)),
        ("signingType", json!(signing.signing_type)),
        ("signerName", json!(signer.name)),
        ("signerPhone", json!(signer.phone)),
        ("signerEmail", json!(signer.email)),
        ("city", json!(property.city)),
        ("state", json!(property.state)),
        ("zipcode", json!(property.zipcode)),
        ("language", json!(signing.language)),
        ("spouseName", json!(signer.spouse_name)),
        ("coSignerName", json!(co_signer.name)),
        ("coSignerSpouseName", json!(co_signer.spouse_name)),
        ("coSignerPhone", json!(co_signer.phone)),
        ("coSignerEmail", json!(co_signer.email)),
        ("signingAddress", json!(location.address)),
        ("signingCity", json!(location.city)),
        ("signingState", json!(location.state)),
        ("signingZipcode", json!(location.zipcode)),
        ("isPropertyAddressSame", json!(signing.is_property_address_same)),
        ("esigningPlatform", json!(signing.esigning_platform)),
        ("scanbacksRequired", json!(signing.scanbacks_required)),
        ("ronSigning", json!(signing.ron_signing)),
        ("documentDelivery", json!(signing.document_delivery)),
        ("lender", json!(signing.lender)),
        ("specialInstructions", json!(signing.special_instructions)),
        ("loanOfficer", json!(signing.loan_officer.as_ref().map(Contact::to_request))),
        ("invoiceOrderTo", json!(invoice.recipient.as_ref().map(InvoiceRecipient::to_request))),
        ("invoiceName", json!(invoice.name)),
        ("invoicePhone", json!(invoice.phone)),
        ("invoiceEmail", json!(invoice.email)),
        ("invoiceFee", json!(invoice.fee.map(Money::to_json))),
        ("notaryPay", json!(invoice.notary_pay.map(Money::to_json))),
    ])
}

#[cfg(test)]
#[path = "read_back_tests.rs"]
mod tests;
