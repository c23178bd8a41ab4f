//! The request that creates an equal order.

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
    Contact, Field, InvoiceRecipient, Order, RequestedBy, SigningContacts, SigningDetails,
    record::hh_mm,
    request::{
        ContactRequest, InvoiceRecipientRequest, OrderRequest, RequestedByRequest,
        SigningContactsRequest, SigningDetailsRequest,
    },
};
use crate::appointment::{Appointment, AppointmentTime};

impl OrderRequest {
    /// Returns an order in the names of the request: trimmed, with its defaults, and with the
    /// instants of the service's own conversion. The signing service is left out. Sent again with
    /// one, and with another file number, it creates an equal order.
    pub fn of(order: &Order) -> Self {
        let [utc_time_date, utc_start_time_date, utc_end_time_date] =
            match order.appointment.time {
                AppointmentTime::At(at) => [Some(at.utc), None, None],
                AppointmentTime::Between { start, end } => [None, Some(start.utc), Some(end.utc)],
                AppointmentTime::Anytime => [None; 3],
            }
            .map(instant);
        let mut details = SigningDetailsRequest::of(&order.signing);
        details.file_number = text(order.file_number.as_str());
        details.set_appointment(&order.appointment);
        Self {
            signing_contacts_form_data: Field::Value(SigningContactsRequest::of(&order.contacts)),
            signing_details_form_data: Field::Value(details),
            signing_service_id: Field::Absent,
            utc_time_date,
            utc_start_time_date,
            utc_end_time_date,
            requested_by: Field::Value(RequestedByRequest::of(&order.requested_by)),
        }
    }
}

fn text(text: &str) -> Field<String> {
    Field::Value(text.to_owned())
}

fn optional<T: ?Sized, R>(value: Option<&T>, read: impl FnOnce(&T) -> R) -> Field<R> {
    value.map_or(Field::Absent, |value| Field::Value(read(value)))
}

fn optional_text(value: Option<&String>) -> Field<String> {
    optional(value, Clone::clone)
}

/// Returns an instant as a request may have it: not before the year 1.
fn instant(at: Option<OffsetDateTime>) -> Field<String> {
    let at = at.filter(|at| at.year() >= 1).and_then(|at| at.format(&Rfc3339).ok());
    at.map_or(Field::Absent, Field::Value)
}

impl SigningContactsRequest {
    fn of(contacts: &SigningContacts) -> Self {
        Self {
            order_contact_email: text(contacts.order_contact_email.as_str()),
            client_company_id: optional(contacts.client_company_id.as_ref(), |id| *id),
            observer: optional(contacts.observer.as_ref(), |email| email.as_str().to_owned()),
            in_house_contact: optional(contacts.in_house_contact.as_ref(), ContactRequest::of),
            in_house_contact2: optional(contacts.in_house_contact2.as_ref(), ContactRequest::of),
        }
    }
}

impl ContactRequest {
    fn of(contact: &Contact) -> Self {
        Self {
            contact_name: optional_text(contact.name.as_ref()),
            contact_phone: optional_text(contact.phone.as_ref()),
            contact_email: optional(contact.email.as_ref(), |email| email.as_str().to_owned()),
        }
    }
}

impl SigningDetailsRequest {
    /// Returns all but the file number and the appointment.
    fn of(signing: &SigningDetails) -> Self {
        let (property, signer, co_signer) =
            (&signing.property, &signing.signer, &signing.co_signer);
        let (location, invoice) = (signing.location.as_ref(), &signing.invoice);
        Self {
            property_address: text(&property.address),
            city: text(&property.city),
            state: text(&property.state),
            zipcode: text(&property.zipcode),
            is_property_address_same: Field::Value(signing.is_property_address_same),
            signing_address: optional(location, |location| location.address.clone()),
            signing_city: optional_text(location.and_then(|location| location.city.as_ref())),
            signing_state: optional_text(location.and_then(|location| location.state.as_ref())),
            signing_zipcode: optional_text(location.and_then(|location| location.zipcode.as_ref())),
            signing_type: text(&signing.signing_type),
            signer_name: text(&signer.name),
            signer_phone: text(&signer.phone),
            signer_email: text(signer.email.as_str()),
            spouse_name: optional_text(signer.spouse_name.as_ref()),
            co_signer_name: optional_text(co_signer.name.as_ref()),
            co_signer_spouse_name: optional_text(co_signer.spouse_name.as_ref()),
            co_signer_phone: optional_text(co_signer.phone.as_ref()),
            co_signer_email: optional(co_signer.email.as_ref(), |email| email.as_str().to_owned()),
            language: text(&signing.language),
            esigning_platform: optional_text(signing.esigning_platform.as_ref()),
            scanbacks_required: Field::Value(signing.scanbacks_required),
            ron_signing: Field::Value(signing.ron_signing),
            document_delivery: optional_text(signing.document_delivery.as_ref()),
            lender: optional_text(signing.lender.as_ref()),
            special_instructions: optional_text(signing.special_instructions.as_ref()),
            loan_officer: optional(signing.loan_officer.as_ref(), ContactRequest::of),
            invoice_order_to: optional(invoice.recipient.as_ref(), InvoiceRecipientRequest::of),
            invoice_name: optional_text(invoice.name.as_ref()),
            invoice_phone: optional_text(invoice.phone.as_ref()),
            invoice_email: optional(invoice.email.as_ref(), |email| email.as_str().to_owned()),
            invoice_fee: optional(invoice.fee.as_ref(), |fee| (*fee).into()),
            notary_pay: optional(invoice.notary_pay.as_ref(), |pay| (*pay).into()),
            ..Self::default()
        }
    }

    fn set_appointment(&mut self, appointment: &Appointment) {
        self.signing_date = Field::Value(appointment.date.to_string());
        self.time_zone_id = text(appointment.zone.id());
        self.signing_time_type = text(match appointment.time {
            AppointmentTime::At(at) => {
                self.specific_time = Field::Value(hh_mm(at.local));
                "at"
            }
            AppointmentTime::Between { start, end } => {
                self.start_time = Field::Value(hh_mm(start.local));
                self.end_time = Field::Value(hh_mm(end.local));
                "between"
            }
            AppointmentTime::Anytime => "anytime",
        });
    }
}

impl InvoiceRecipientRequest {
    fn of(recipient: &InvoiceRecipient) -> Self {
        Self {
            company_name: optional_text(recipient.company_name.as_ref()),
            invoice_address: optional_text(recipient.address.as_ref()),
            city: optional_text(recipient.city.as_ref()),
            state: optional_text(recipient.state.as_ref()),
            zipcode: optional_text(recipient.zipcode.as_ref()),
        }
    }
}

impl RequestedByRequest {
    fn of(requested_by: &RequestedBy) -> Self {
        Self {
            user_id: Field::Value(requested_by.user_id),
            user_role: optional_text(requested_by.user_role.as_ref()),
            signing_service_id: optional(requested_by.signing_service_id.as_ref(), |id| id.0),
        }
    }
}

#[cfg(test)]
#[path = "read_back_tests.rs"]
mod tests;
