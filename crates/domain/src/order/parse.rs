//! Parses a request into a valid order, or into all of its violations.

use std::mem::take;

use time::{Date, OffsetDateTime, Time};

use super::{
    Address, CoSigner, FileNumber, Invoice, InvoiceRecipient, Order, RequestedBy, Signer,
    SigningContacts, SigningDetails, SigningLocation, Violation, ViolationCode,
    check::{Object, Read},
    default_language, default_same,
    request::{
        InvoiceRecipientRequest, OrderRequest, RequestedByRequest, SigningContactsRequest,
        SigningDetailsRequest,
    },
};
use crate::appointment::{self, Appointment, AppointmentTime, ConversionError, Moment, Zone};

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
    /// All violations of the request, in the order of its fields.
    pub fn parse(self) -> Result<ParsedOrder, Vec<Violation>> {
        let mut violations = Vec::new();
        let mut root = Object::root(&mut violations);
        let contacts = root.required("signingContactsFormData", self.signing_contacts_form_data);
        let mut utc = [
            ("utcTimeDate", self.utc_time_date),
            ("utcStartTimeDate", self.utc_start_time_date),
            ("utcEndTimeDate", self.utc_end_time_date),
        ]
        .map(|(name, field)| SuppliedUtc {
            name,
            instant: root.optional(name, field),
            disagrees: false,
        });
        let details = root
            .required("signingDetailsFormData", self.signing_details_form_data)
            .and_then(|request| details(&mut root, request, &mut utc));
        let service = root.required("signingServiceId", self.signing_service_id);
        let requested_by = root.required("requestedBy", self.requested_by);

        match (contacts, details, service, requested_by) {
            (Some(contacts), Some(details), Some(signing_service_id), Some(requested_by))
                if violations.is_empty() =>
            {
                let (file_number, appointment, signing) = details;
                let order = Box::new(Order {
                    signing_service_id,
                    file_number,
                    appointment,
                    contacts,
                    signing,
                    requested_by,
                    trace: None,
                });
                let disagrees = utc.iter().filter(|utc| utc.disagrees);
                let utc_disagreements = disagrees.map(|utc| utc.name).collect();
                Ok(ParsedOrder { order, utc_disagreements })
            }
            _ => Err(violations),
        }
    }
}

/// A UTC value of the request.
struct SuppliedUtc {
    name: &'static str,
    instant: Option<OffsetDateTime>,
    /// Whether the service's own conversion gives another instant.
    disagrees: bool,
}

impl Read for SigningContacts {
    type Json = SigningContactsRequest;
    fn read(json: SigningContactsRequest, object: &mut Object<'_>, name: &str) -> Option<Self> {
        let mut object = object.member(name, "SigningContactsRequest");
        let email = object.required("orderContactEmail", json.order_contact_email);
        Some(Self {
            client_company_id: object.optional("clientCompanyId", json.client_company_id),
            observer: object.optional("observer", json.observer),
            in_house_contact: object.optional("inHouseContact", json.in_house_contact),
            in_house_contact2: object.optional("inHouseContact2", json.in_house_contact2),
            // After the other fields, so that they are read in any case.
            order_contact_email: email?,
        })
    }
}

impl Read for RequestedBy {
    type Json = RequestedByRequest;
    fn read(json: RequestedByRequest, object: &mut Object<'_>, name: &str) -> Option<Self> {
        let mut object = object.member(name, "RequestedByRequest");
        let user_id = object.required("userId", json.user_id);
        Some(Self {
            user_role: object.optional("userRole", json.user_role),
            signing_service_id: object.optional("signingServiceId", json.signing_service_id),
            user_id: user_id?,
        })
    }
}

impl Read for InvoiceRecipient {
    type Json = InvoiceRecipientRequest;
    fn read(json: InvoiceRecipientRequest, object: &mut Object<'_>, name: &str) -> Option<Self> {
        let mut object = object.member(name, "InvoiceRecipientRequest");
        let recipient = Self {
            company_name: object.optional("company_name", json.company_name),
            address: object.optional("invoice_address", json.invoice_address),
            city: object.optional("city", json.city),
            state: object.optional("state", json.state),
            zipcode: object.optional("zipcode", json.zipcode),
        };
        (recipient != Self::default()).then_some(recipient)
    }
}

/// Its appointment needs the UTC values of the request.
impl Read for SigningDetailsRequest {
    type Json = Self;
    fn read(json: Self, _: &mut Object<'_>, _: &str) -> Option<Self> {
        Some(json)
    }
}

fn details(
    root: &mut Object<'_>,
    mut request: SigningDetailsRequest,
    utc: &mut [SuppliedUtc; 3],
) -> Option<(FileNumber, Appointment, SigningDetails)> {
    let mut details = root.member("signingDetailsFormData", "SigningDetailsRequest");
    let file_number = details.required("fileNumber", take(&mut request.file_number));
    let appointment = appointment(&mut details, &mut request, utc);
    let property_address = details.required("propertyAddress", request.property_address);
    let city = details.required("city", request.city);
    let state: Option<String> = details.required("state", request.state);
    let zipcode = details.required("zipcode", request.zipcode);
    let signing_type = details.required("signingType", request.signing_type);
    let signer_name = details.required("signerName", request.signer_name);
    let signer_phone = details.required("signerPhone", request.signer_phone);
    let signer_email = details.required("signerEmail", request.signer_email);
    let language = details.optional("language", request.language);
    let spouse_name = details.optional("spouseName", request.spouse_name);
    let co_signer = CoSigner {
        name: details.optional("coSignerName", request.co_signer_name),
        spouse_name: details.optional("coSignerSpouseName", request.co_signer_spouse_name),
        phone: details.optional("coSignerPhone", request.co_signer_phone),
        email: details.optional("coSignerEmail", request.co_signer_email),
    };
    let location_address = details.optional("signingAddress", request.signing_address);
    let location_city = details.optional("signingCity", request.signing_city);
    let location_state: Option<String> = details.optional("signingState", request.signing_state);
    let location_zipcode = details.optional("signingZipcode", request.signing_zipcode);
    let is_property_address_same = details
        .optional("isPropertyAddressSame", request.is_property_address_same)
        .unwrap_or_else(default_same);
    let location =
        location_address.filter(|_| !is_property_address_same).map(|address| SigningLocation {
            address,
            city: location_city,
            state: location_state.map(|state| state.to_ascii_uppercase()),
            zipcode: location_zipcode,
        });
    let signing = SigningDetails {
        is_property_address_same,
        location,
        co_signer,
        language: language.unwrap_or_else(default_language),
        esigning_platform: details.optional("esigningPlatform", request.esigning_platform),
        scanbacks_required: details
            .optional("scanbacksRequired", request.scanbacks_required)
            .unwrap_or_default(),
        ron_signing: details.optional("ronSigning", request.ron_signing).unwrap_or_default(),
        document_delivery: details.optional("documentDelivery", request.document_delivery),
        lender: details.optional("lender", request.lender),
        special_instructions: details.optional("specialInstructions", request.special_instructions),
        loan_officer: details.optional("loanOfficer", request.loan_officer),
        invoice: Invoice {
            recipient: details.optional("invoiceOrderTo", request.invoice_order_to),
            name: details.optional("invoiceName", request.invoice_name),
            phone: details.optional("invoicePhone", request.invoice_phone),
            email: details.optional("invoiceEmail", request.invoice_email),
            fee: details.optional("invoiceFee", request.invoice_fee),
            notary_pay: details.optional("notaryPay", request.notary_pay),
        },
        // After the other fields, so that they are read in any case.
        property: Address {
            address: property_address?,
            city: city?,
            state: state?.to_ascii_uppercase(),
            zipcode: zipcode?,
        },
        signing_type: signing_type?,
        signer: Signer {
            name: signer_name?,
            phone: signer_phone?,
            email: signer_email?,
            spouse_name,
        },
    };
    Some((file_number?, appointment?, signing))
}

fn appointment(
    details: &mut Object<'_>,
    request: &mut SigningDetailsRequest,
    [at, start, end]: &mut [SuppliedUtc; 3],
) -> Option<Appointment> {
    let date = details.required("signingDate", take(&mut request.signing_date));
    let kind: Option<String> =
        details.required("signingTimeType", take(&mut request.signing_time_type));
    let zone = details.required("timeZoneId", take(&mut request.time_zone_id));
    let day = date.zip(zone);
    let time = match kind?.as_str() {
        "at" => {
            let time = details.required("specificTime", take(&mut request.specific_time));
            moment(details, "specificTime", time, day, at).map(AppointmentTime::At)
        }
        "between" => {
            let from = details.required("startTime", take(&mut request.start_time));
            let to = details.required("endTime", take(&mut request.end_time));
            let after = from.zip(to).is_none_or(|(from, to)| from < to);
            let not_after = |details: &mut Object<'_>, detail: &'static str| {
                details.report("endTime", ViolationCode::EndNotAfterStart, detail);
            };
            if !after {
                not_after(details, "must be after startTime");
            }
            let start = moment(details, "startTime", from, day, start);
            let end = moment(details, "endTime", to, day, end);
            let (start, end) = start.zip(end)?;
            if after && end.utc <= start.utc {
                not_after(
                    details,
                    "occurs twice on this date: name the later by utcEndTimeDate to be after \
                     startTime",
                );
            }
            Some(AppointmentTime::Between { start, end })
        }
        "anytime" => Some(AppointmentTime::Anytime),
        _ => {
            let fault = (ViolationCode::NotAllowed, "must be one of at, between, anytime");
            details.check("signingTimeType", Err(fault))
        }
    };
    let (date, zone) = day?;
    Some(Appointment { date, zone, time: time? })
}

/// Converts a local time, and notes whether the client's UTC value disagrees.
fn moment(
    details: &mut Object<'_>,
    name: &str,
    local: Option<Time>,
    day: Option<(Date, Zone)>,
    supplied: &mut SuppliedUtc,
) -> Option<Moment> {
    let (local, (date, zone)) = local.zip(day)?;
    let converted = zone.to_utc(date, local, supplied.instant).map_err(|error| {
        let code = match error {
            ConversionError::Skipped => ViolationCode::NonexistentLocalTime,
            ConversionError::OutOfRange => ViolationCode::OutOfRange,
        };
        (code, error.to_string())
    });
    let utc = details.check(name, converted)?;
    supplied.disagrees = supplied.instant.is_some_and(|instant| !appointment::agrees(instant, utc));
    Some(Moment { local, utc })
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
