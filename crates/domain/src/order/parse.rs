//! Parses a request into a valid order, or into all of its violations.

use serde_json::{Value, json};
use time::{Date, OffsetDateTime, Time};

use super::{
    Address, CoSigner, Contact, FileNumber, Invoice, InvoiceRecipient, Order, OrderRequest,
    RequestedBy, Signer, SigningContacts, SigningDetails, SigningLocation, SigningServiceId,
    Violation, ViolationCode,
    check::{Object, Read},
    default_language, default_same,
    json::Json,
    read_back::object,
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
        let mut root = Object::root(self.0, &mut violations);
        let contacts = root.required("signingContactsFormData");
        let details_json: Option<Json> = root.required("signingDetailsFormData");
        let time_type = details_json.as_ref().and_then(|json| json.text("signingTimeType"));
        let names = ["utcTimeDate", "utcStartTimeDate", "utcEndTimeDate"];
        // Fields that do not count are not checked.
        let mut read = |field: usize, counts_for| {
            if time_type == Some(counts_for) { root.optional(names[field]) } else { None }
        };
        let utc = [read(0, "at"), read(1, "between"), read(2, "between")];
        let details = details_json
            .and_then(|json| details(root.member("signingDetailsFormData", json)?, utc));
        let service = root.required("signingServiceId").map(SigningServiceId);
        let requested_by = root.required("requestedBy");

        match (contacts, details, service, requested_by) {
            (Some(contacts), Some(details), Some(signing_service_id), Some(requested_by))
                if violations.is_empty() =>
            {
                let (file_number, appointment, signing) = details;
                let moments = appointment.time.moments();
                let disagrees = |field: &usize| {
                    let both = utc[*field].zip(moments[*field]);
                    both.is_some_and(|(sent, moment)| !appointment::agrees(sent, moment.utc))
                };
                let utc_disagreements =
                    (0..names.len()).filter(disagrees).map(|field| names[field]).collect();
                let order = Box::new(Order {
                    signing_service_id,
                    file_number,
                    appointment,
                    contacts,
                    signing,
                    requested_by,
                    trace: None,
                });
                Ok(ParsedOrder { order, utc_disagreements })
            }
            _ => Err(violations),
        }
    }
}

impl Read for SigningContacts {
    fn read(json: Json, object: &mut Object<'_>, name: &str) -> Option<Self> {
        let mut object = object.member(name, json)?;
        let email = object.required("orderContactEmail");
        Some(Self {
            client_company_id: object.optional("clientCompanyId"),
            observer: object.optional("observer"),
            in_house_contact: object.optional("inHouseContact"),
            in_house_contact2: object.optional("inHouseContact2"),
            // After the other fields, so that they are read in any case.
            order_contact_email: email?,
        })
    }
}

impl Read for RequestedBy {
    fn read(json: Json, object: &mut Object<'_>, name: &str) -> Option<Self> {
        let mut object = object.member(name, json)?;
        let user_id = object.required("userId");
        Some(Self {
            user_role: object.optional("userRole"),
            signing_service_id: object.optional("signingServiceId").map(SigningServiceId),
            user_id: user_id?,
        })
    }
}

/// Objects whose fields are all optional, with the names of the fields in the API. An object without
/// any value counts as absent.
macro_rules! optional_objects {
    ($($object:ident { $($field:ident: $name:literal),+ $(,)? })+) => {$(
        impl Read for $object {
            fn read(json: Json, object: &mut Object<'_>, name: &str) -> Option<Self> {
                let mut object = object.member(name, json)?;
                let read = Self { $($field: object.optional($name)),+ };
                (read != Self::default()).then_some(read)
            }
        }

        impl $object {
            /// Returns the fields that the object has.
            pub(super) fn to_request(&self) -> Value {
                object([$(($name, json!(self.$field))),+])
            }
        }
    )+};
}

optional_objects! {
    InvoiceRecipient {
        company_name: "company_name",
        address: "invoice_address",
        city: "city",
        state: "state",
        zipcode: "zipcode",
    }
    Contact { name: "contact_name", phone: "contact_phone", email: "contact_email" }
}

fn details(
    mut details: Object<'_>,
    utc: [Option<OffsetDateTime>; 3],
) -> Option<(FileNumber, Appointment, SigningDetails)> {
    let file_number = details.required("fileNumber").and_then(FileNumber::new);
    let appointment = appointment(&mut details, utc);
    let property_address = details.required("propertyAddress");
    let city = details.required("city");
    let state: Option<String> = details.required("state");
    let zipcode = details.required("zipcode");
    let signing_type = details.required("signingType");
    let signer_name = details.required("signerName");
    let signer_phone = details.required("signerPhone");
    let signer_email = details.required("signerEmail");
    let language = details.optional("language");
    let spouse_name = details.optional("spouseName");
    let co_signer = CoSigner {
        name: details.optional("coSignerName"),
        spouse_name: details.optional("coSignerSpouseName"),
        phone: details.optional("coSignerPhone"),
        email: details.optional("coSignerEmail"),
    };
    let is_property_address_same =
        details.optional("isPropertyAddressSame").unwrap_or_else(default_same);
    // Fields that do not count are not checked.
    let location = if is_property_address_same {
        None
    } else {
        location(&mut details, property_address.as_ref())
    };
    let signing = SigningDetails {
        is_property_address_same,
        location,
        co_signer,
        language: language.unwrap_or_else(default_language),
        esigning_platform: details.optional("esigningPlatform"),
        scanbacks_required: details.optional("scanbacksRequired").unwrap_or_default(),
        ron_signing: details.optional("ronSigning").unwrap_or_default(),
        document_delivery: details.optional("documentDelivery"),
        lender: details.optional("lender"),
        special_instructions: details.optional("specialInstructions"),
        loan_officer: details.optional("loanOfficer"),
        invoice: Invoice {
            recipient: details.optional("invoiceOrderTo"),
            name: details.optional("invoiceName"),
            phone: details.optional("invoicePhone"),
            email: details.optional("invoiceEmail"),
            fee: details.optional("invoiceFee"),
            notary_pay: details.optional("notaryPay"),
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

/// Returns another signing location than the property. Its address defaults to that of the property;
/// what else was sent is kept.
fn location(details: &mut Object<'_>, property: Option<&String>) -> Option<SigningLocation> {
    let address: Option<String> = details.optional("signingAddress");
    let city: Option<String> = details.optional("signingCity");
    let state: Option<String> = details.optional("signingState");
    let zipcode: Option<String> = details.optional("signingZipcode");
    let is_property = [&city, &state, &zipcode].iter().all(|part| part.is_none())
        && address.as_ref().is_none_or(|address| Some(address) == property);
    if is_property {
        return None;
    }
    let code = |state: String| {
        if state.len() == 2 { state.to_ascii_uppercase() } else { state }
    };
    Some(SigningLocation {
        address: address.or_else(|| property.cloned())?,
        city,
        state: state.map(code),
        zipcode,
    })
}

fn appointment(
    details: &mut Object<'_>,
    [at, start, end]: [Option<OffsetDateTime>; 3],
) -> Option<Appointment> {
    let date = details.required("signingDate");
    let kind: Option<String> = details.required("signingTimeType");
    let zone = details.required("timeZoneId");
    let day = date.zip(zone);
    let time = match kind?.as_str() {
        "at" => {
            let time = details.required("specificTime");
            moment(details, "specificTime", time, day, at).map(AppointmentTime::At)
        }
        "between" => {
            let from = details.required("startTime");
            let to = details.required("endTime");
            let is_after = from.zip(to).is_none_or(|(from, to)| from < to);
            if !is_after {
                details.report(
                    "endTime",
                    ViolationCode::EndNotAfterStart,
                    "must be after startTime",
                );
            }
            let start = moment(details, "startTime", from, day, start);
            let end = moment(details, "endTime", to, day, end);
            let (start, end) = start.zip(end)?;
            if is_after && end.utc <= start.utc {
                let detail = "occurs twice on this date: name the later by utcEndTimeDate to be \
                              after startTime";
                details.report("endTime", ViolationCode::EndNotAfterStart, detail);
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

/// Converts a local time. The client's UTC value decides which, if it occurs twice.
fn moment(
    details: &mut Object<'_>,
    name: &str,
    local: Option<Time>,
    day: Option<(Date, Zone)>,
    sent: Option<OffsetDateTime>,
) -> Option<Moment> {
    let (local, (date, zone)) = local.zip(day)?;
    let converted = zone.to_utc(date, local, sent).map_err(|error| {
        let code = match error {
            ConversionError::Skipped => ViolationCode::NonexistentLocalTime,
            ConversionError::OutOfRange => ViolationCode::OutOfRange,
        };
        (code, error.to_string())
    });
    Some(Moment { local, utc: details.check(name, converted)? })
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
