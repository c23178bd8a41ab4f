//! Parses a request into a valid order, or into all of its violations.

use time::{OffsetDateTime, Time};

use super::{
    Address, CoSigner, Field, FileNumber, Invoice, InvoiceRecipient, Order, RequestedBy, Signer,
    SigningContacts, SigningDetails, SigningLocation, SigningServiceId, Violation, ViolationCode,
    check::{Check, Section},
    default_language, default_same,
    request::{
        InvoiceRecipientRequest, OrderRequest, RequestedByRequest, SigningContactsRequest,
        SigningDetailsRequest,
    },
};
use crate::appointment::{self, Appointment, AppointmentTime, ConversionError, Moment, Zone};

const CONTACTS: Section<'_> =
    Section { path: "/signingContactsFormData", schema: "SigningContactsRequest" };
const DETAILS: Section<'_> =
    Section { path: "/signingDetailsFormData", schema: "SigningDetailsRequest" };
const REQUESTED_BY: Section<'_> = Section { path: "/requestedBy", schema: "RequestedByRequest" };
const INVOICE_RECIPIENT: Section<'_> =
    Section { path: "/signingDetailsFormData/invoiceOrderTo", schema: "InvoiceRecipientRequest" };

/// A valid order, and notes for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedOrder {
    /// The order.
    pub order: Order,
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
        let mut check = Check::default();
        let contacts = self.signing_contacts_form_data;
        let contacts = check
            .required(Section::ROOT, "signingContactsFormData", contacts)
            .and_then(|contacts| check.contacts(contacts));
        let utc = SuppliedUtc {
            at: check.utc("utcTimeDate", self.utc_time_date),
            start: check.utc("utcStartTimeDate", self.utc_start_time_date),
            end: check.utc("utcEndTimeDate", self.utc_end_time_date),
        };
        let details = check
            .required(Section::ROOT, "signingDetailsFormData", self.signing_details_form_data)
            .and_then(|details| check.details(details, &utc));
        let service = check.required_id(Section::ROOT, "signingServiceId", self.signing_service_id);
        let requested_by = check
            .required(Section::ROOT, "requestedBy", self.requested_by)
            .and_then(|by| check.requested_by(by));

        match (contacts, details, service, requested_by) {
            (Some(contacts), Some(details), Some(service), Some(requested_by))
                if check.violations.is_empty() =>
            {
                let (file_number, appointment, signing) = details;
                let order = Order {
                    signing_service_id: SigningServiceId(service),
                    file_number,
                    appointment,
                    contacts,
                    signing,
                    requested_by,
                };
                Ok(ParsedOrder { order, utc_disagreements: check.utc_disagreements })
            }
            _ => Err(check.violations),
        }
    }
}

#[derive(Default)]
struct SuppliedUtc {
    at: Option<OffsetDateTime>,
    start: Option<OffsetDateTime>,
    end: Option<OffsetDateTime>,
}

impl Check {
    fn contacts(&mut self, request: SigningContactsRequest) -> Option<SigningContacts> {
        let order_contact_email =
            self.required_email(CONTACTS, "orderContactEmail", request.order_contact_email);
        let client_company_id =
            self.optional_id(CONTACTS, "clientCompanyId", request.client_company_id);
        let observer = self.optional_email(CONTACTS, "observer", request.observer);
        let in_house_contact = self.contact(CONTACTS, "inHouseContact", request.in_house_contact);
        let in_house_contact2 =
            self.contact(CONTACTS, "inHouseContact2", request.in_house_contact2);
        Some(SigningContacts {
            order_contact_email: order_contact_email?,
            client_company_id,
            observer,
            in_house_contact,
            in_house_contact2,
        })
    }

    fn requested_by(&mut self, request: RequestedByRequest) -> Option<RequestedBy> {
        let user_id = self.required_id(REQUESTED_BY, "userId", request.user_id);
        let user_role = self.optional_text(REQUESTED_BY, "userRole", request.user_role);
        let signing_service_id = self
            .optional_id(REQUESTED_BY, "signingServiceId", request.signing_service_id)
            .map(SigningServiceId);
        Some(RequestedBy { user_id: user_id?, user_role, signing_service_id })
    }

    fn details(
        &mut self,
        mut request: SigningDetailsRequest,
        utc: &SuppliedUtc,
    ) -> Option<(FileNumber, Appointment, SigningDetails)> {
        let file_number =
            self.required_text(DETAILS, "fileNumber", std::mem::take(&mut request.file_number));
        let file_number = file_number.and_then(|text| FileNumber::try_from(text).ok());
        let appointment = self.appointment(&mut request, utc);
        let property = self.property(&mut request);
        let signing_type = self.required_text(DETAILS, "signingType", request.signing_type);
        let signer_name = self.required_text(DETAILS, "signerName", request.signer_name);
        let signer_phone = self.required_text(DETAILS, "signerPhone", request.signer_phone);
        let signer_email = self.required_email(DETAILS, "signerEmail", request.signer_email);
        let language = self.optional_text(DETAILS, "language", request.language);
        let spouse_name = self.optional_text(DETAILS, "spouseName", request.spouse_name);
        let co_signer = CoSigner {
            name: self.optional_text(DETAILS, "coSignerName", request.co_signer_name),
            spouse_name: self.optional_text(
                DETAILS,
                "coSignerSpouseName",
                request.co_signer_spouse_name,
            ),
            phone: self.optional_text(DETAILS, "coSignerPhone", request.co_signer_phone),
            email: self.optional_email(DETAILS, "coSignerEmail", request.co_signer_email),
        };
        let location_address =
            self.optional_text(DETAILS, "signingAddress", request.signing_address);
        let location_city = self.optional_text(DETAILS, "signingCity", request.signing_city);
        let location_state = self.optional_text(DETAILS, "signingState", request.signing_state);
        let location_zipcode =
            self.optional_text(DETAILS, "signingZipcode", request.signing_zipcode);
        let is_property_address_same = self
            .optional(DETAILS, "isPropertyAddressSame", request.is_property_address_same)
            .unwrap_or_else(default_same);
        let location =
            location_address.filter(|_| !is_property_address_same).map(|address| SigningLocation {
                address,
                city: location_city,
                state: location_state.map(|state| state.to_ascii_uppercase()),
                zipcode: location_zipcode,
            });
        let esigning_platform =
            self.optional_text(DETAILS, "esigningPlatform", request.esigning_platform);
        let scanbacks_required = self
            .optional(DETAILS, "scanbacksRequired", request.scanbacks_required)
            .unwrap_or(false);
        let ron_signing =
            self.optional(DETAILS, "ronSigning", request.ron_signing).unwrap_or(false);
        let document_delivery =
            self.optional_text(DETAILS, "documentDelivery", request.document_delivery);
        let lender = self.optional_text(DETAILS, "lender", request.lender);
        let special_instructions =
            self.optional_text(DETAILS, "specialInstructions", request.special_instructions);
        let loan_officer = self.contact(DETAILS, "loanOfficer", request.loan_officer);
        let invoice = Invoice {
            recipient: self.invoice_recipient(request.invoice_order_to),
            name: self.optional_text(DETAILS, "invoiceName", request.invoice_name),
            phone: self.optional_text(DETAILS, "invoicePhone", request.invoice_phone),
            email: self.optional_email(DETAILS, "invoiceEmail", request.invoice_email),
            fee: self.money(DETAILS, "invoiceFee", request.invoice_fee),
            notary_pay: self.money(DETAILS, "notaryPay", request.notary_pay),
        };
        let signing = SigningDetails {
            property: property?,
            is_property_address_same,
            location,
            signing_type: signing_type?,
            signer: Signer {
                name: signer_name?,
                phone: signer_phone?,
                email: signer_email?,
                spouse_name,
            },
            co_signer,
            language: language.unwrap_or_else(default_language),
            esigning_platform,
            scanbacks_required,
            ron_signing,
            document_delivery,
            lender,
            special_instructions,
            loan_officer,
            invoice,
        };
        Some((file_number?, appointment?, signing))
    }

    fn property(&mut self, request: &mut SigningDetailsRequest) -> Option<Address> {
        let address = self.required_text(
            DETAILS,
            "propertyAddress",
            std::mem::take(&mut request.property_address),
        );
        let city = self.required_text(DETAILS, "city", std::mem::take(&mut request.city));
        let state = self.required_text(DETAILS, "state", std::mem::take(&mut request.state));
        let zipcode = self.required_text(DETAILS, "zipcode", std::mem::take(&mut request.zipcode));
        Some(Address {
            address: address?,
            city: city?,
            state: state?.to_ascii_uppercase(),
            zipcode: zipcode?,
        })
    }

    fn invoice_recipient(
        &mut self,
        field: Field<InvoiceRecipientRequest>,
    ) -> Option<InvoiceRecipient> {
        let request = self.optional(DETAILS, "invoiceOrderTo", field)?;
        let recipient = InvoiceRecipient {
            company_name: self.optional_text(
                INVOICE_RECIPIENT,
                "company_name",
                request.company_name,
            ),
            address: self.optional_text(
                INVOICE_RECIPIENT,
                "invoice_address",
                request.invoice_address,
            ),
            city: self.optional_text(INVOICE_RECIPIENT, "city", request.city),
            state: self.optional_text(INVOICE_RECIPIENT, "state", request.state),
            zipcode: self.optional_text(INVOICE_RECIPIENT, "zipcode", request.zipcode),
        };
        let InvoiceRecipient { company_name, address, city, state, zipcode } = &recipient;
        let named = [company_name, address, city, state, zipcode].into_iter().any(Option::is_some);
        named.then_some(recipient)
    }

    fn appointment(
        &mut self,
        request: &mut SigningDetailsRequest,
        utc: &SuppliedUtc,
    ) -> Option<Appointment> {
        let date =
            self.required_text(DETAILS, "signingDate", std::mem::take(&mut request.signing_date));
        let date = date.and_then(|text| {
            self.read(
                DETAILS,
                "signingDate",
                appointment::parse_date(&text),
                "must be a date of the form YYYY-MM-DD",
            )
        });
        let kind = self.required_text(
            DETAILS,
            "signingTimeType",
            std::mem::take(&mut request.signing_time_type),
        );
        let zone =
            self.required_text(DETAILS, "timeZoneId", std::mem::take(&mut request.time_zone_id));
        let zone = zone.and_then(|id| {
            let zone = Zone::named(&id);
            if zone.is_none() {
                self.report(
                    DETAILS,
                    "timeZoneId",
                    ViolationCode::UnknownTimeZone,
                    "must be an IANA time zone identifier, such as America/Chicago",
                );
            }
            zone
        });
        let day = date.zip(zone);
        let time = match kind.as_deref() {
            Some("at") => {
                let time =
                    self.clock_time("specificTime", std::mem::take(&mut request.specific_time));
                self.moment("specificTime", time, day, ("utcTimeDate", utc.at))
                    .map(AppointmentTime::At)
            }
            Some("between") => self.range(request, day, utc),
            Some("anytime") => Some(AppointmentTime::Anytime),
            Some(_) => {
                self.report(
                    DETAILS,
                    "signingTimeType",
                    ViolationCode::NotAllowed,
                    "must be one of at, between, anytime",
                );
                None
            }
            None => None,
        };
        let (date, zone) = day?;
        Some(Appointment { date, zone, time: time? })
    }

    fn range(
        &mut self,
        request: &mut SigningDetailsRequest,
        day: Option<(time::Date, Zone)>,
        utc: &SuppliedUtc,
    ) -> Option<AppointmentTime> {
        let start = self.clock_time("startTime", std::mem::take(&mut request.start_time));
        let end = self.clock_time("endTime", std::mem::take(&mut request.end_time));
        let after = start.zip(end).is_none_or(|(start, end)| start < end);
        if !after {
            self.report(
                DETAILS,
                "endTime",
                ViolationCode::EndNotAfterStart,
                "must be after startTime",
            );
        }
        let start = self.moment("startTime", start, day, ("utcStartTimeDate", utc.start));
        let end = self.moment("endTime", end, day, ("utcEndTimeDate", utc.end));
        let (start, end) = start.zip(end)?;
        if after && end.utc <= start.utc {
            self.report(
                DETAILS,
                "endTime",
                ViolationCode::EndNotAfterStart,
                "occurs twice on this date: name the later by utcEndTimeDate to be after startTime",
            );
            return None;
        }
        Some(AppointmentTime::Between { start, end })
    }

    fn clock_time(&mut self, name: &'static str, field: Field<String>) -> Option<Time> {
        let text = self.required_text(DETAILS, name, field)?;
        self.read(
            DETAILS,
            name,
            appointment::parse_time(&text),
            "must be a time of the form HH:MM, from 00:00 to 23:59",
        )
    }

    fn moment(
        &mut self,
        name: &'static str,
        local: Option<Time>,
        day: Option<(time::Date, Zone)>,
        supplied: (&'static str, Option<OffsetDateTime>),
    ) -> Option<Moment> {
        let (local, (date, zone)) = local.zip(day)?;
        match zone.to_utc(date, local, supplied.1) {
            Ok(utc) => {
                if supplied.1.is_some_and(|supplied| !appointment::agrees(supplied, utc)) {
                    self.utc_disagreements.push(supplied.0);
                }
                Some(Moment { local, utc })
            }
            Err(error) => {
                let code = match error {
                    ConversionError::Skipped => ViolationCode::NonexistentLocalTime,
                    ConversionError::OutOfRange => ViolationCode::OutOfRange,
                };
                self.report(DETAILS, name, code, error.to_string());
                None
            }
        }
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
