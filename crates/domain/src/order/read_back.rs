//! The request that creates an equal order.

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
    Contact, EmailAddress, InvoiceRecipient, Money, Order, OrderRequest, RequestedBy,
    SigningContacts, SigningDetails,
    money::Amount,
    record::hh_mm,
    request::{
        ContactRequest, ContactsRequest, DetailsRequest, InvoiceRecipientRequest, OrderMembers,
        RequestedByRequest,
    },
};
use crate::{
    appointment::AppointmentTime,
    request::{Object, Sent},
};

impl OrderRequest {
    /// Returns an order in the names of the request: trimmed, with its defaults, and with the
    /// instants of the service's own conversion. The signing service is left out. Sent again with
    /// one, and with another file number, it creates an equal order.
    pub fn of(order: &Order) -> Self {
        let moments = order.appointment.time.moments();
        let [at, start, end] = moments.map(|moment| sent(moment.and_then(|it| instant(it.utc))));
        let members = OrderMembers {
            signingContactsFormData: object(contacts(&order.contacts)),
            signingDetailsFormData: object(details(order)),
            signingServiceId: Sent::Absent,
            utcTimeDate: at,
            utcStartTimeDate: start,
            utcEndTimeDate: end,
            requestedBy: object(requested_by(&order.requested_by)),
        };
        members.into()
    }
}

/// Returns an instant as a request may have it: not before the year 1.
fn instant(at: OffsetDateTime) -> Option<String> {
    (at.year() >= 1).then(|| at.format(&Rfc3339).ok())?
}

fn object<T>(members: T) -> Sent<Object<T>> {
    Sent::Value(members.into())
}

fn sent<T: From<String>>(text: Option<String>) -> Sent<T> {
    text.map(T::from).into()
}

fn email<T: From<String>>(address: Option<&EmailAddress>) -> Sent<T> {
    sent(address.map(|address| address.as_str().to_owned()))
}

fn amount(money: Option<Money>) -> Sent<Amount> {
    money.map(|money| Amount(Ok(money))).into()
}

fn contacts(contacts: &SigningContacts) -> ContactsRequest {
    ContactsRequest {
        orderContactEmail: email(Some(&contacts.order_contact_email)),
        clientCompanyId: contacts.client_company_id.into(),
        observer: email(contacts.observer.as_ref()),
        inHouseContact: contacts.in_house_contact.as_ref().map(contact).into(),
        inHouseContact2: contacts.in_house_contact2.as_ref().map(contact).into(),
    }
}

fn requested_by(user: &RequestedBy) -> RequestedByRequest {
    RequestedByRequest {
        userId: Sent::Value(user.user_id),
        userRole: sent(user.user_role.clone()),
        signingServiceId: user.signing_service_id.map(|id| id.0).into(),
    }
}

fn contact(contact: &Contact) -> Object<ContactRequest> {
    let members = ContactRequest {
        contact_name: sent(contact.name.clone()),
        contact_phone: sent(contact.phone.clone()),
        contact_email: email(contact.email.as_ref()),
    };
    members.into()
}

fn recipient(recipient: &InvoiceRecipient) -> Object<InvoiceRecipientRequest> {
    let members = InvoiceRecipientRequest {
        company_name: sent(recipient.company_name.clone()),
        invoice_address: sent(recipient.address.clone()),
        city: sent(recipient.city.clone()),
        state: sent(recipient.state.clone()),
        zipcode: sent(recipient.zipcode.clone()),
    };
    members.into()
}

fn details(order: &Order) -> DetailsRequest {
    let Order { file_number, appointment, signing, .. } = order;
    let SigningDetails { property, signer, co_signer, invoice, .. } = signing.clone();
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
    let [at, start, end] = moments.map(|moment| sent(moment.map(|moment| hh_mm(moment.local))));
    DetailsRequest {
        fileNumber: sent(Some(file_number.as_str().to_owned())),
        signingDate: sent(Some(appointment.date.to_string())),
        signingTimeType: sent(Some(kind.to_owned())),
        specificTime: at,
        startTime: start,
        endTime: end,
        timeZoneId: sent(Some(appointment.zone.id().to_owned())),
        propertyAddress: sent(Some(property.address)),
        signingType: sent(Some(signing.signing_type.clone())),
        signerName: sent(Some(signer.name)),
        signerPhone: sent(Some(signer.phone)),
        signerEmail: email(Some(&signer.email)),
        city: sent(Some(property.city)),
        state: sent(Some(property.state)),
        zipcode: sent(Some(property.zipcode)),
        language: sent(Some(signing.language.clone())),
        spouseName: sent(signer.spouse_name),
        coSignerName: sent(co_signer.name),
        coSignerSpouseName: sent(co_signer.spouse_name),
        coSignerPhone: sent(co_signer.phone),
        coSignerEmail: email(co_signer.email.as_ref()),
        signingAddress: sent(Some(location.address)),
        signingCity: sent(location.city),
        signingState: sent(location.state),
        signingZipcode: sent(location.zipcode),
        isPropertyAddressSame: Sent::Value(signing.is_property_address_same),
        esigningPlatform: sent(signing.esigning_platform.clone()),
        scanbacksRequired: Sent::Value(signing.scanbacks_required),
        ronSigning: Sent::Value(signing.ron_signing),
        documentDelivery: sent(signing.document_delivery.clone()),
        lender: sent(signing.lender.clone()),
        specialInstructions: sent(signing.special_instructions.clone()),
        loanOfficer: signing.loan_officer.as_ref().map(contact).into(),
        invoiceOrderTo: invoice.recipient.as_ref().map(recipient).into(),
        invoiceName: sent(invoice.name),
        invoicePhone: sent(invoice.phone),
        invoiceEmail: email(invoice.email.as_ref()),
        invoiceFee: amount(invoice.fee),
        notaryPay: amount(invoice.notary_pay),
    }
}

#[cfg(test)]
#[path = "read_back_tests.rs"]
mod tests;
