//! The order aggregate: a notarial signing that a client has asked for.
//!
//! [`OrderRequest`] is what a client sends, [`Order`] what is left once every rule holds,
//! [`StoredOrder`] an order that the service has acknowledged.

mod check;
mod field;
mod money;
mod parse;
mod request;
mod text;
mod violation;

pub use field::{Field, JsonType};
pub use money::{Money, MoneyError};
pub use parse::ParsedOrder;
pub use request::{
    ContactRequest, InvoiceRecipientRequest, OrderRequest, RequestedByRequest,
    SigningContactsRequest, SigningDetailsRequest,
};
pub use text::{EmailAddress, FileNumber};
pub use violation::{Violation, ViolationCode};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::{appointment::Appointment, document::StoredDocument};

/// Orders are personal data: they reach neither a log nor a panic through `Debug`.
macro_rules! conceal {
    ($($name:ident),*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(concat!(stringify!($name), "(…)"))
            }
        }
    )*};
}
conceal!(
    Order,
    SigningContacts,
    Contact,
    Address,
    SigningLocation,
    Signer,
    CoSigner,
    Invoice,
    InvoiceRecipient,
    RequestedBy
);

/// Identifier of a placed order, given by the repository; positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OrderId(pub i64);

/// Identifier of a signing service; positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SigningServiceId(pub i64);

/// A valid order: made only by [`OrderRequest::parse`], or read back from where it was stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Order {
    /// The signing service the order belongs to.
    pub signing_service_id: SigningServiceId,
    /// Who is told about the order.
    pub contacts: SigningContacts,
    /// Unique file or loan number of the client.
    pub file_number: FileNumber,
    /// When the signing takes place.
    pub appointment: Appointment,
    /// The property concerned.
    pub property: Address,
    /// Where the parties sign; the property unless the client named another place.
    pub signing_location: SigningLocation,
    /// Kind of signing, e.g. `Refinance`.
    pub signing_type: String,
    /// Primary signer.
    pub signer: Signer,
    /// Second signer, if any.
    pub co_signer: CoSigner,
    /// Language of the signing, `en` unless the client said otherwise.
    pub language: String,
    /// Name of the e-signing platform.
    pub esigning_platform: Option<String>,
    /// Whether the notary sends back scans of the signed documents.
    pub scanbacks_required: bool,
    /// Whether this is a remote online notarization (RON).
    pub ron_signing: bool,
    /// How the documents reach the notary.
    pub document_delivery: Option<String>,
    /// Name of the lender.
    pub lender: Option<String>,
    /// Instructions for the notary; the only text of several lines.
    pub special_instructions: Option<String>,
    /// The lender's loan officer.
    pub loan_officer: Option<Contact>,
    /// Who is billed, and for how much.
    pub invoice: Invoice,
    /// Who asked for the order.
    pub requested_by: RequestedBy,
}

/// Who is told about an order.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningContacts {
    /// Primary contact of the order.
    pub order_contact_email: EmailAddress,
    /// Identifier of the client company.
    pub client_company_id: Option<i64>,
    /// Somebody who is kept informed.
    pub observer: Option<EmailAddress>,
    /// Primary in-house contact.
    pub in_house_contact: Option<Contact>,
    /// Secondary in-house contact.
    pub in_house_contact2: Option<Contact>,
}

impl SigningContacts {
    /// Everybody to be told about the order, each address once, compared without regard to letter
    /// case.
    pub fn recipients(&self) -> Vec<EmailAddress> {
        let in_house = [&self.in_house_contact, &self.in_house_contact2];
        let in_house = in_house.into_iter().flatten().filter_map(|contact| contact.email.as_ref());
        let mut recipients: Vec<EmailAddress> = Vec::new();
        for address in
            std::iter::once(&self.order_contact_email).chain(&self.observer).chain(in_house)
        {
            if !recipients.iter().any(|known| known.as_str().eq_ignore_ascii_case(address.as_str()))
            {
                recipients.push(address.clone());
            }
        }
        recipients
    }
}

/// A person and how to reach them; at least one field is there.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// Full name.
    pub name: Option<String>,
    /// Phone number.
    pub phone: Option<String>,
    /// E-mail address.
    pub email: Option<EmailAddress>,
}

/// Address of a property in the United States.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Full address.
    pub address: String,
    /// City.
    pub city: String,
    /// Two upper-case letters.
    pub state: String,
    /// Five digits.
    pub zipcode: String,
}

/// Where the parties sign.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningLocation {
    /// Whether the client said, or left it at the default, that this is the property.
    pub is_property: bool,
    /// Address.
    pub address: String,
    /// City.
    pub city: Option<String>,
    /// Two upper-case letters.
    pub state: Option<String>,
    /// Five digits.
    pub zipcode: Option<String>,
}

/// Primary signer.
#[derive(Clone, PartialEq, Eq)]
pub struct Signer {
    /// Full name.
    pub name: String,
    /// Phone number.
    pub phone: String,
    /// E-mail address.
    pub email: EmailAddress,
    /// Spouse's full name.
    pub spouse_name: Option<String>,
}

/// Second signer; every field is optional.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CoSigner {
    /// Full name.
    pub name: Option<String>,
    /// Spouse's full name.
    pub spouse_name: Option<String>,
    /// Phone number.
    pub phone: Option<String>,
    /// E-mail address.
    pub email: Option<EmailAddress>,
}

/// Who is billed, and for how much.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Invoice {
    /// Company that receives the invoice.
    pub recipient: Option<InvoiceRecipient>,
    /// Contact name.
    pub name: Option<String>,
    /// Contact phone.
    pub phone: Option<String>,
    /// Contact e-mail.
    pub email: Option<EmailAddress>,
    /// Amount of the invoice.
    pub fee: Option<Money>,
    /// Amount paid to the notary.
    pub notary_pay: Option<Money>,
}

/// Company that receives the invoice; at least one field is there.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvoiceRecipient {
    /// Company name.
    pub company_name: Option<String>,
    /// Street address.
    pub address: Option<String>,
    /// City.
    pub city: Option<String>,
    /// State, as the client writes it.
    pub state: Option<String>,
    /// ZIP code, as the client writes it.
    pub zipcode: Option<String>,
}

/// Who asked for the order.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedBy {
    /// Identifier of the user.
    pub user_id: i64,
    /// Role of the user.
    pub user_role: Option<String>,
    /// Signing service of the user.
    pub signing_service_id: Option<SigningServiceId>,
}

/// State of an order. The service creates orders; further states belong to the systems that work
/// them off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderStatus {
    /// Placed, without a notary.
    New,
}

impl OrderStatus {
    /// The name of the state in answers and in storage.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "NEW",
        }
    }
}

/// An order that the service has acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOrder {
    /// Identifier of the order.
    pub id: OrderId,
    /// What was ordered.
    pub order: Order,
    /// State of the order.
    pub status: OrderStatus,
    /// The notary assigned; none on creation.
    pub notary_id: Option<i64>,
    /// The documents, in the order in which the client sent them.
    pub documents: Vec<StoredDocument>,
    /// Whether a test key asked for it: it is no real signing, and nobody is told of it.
    pub is_test: bool,
    /// When the order was placed, to the microsecond.
    pub created_at: OffsetDateTime,
    /// When the order was last changed, to the microsecond.
    pub updated_at: OffsetDateTime,
}

impl StoredOrder {
    /// The order as it was when it was placed, whatever has become of it.
    pub fn as_created(mut self) -> Self {
        self.status = OrderStatus::New;
        self.notary_id = None;
        self.updated_at = self.created_at;
        self
    }
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
    fn a_new_order_is_called_new() {
        assert_eq!(OrderStatus::New.as_str(), "NEW");
    }

    #[test]
    fn debug_shows_nothing_of_an_order() {
        let mut sent = minimal_request();
        let contact = json!({ "contact_name": "Alex Smith", "contact_phone": "+1 555 010 0100", "contact_email": "alex@example.com" });
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
            &order.order.signer,
            &order.order.loan_officer,
            &order.order.file_number,
            &order.order.property,
        );
        let shown = format!(
            "{request:#?} {order:?} {parts:?} {:?} {:?}",
            order.order.invoice.recipient, order.order.requested_by
        );
        for text in texts(&sent).into_iter().filter(|text| *text != "at") {
            assert!(!shown.contains(text), "{text}: {shown}");
        }
    }
}
