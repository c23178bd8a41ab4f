//! The order aggregate: a notarial signing.
//!
//! [`OrderRequest`] is what a client sends. [`Order`] is a valid order. [`StoredOrder`] is an order
//! that the service has created. [`record`] is its stored form. [`change`] decides on every change of it.

mod amendment;
pub mod attention;
pub mod change;
pub mod change_request;
pub mod event;
pub mod feed;
mod misplaced;
mod money;
mod parse;
mod read_back;
pub mod record;
mod request;
pub mod search;
mod stored;
mod text;
mod upsert;

pub use amendment::{MAX_OLD_VALUES, OldValues};
pub use change::{
    AddedRange, Due, MAX_NOTES, MAX_TOLD, OrderBefore, OrderCommand, OrderEffects, Refusal,
    Retained,
};
pub use money::{Dollars, Money, MoneyError};
pub use parse::ParsedOrder;
pub use record::hh_mm;
pub use request::OrderRequest;
pub use stored::{
    Actor, ChangeKind, DocumentId, Names, Notary, Note, OrderChange, OrderStatus, READ_HISTORY,
    READ_NOTE_BYTES, READ_NOTES, StoredOrder, after, fitting_notes, reason_of,
};
pub use text::{FileNumber, MAX_NOTE, MAX_REASON, MAX_STATUS};
pub use upsert::Upsert;

pub use crate::people::{EmailAddress, InvalidEmail, SigningServiceId};

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{appointment::Appointment, trace_context::TraceContext};

// Orders are personal data.
conceal!(
    Order,
    SigningDetails,
    SigningContacts,
    Contact,
    Address,
    SigningLocation,
    Signer,
    CoSigner,
    Invoice,
    InvoiceRecipient,
    RequestedBy,
    FileNumber
);

/// Identifier of an order, assigned by the repository; positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OrderId(pub i64);

/// A valid order: made only by [`OrderRequest::parse`], or read from its [`record`].
#[derive(Clone, PartialEq, Eq)]
pub struct Order {
    /// The signing service that the order belongs to.
    pub signing_service_id: SigningServiceId,
    /// Unique file or loan number of the client.
    pub file_number: FileNumber,
    /// Date and time of the signing.
    pub appointment: Appointment,
    /// The recipients of mails about the order.
    pub contacts: SigningContacts,
    /// The signing: its kind, its signers and its place.
    pub signing: SigningDetails,
    /// The user who created the order.
    pub requested_by: RequestedBy,
    /// The request that created the order, if its trace is exported.
    pub trace: Option<TraceContext>,
}

/// The signing: its kind, its signers and its place. The `serde` names are those of the stored
/// [`record`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningDetails {
    /// The property that the documents are about.
    pub property: Address,
    /// Whether the client said that the signing location is the property (the default).
    #[serde(rename = "same", default = "default_same", skip_serializing_if = "is_default_same")]
    pub is_property_address_same: bool,
    /// A signing location that is not just the property; see [`SigningDetails::signing_location`].
    #[serde(rename = "location", skip_serializing_if = "Option::is_none")]
    pub location: Option<SigningLocation>,
    /// Kind of signing, e.g. `Refinance`.
    #[serde(rename = "type")]
    pub signing_type: String,
    /// Primary signer.
    pub signer: Signer,
    /// Second signer, if any.
    #[serde(rename = "co_signer", default, skip_serializing_if = "is_default")]
    pub co_signer: CoSigner,
    /// Language of the signing.
    #[serde(
        rename = "lang",
        default = "default_language",
        skip_serializing_if = "is_default_language"
    )]
    pub language: String,
    /// Name of the e-signing platform.
    #[serde(rename = "esigning_platform", skip_serializing_if = "Option::is_none")]
    pub esigning_platform: Option<String>,
    /// Whether the notary sends back scans of the signed documents.
    #[serde(rename = "scanbacks", default, skip_serializing_if = "is_default")]
    pub scanbacks_required: bool,
    /// Whether the signing is a remote online notarization (RON).
    #[serde(rename = "ron", default, skip_serializing_if = "is_default")]
    pub ron_signing: bool,
    /// Delivery method of the documents to the notary.
    #[serde(rename = "document_delivery", skip_serializing_if = "Option::is_none")]
    pub document_delivery: Option<String>,
    /// Name of the lender.
    #[serde(rename = "lender", skip_serializing_if = "Option::is_none")]
    pub lender: Option<String>,
    /// Instructions for the notary; the only text of several lines.
    #[serde(rename = "special_instructions", skip_serializing_if = "Option::is_none")]
    pub special_instructions: Option<String>,
    /// The lender's loan officer.
    #[serde(rename = "loan_officer", skip_serializing_if = "Option::is_none")]
    pub loan_officer: Option<Contact>,
    /// Recipient and amounts of the invoice.
    #[serde(rename = "invoice", default, skip_serializing_if = "is_default")]
    pub invoice: Invoice,
}

impl SigningDetails {
    /// Returns the address where the parties sign: the property, unless the client named another.
    pub fn signing_location(&self) -> SigningLocation {
        self.location.clone().unwrap_or_else(|| self.property.clone().into())
    }
}

impl From<Address> for SigningLocation {
    fn from(Address { address, city, state, zipcode }: Address) -> Self {
        Self { address, city: Some(city), state: Some(state), zipcode: Some(zipcode) }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

const DEFAULT_LANGUAGE: &str = "en";

fn is_default_language(language: &str) -> bool {
    language == DEFAULT_LANGUAGE
}

/// Returns whether the signing location of an order that does not say so is the property (spec
/// section 2.3).
pub(crate) fn default_same() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_default_same(same: &bool) -> bool {
    *same == default_same()
}

/// Returns the language of an order that names none (spec section 2.3).
pub fn default_language() -> String {
    DEFAULT_LANGUAGE.to_owned()
}

/// The contacts of an order. Some of them receive mails.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningContacts {
    /// Primary contact of the order.
    #[serde(rename = "email")]
    pub order_contact_email: EmailAddress,
    /// Identifier of the client company.
    #[serde(rename = "company", skip_serializing_if = "Option::is_none")]
    pub client_company_id: Option<i64>,
    /// Observer of the order.
    #[serde(rename = "observer", skip_serializing_if = "Option::is_none")]
    pub observer: Option<EmailAddress>,
    /// Primary in-house contact.
    #[serde(rename = "in_house", skip_serializing_if = "Option::is_none")]
    pub in_house_contact: Option<Contact>,
    /// Secondary in-house contact.
    #[serde(rename = "in_house2", skip_serializing_if = "Option::is_none")]
    pub in_house_contact2: Option<Contact>,
}

impl SigningContacts {
    /// Returns the mail recipients: order contact, observer and in-house contacts. Each address is
    /// listed once, regardless of letter case.
    pub fn recipients(&self) -> Vec<EmailAddress> {
        let in_house = self.in_house_contact.iter().chain(&self.in_house_contact2);
        let others =
            self.observer.iter().chain(in_house.filter_map(|contact| contact.email.as_ref()));
        let mut seen = BTreeSet::new();
        std::iter::once(&self.order_contact_email)
            .chain(others)
            .filter(|address| seen.insert(address.as_str().to_ascii_lowercase()))
            .cloned()
            .collect()
    }

    /// Returns whether an address is that of the observer, and of no contact. An observer cannot sign in.
    pub fn is_only_observer(&self, address: &EmailAddress) -> bool {
        let in_house = self.in_house_contact.iter().chain(&self.in_house_contact2);
        let contacts = in_house.filter_map(|contact| contact.email.as_ref());
        let mut contacts = std::iter::once(&self.order_contact_email).chain(contacts);
        let is_observer = self.observer.as_ref().is_some_and(|one| one.is_same_as(address));
        is_observer && !contacts.any(|contact| contact.is_same_as(address))
    }
}

/// A contact. At least one field is present.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// Full name.
    #[serde(rename = "name", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Phone number.
    #[serde(rename = "phone", skip_serializing_if = "Option::is_none")]
    pub phone: Option<String>,
    /// E-mail address.
    #[serde(rename = "email", skip_serializing_if = "Option::is_none")]
    pub email: Option<EmailAddress>,
}

/// Address of a property in the United States.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// Full address.
    pub address: String,
    /// City.
    pub city: String,
    /// Two upper-case letters.
    pub state: String,
    /// Five digits.
    #[serde(rename = "zip")]
    pub zipcode: String,
}

/// The address where the parties sign.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningLocation {
    /// Address.
    pub address: String,
    /// City.
    #[serde(rename = "city", skip_serializing_if = "Option::is_none")]
    pub city: Option<String>,
    /// State, as the client wrote it; two letters in upper case.
    #[serde(rename = "state", skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// ZIP code, as the client wrote it.
    #[serde(rename = "zip", skip_serializing_if = "Option::is_none")]
    pub zipcode: Option<String>,
}

/// Primary signer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signer {
    /// Full name.
    pub name: String,
    /// Phone number.
    pub phone: String,
    /// E-mail address.
    pub email: EmailAddress,
    /// Spouse's full name.
    #[serde(rename = "spouse", skip_serializing_if = "Option::is_none")]
    pub spouse_name: Option<String>,
}

/// Second signer. Every field is optional.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoSigner {
    /// Full name.
    #[serde(rename = "name", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Spouse's full name.
    #[serde(rename = "spouse", skip_serializing_if = "Option::is_none")]
    pub spouse_name: Option<String>,
    /// Phone number.
    #[serde(rename = "phone", skip_serializing_if = "Option::is_none")]
    pub phone: Option<String>,
    /// E-mail address.
    #[serde(rename = "email", skip_serializing_if = "Option::is_none")]
    pub email: Option<EmailAddress>,
}

/// Recipient and amounts of the invoice.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invoice {
    /// Company that receives the invoice.
    #[serde(rename = "to", skip_serializing_if = "Option::is_none")]
    pub recipient: Option<InvoiceRecipient>,
    /// Contact name.
    #[serde(rename = "name", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Contact phone.
    #[serde(rename = "phone", skip_serializing_if = "Option::is_none")]
    pub phone: Option<String>,
    /// Contact e-mail.
    #[serde(rename = "email", skip_serializing_if = "Option::is_none")]
    pub email: Option<EmailAddress>,
    /// Amount of the invoice.
    #[serde(rename = "fee_cents", skip_serializing_if = "Option::is_none")]
    pub fee: Option<Money>,
    /// Amount paid to the notary.
    #[serde(rename = "notary_pay_cents", skip_serializing_if = "Option::is_none")]
    pub notary_pay: Option<Money>,
}

/// Company that receives the invoice. At least one field is present.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvoiceRecipient {
    /// Company name.
    #[serde(rename = "company", skip_serializing_if = "Option::is_none")]
    pub company_name: Option<String>,
    /// Street address.
    #[serde(rename = "address", skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// City.
    #[serde(rename = "city", skip_serializing_if = "Option::is_none")]
    pub city: Option<String>,
    /// State, as the client wrote it.
    #[serde(rename = "state", skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// ZIP code, as the client wrote it.
    #[serde(rename = "zip", skip_serializing_if = "Option::is_none")]
    pub zipcode: Option<String>,
}

/// The user who created the order.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedBy {
    /// Identifier of the user.
    #[serde(rename = "user")]
    pub user_id: i64,
    /// Role of the user.
    #[serde(rename = "role", skip_serializing_if = "Option::is_none")]
    pub user_role: Option<String>,
    /// Signing service of the user.
    #[serde(rename = "user_service", skip_serializing_if = "Option::is_none")]
    pub signing_service_id: Option<SigningServiceId>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_support::minimal_request;

    fn texts(value: &Value) -> Vec<&str> {
        match value {
            Value::String(text) => vec![text],
            Value::Object(members) => members.values().flat_map(texts).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn debug_shows_no_value_of_an_order() {
        let mut sent = minimal_request();
        let contact = json!({
            "contact_name": "Alex Smith",
            "contact_phone": "+1 555 010 0100",
            "contact_email": "alex@example.com"
        });
        sent["signingContactsFormData"]["inHouseContact"] = contact.clone();
        sent["signingDetailsFormData"]["loanOfficer"] = contact;
        sent["signingDetailsFormData"]["invoiceOrderTo"] =
            json!({ "company_name": "Title Company", "invoice_address": "77 Commerce St" });
        sent["signingDetailsFormData"]["coSignerName"] = json!("Richard Roe");
        sent["requestedBy"]["userRole"] = json!("escrow officer");
        let request: OrderRequest = serde_json::from_value(sent.clone()).unwrap();
        let order = request.clone().parse().unwrap();
        let parts = (
            &order.order.contacts,
            &order.order.signing.signer,
            &order.order.signing.loan_officer,
            &order.order.file_number,
            &order.order.signing.property,
        );
        let shown = format!(
            "{request:#?} {order:?} {parts:?} {:?} {:?}",
            order.order.signing.invoice.recipient, order.order.requested_by
        );
        for text in texts(&sent).into_iter().filter(|text| *text != "at") {
            assert!(!shown.contains(text), "{text}: {shown}");
        }
    }
}
