//! The request that creates an order: its objects, with the rule of each field (spec section 2).
//!
//! Fields have the names of the API, which errors point to.
#![expect(non_snake_case, clippy::struct_field_names, reason = "the names of the API")]

use garde::Validate;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{money::Amount, text::MAX_FILE_NUMBER};
use crate::request::{
    Code, Line, Lines, Member as _, Object, Sent, Text as _, Unknown, ViolationCode,
    rules::{
        Checked, any, email, fault, instant, one_of, optional, phone, positive, required,
        signing_date, state_code, text, time, time_zone, zip_code,
    },
    whole_characters,
};

/// A request to create a notarial signing order.
pub type OrderRequest = Object<OrderMembers>;

#[serde_with::apply(Sent => #[serde(skip_serializing_if = "Sent::is_unset")])]
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Validate)]
#[serde(default)]
pub struct OrderMembers {
    #[garde(dive, custom(required(any)))]
    pub(super) signingContactsFormData: Sent<Object<ContactsRequest>>,
    #[garde(dive, custom(required(any)))]
    pub(super) signingDetailsFormData: Sent<Object<DetailsRequest>>,
    #[garde(custom(required(positive)))]
    pub(super) signingServiceId: Sent<i64>,
    #[garde(if(cond = self.counts("utcTimeDate"), custom(optional(instant))))]
    pub(super) utcTimeDate: Sent<Code>,
    #[garde(if(cond = self.counts("utcStartTimeDate"), custom(optional(instant))))]
    pub(super) utcStartTimeDate: Sent<Code>,
    #[garde(if(cond = self.counts("utcEndTimeDate"), custom(optional(instant))))]
    pub(super) utcEndTimeDate: Sent<Code>,
    #[garde(dive, custom(required(any)))]
    pub(super) requestedBy: Sent<Object<RequestedByRequest>>,
}

#[serde_with::apply(Sent => #[serde(skip_serializing_if = "Sent::is_unset")])]
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Validate)]
#[serde(default)]
pub struct ContactsRequest {
    #[garde(custom(required(email)))]
    pub(super) orderContactEmail: Sent<Code>,
    #[garde(custom(optional(positive)))]
    pub(super) clientCompanyId: Sent<i64>,
    #[garde(custom(optional(email)))]
    pub(super) observer: Sent<Code>,
    #[garde(dive, custom(optional(any)))]
    pub(super) inHouseContact: Sent<Object<ContactRequest>>,
    #[garde(dive, custom(optional(any)))]
    pub(super) inHouseContact2: Sent<Object<ContactRequest>>,
}

#[serde_with::apply(Sent => #[serde(skip_serializing_if = "Sent::is_unset")])]
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Validate)]
#[serde(default)]
pub struct ContactRequest {
    #[garde(custom(optional(text(200))))]
    pub(super) contact_name: Sent<Line>,
    #[garde(custom(optional(phone)))]
    pub(super) contact_phone: Sent<Code>,
    #[garde(custom(optional(email)))]
    pub(super) contact_email: Sent<Code>,
}

/// The signing details. Fields that do not count for the order are not checked.
#[serde_with::apply(Sent => #[serde(skip_serializing_if = "Sent::is_unset")])]
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Validate)]
#[serde(default)]
pub struct DetailsRequest {
    #[garde(custom(required(text(MAX_FILE_NUMBER))))]
    pub(super) fileNumber: Sent<Line>,
    #[garde(custom(required(signing_date)))]
    pub(super) signingDate: Sent<Code>,
    #[garde(custom(required(one_of(&["at", "between", "anytime"]))))]
    pub(super) signingTimeType: Sent<Code>,
    #[garde(if(cond = self.counts("specificTime"), custom(required(time))))]
    pub(super) specificTime: Sent<Code>,
    #[garde(if(cond = self.counts("startTime"), custom(required(time))))]
    pub(super) startTime: Sent<Code>,
    #[garde(if(cond = self.counts("endTime"), custom(required(time))))]
    pub(super) endTime: Sent<Code>,
    #[garde(custom(required(time_zone)))]
    pub(super) timeZoneId: Sent<Code>,
    #[garde(custom(required(text(500))))]
    pub(super) propertyAddress: Sent<Line>,
    #[garde(custom(required(text(100))))]
    pub(super) signingType: Sent<Line>,
    #[garde(custom(required(text(200))))]
    pub(super) signerName: Sent<Line>,
    #[garde(custom(required(phone)))]
    pub(super) signerPhone: Sent<Code>,
    #[garde(custom(required(email)))]
    pub(super) signerEmail: Sent<Code>,
    #[garde(custom(required(text(100))))]
    pub(super) city: Sent<Line>,
    #[garde(custom(required(state_code)))]
    pub(super) state: Sent<Code>,
    #[garde(custom(required(zip_code)))]
    pub(super) zipcode: Sent<Code>,
    #[garde(custom(optional(text(100))))]
    pub(super) language: Sent<Line>,
    #[garde(custom(optional(text(200))))]
    pub(super) spouseName: Sent<Line>,
    #[garde(custom(optional(text(200))))]
    pub(super) coSignerName: Sent<Line>,
    #[garde(custom(optional(text(200))))]
    pub(super) coSignerSpouseName: Sent<Line>,
    #[garde(custom(optional(phone)))]
    pub(super) coSignerPhone: Sent<Code>,
    #[garde(custom(optional(email)))]
    pub(super) coSignerEmail: Sent<Code>,
    // The spec limits the state and the ZIP code of the property only.
    #[garde(if(cond = self.counts("signingAddress"), custom(optional(text(500)))))]
    pub(super) signingAddress: Sent<Line>,
    #[garde(if(cond = self.counts("signingCity"), custom(optional(text(100)))))]
    pub(super) signingCity: Sent<Line>,
    #[garde(if(cond = self.counts("signingState"), custom(optional(text(50)))))]
    pub(super) signingState: Sent<Line>,
    #[garde(if(cond = self.counts("signingZipcode"), custom(optional(text(20)))))]
    pub(super) signingZipcode: Sent<Line>,
    #[garde(custom(optional(any)))]
    pub(super) isPropertyAddressSame: Sent<bool>,
    #[garde(custom(optional(text(100))))]
    pub(super) esigningPlatform: Sent<Line>,
    #[garde(custom(optional(any)))]
    pub(super) scanbacksRequired: Sent<bool>,
    #[garde(custom(optional(any)))]
    pub(super) ronSigning: Sent<bool>,
    #[garde(custom(optional(text(100))))]
    pub(super) documentDelivery: Sent<Line>,
    #[garde(custom(optional(text(200))))]
    pub(super) lender: Sent<Line>,
    #[garde(custom(optional(text(5_000))))]
    pub(super) specialInstructions: Sent<Lines>,
    #[garde(dive, custom(optional(any)))]
    pub(super) loanOfficer: Sent<Object<ContactRequest>>,
    #[garde(dive, custom(optional(any)))]
    pub(super) invoiceOrderTo: Sent<Object<InvoiceRecipientRequest>>,
    #[garde(custom(optional(text(200))))]
    pub(super) invoiceName: Sent<Line>,
    #[garde(custom(optional(phone)))]
    pub(super) invoicePhone: Sent<Code>,
    #[garde(custom(optional(email)))]
    pub(super) invoiceEmail: Sent<Code>,
    #[garde(custom(optional(amount)))]
    pub(super) invoiceFee: Sent<Amount>,
    #[garde(custom(optional(amount)))]
    pub(super) notaryPay: Sent<Amount>,
}

#[serde_with::apply(Sent => #[serde(skip_serializing_if = "Sent::is_unset")])]
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Validate)]
#[serde(default)]
pub struct InvoiceRecipientRequest {
    #[garde(custom(optional(text(200))))]
    pub(super) company_name: Sent<Line>,
    #[garde(custom(optional(text(500))))]
    pub(super) invoice_address: Sent<Line>,
    #[garde(custom(optional(text(100))))]
    pub(super) city: Sent<Line>,
    #[garde(custom(optional(text(100))))]
    pub(super) state: Sent<Line>,
    #[garde(custom(optional(text(100))))]
    pub(super) zipcode: Sent<Line>,
}

#[serde_with::apply(Sent => #[serde(skip_serializing_if = "Sent::is_unset")])]
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Validate)]
#[serde(default)]
pub struct RequestedByRequest {
    #[garde(custom(required(positive)))]
    pub(super) userId: Sent<i64>,
    #[garde(custom(optional(text(100))))]
    pub(super) userRole: Sent<Line>,
    #[garde(custom(optional(positive)))]
    pub(super) signingServiceId: Sent<i64>,
}

/// An amount of US dollars.
fn amount(amount: &Amount) -> Checked {
    let is_money = amount.0.map(|_| ());
    is_money.or_else(|error| fault(ViolationCode::OutOfRange, error.to_string()))
}

impl OrderMembers {
    /// Returns whether the value of a field of the request or of the details counts for the order.
    pub(super) fn counts(&self, field: &str) -> bool {
        let details = self.signingDetailsFormData.value();
        details.map_or_else(|| DetailsRequest::default().counts(field), |sent| sent.counts(field))
    }
}

impl DetailsRequest {
    /// Returns whether the value of a field counts for the order. Others are ignored.
    fn counts(&self, field: &str) -> bool {
        match field {
            "specificTime" | "utcTimeDate" => self.has_time("at"),
            "startTime" | "endTime" | "utcStartTimeDate" | "utcEndTimeDate" => {
                self.has_time("between")
            }
            "signingAddress" | "signingCity" | "signingState" | "signingZipcode" => {
                self.isPropertyAddressSame.value() == Some(&false)
            }
            _ => true,
        }
    }

    /// Returns whether the appointment is of this `signingTimeType`.
    pub(super) fn has_time(&self, kind: &str) -> bool {
        self.signingTimeType.value().is_some_and(|sent| **sent == *kind)
    }
}

impl OrderRequest {
    /// Adds a text part of a form: JSON for an object, plain text for the rest. Blank means absent.
    /// A part of another name is an unknown member.
    ///
    /// # Errors
    /// The part is not valid JSON.
    pub fn add_part(&mut self, name: &str, text: String) -> serde_json::Result<()> {
        match name {
            "signingContactsFormData" => self.signingContactsFormData = object(&text)?,
            "signingDetailsFormData" => self.signingDetailsFormData = object(&text)?,
            "requestedBy" => self.requestedBy = object(&text)?,
            "signingServiceId" => self.signingServiceId = identifier(text),
            "utcTimeDate" => self.utcTimeDate = Code::of_text(text),
            "utcStartTimeDate" => self.utcStartTimeDate = Code::of_text(text),
            "utcEndTimeDate" => self.utcEndTimeDate = Code::of_text(text),
            _ => {
                self.unknown.push(Unknown::of_text(name, &text));
            }
        }
        Ok(())
    }

    /// Returns the file number, if the request has one.
    pub(crate) fn file_number(&self) -> Option<&str> {
        self.signingDetailsFormData.value()?.fileNumber.value().map(|number| &**number)
    }

    /// Returns the identifier of the signing service, if the request has one.
    pub(crate) fn signing_service_id(&self) -> Option<i64> {
        self.signingServiceId.value().copied()
    }
}

/// Reads the JSON object in a part of a form.
fn object<T: DeserializeOwned>(text: &str) -> serde_json::Result<Sent<Object<T>>> {
    match text.trim() {
        "" => Ok(Sent::Absent),
        json => serde_json::from_str(&whole_characters(json)),
    }
}

/// Reads the identifier in a part of a form.
fn identifier(text: String) -> Sent<i64> {
    match &*Code::clean(text) {
        "" => Sent::Absent,
        // `parse` also accepts a plus sign.
        digits if digits.starts_with('+') => Sent::Mistyped,
        digits => digits.parse().map_or(Sent::Mistyped, Sent::Value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Violation;

    #[test]
    fn parts_of_a_form_take_half_a_surrogate_pair() {
        let mut request = OrderRequest::default();
        let part = r#"{"userRole":"X\ud83d"}"#.to_owned();
        request.add_part("requestedBy", part).unwrap();
        let sent = serde_json::to_value(&request).unwrap();
        assert_eq!(sent["requestedBy"]["userRole"], "X\u{fffd}");
    }

    #[test]
    fn part_of_another_name_is_an_unknown_member() {
        let mut request = OrderRequest::default();
        request.add_part("SpecialInstructions", "ring twice".to_owned()).unwrap();
        let violations = request.parse().unwrap_err();
        let is_misplaced = |violation: &Violation| violation.pointer == "/SpecialInstructions";
        assert!(violations.iter().any(is_misplaced), "{violations:?}");
    }
}
