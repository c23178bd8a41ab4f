//! The request to create an order, field by field. The names are those of the API.

use serde::{Deserialize, Serialize, de::MapAccess, de::value::MapAccessDeserializer};

#[cfg(feature = "openapi")]
use super::{default_language, default_same};
use super::{
    field::{Field, JsonType},
    money::JsonNumber,
};

/// Gives a struct of [`Field`]s the JSON type "an object".
macro_rules! json_object {
    ($($name:ident),*) => {$(
        impl<'de> JsonType<'de> for $name {
            const EXPECTED: &'static str = "an object";
            fn from_object<A: MapAccess<'de>>(object: A) -> Result<Option<Self>, A::Error> {
                Self::deserialize(MapAccessDeserializer::new(object)).map(Some)
            }
        }
    )*};
}
json_object!(
    OrderRequest,
    SigningContactsRequest,
    ContactRequest,
    SigningDetailsRequest,
    InvoiceRecipientRequest,
    RequestedByRequest
);

/// A request to create a notarial signing order.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OrderRequest {
    /// Contacts of the order.
    #[cfg_attr(feature = "openapi", schema(value_type = SigningContactsRequest, required = true))]
    pub signing_contacts_form_data: Field<SigningContactsRequest>,
    /// What is signed, by whom, where and when.
    #[cfg_attr(feature = "openapi", schema(value_type = SigningDetailsRequest, required = true))]
    pub signing_details_form_data: Field<SigningDetailsRequest>,
    /// Identifier of the signing service that the order belongs to.
    #[cfg_attr(
        feature = "openapi",
        schema(
            value_type = i64,
            required = true,
            minimum = 1,
            maximum = 9_223_372_036_854_775_807_i64,
            example = 42
        )
    )]
    pub signing_service_id: Field<i64>,
    /// UTC instant of an appointment at a specific time, ISO 8601 with `Z`. The service converts
    /// `specificTime` itself. This value only selects the later instant of a local time that occurs
    /// twice.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<String>, example = "2026-12-01T20:30:00Z")
    )]
    pub utc_time_date: Field<String>,
    /// UTC start of a time range, used like `utcTimeDate`.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<String>, example = "2026-12-01T15:00:00Z")
    )]
    pub utc_start_time_date: Field<String>,
    /// UTC end of a time range, used like `utcTimeDate`.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<String>, example = "2026-12-01T17:30:00Z")
    )]
    pub utc_end_time_date: Field<String>,
    /// The user who creates the order.
    #[cfg_attr(feature = "openapi", schema(value_type = RequestedByRequest, required = true))]
    pub requested_by: Field<RequestedByRequest>,
}

/// Contacts of the order.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SigningContactsRequest {
    /// Primary contact of the order.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = String, required = true, example = "escrow@title.example.com")
    )]
    pub order_contact_email: Field<String>,
    /// Identifier of the client company.
    #[cfg_attr(
        feature = "openapi",
        schema(
            value_type = Option<i64>,
            minimum = 1,
            maximum = 9_223_372_036_854_775_807_i64,
            example = 7
        )
    )]
    pub client_company_id: Field<i64>,
    /// E-mail address of an observer.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<String>, example = "observer@bank.example.com")
    )]
    pub observer: Field<String>,
    /// Primary in-house contact.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ContactRequest>))]
    pub in_house_contact: Field<ContactRequest>,
    /// Secondary in-house contact.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ContactRequest>))]
    pub in_house_contact2: Field<ContactRequest>,
}

/// A contact.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ContactRequest {
    /// Full name of the contact.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "Alex Smith"))]
    pub contact_name: Field<String>,
    /// Phone number with country code: 7 to 15 digits, the usual punctuation, an optional
    /// extension.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<String>, example = "+1 555 010 0100")
    )]
    pub contact_phone: Field<String>,
    /// E-mail address of the contact.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<String>, example = "alex.smith@title.example.com")
    )]
    pub contact_email: Field<String>,
}

/// What is signed, by whom, where and when.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SigningDetailsRequest {
    /// Unique file or loan number. A second order with it inside the duplicate window is rejected.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = String, required = true, example = "REFI-2026-001")
    )]
    pub file_number: Field<String>,
    /// Date of the signing, `YYYY-MM-DD`.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = String, required = true, example = "2026-12-01")
    )]
    pub signing_date: Field<String>,
    /// `at` a time (needs `specificTime`), `between` two times (needs `startTime` and `endTime`),
    /// or `anytime`.
    #[cfg_attr(feature = "openapi", schema(value_type = String, required = true, example = "at"))]
    pub signing_time_type: Field<String>,
    /// Local time `HH:MM`, 24-hour; required when `signingTimeType` is `at`, otherwise ignored.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "14:30"))]
    pub specific_time: Field<String>,
    /// Local start `HH:MM`, 24-hour; required when `signingTimeType` is `between`, otherwise
    /// ignored.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "09:00"))]
    pub start_time: Field<String>,
    /// Local end `HH:MM`, 24-hour, after the start; required when `signingTimeType` is `between`,
    /// otherwise ignored.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "11:30"))]
    pub end_time: Field<String>,
    /// IANA time zone identifier of every local time.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = String, required = true, example = "America/Chicago")
    )]
    pub time_zone_id: Field<String>,
    /// Full address of the property.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = String, required = true, example = "123 Main St, Dallas, TX 75201")
    )]
    pub property_address: Field<String>,
    /// Type of signing, e.g. `Refinance`, `Purchase`, `HELOC`.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = String, required = true, example = "Refinance")
    )]
    pub signing_type: Field<String>,
    /// Full name of the primary signer.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = String, required = true, example = "Jane Doe")
    )]
    pub signer_name: Field<String>,
    /// Phone of the primary signer: 7 to 15 digits, the usual punctuation, an optional extension.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = String, required = true, example = "+1 555 010 0199")
    )]
    pub signer_phone: Field<String>,
    /// E-mail address of the primary signer.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = String, required = true, example = "jane.doe@example.com")
    )]
    pub signer_email: Field<String>,
    /// City of the property.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = String, required = true, example = "Dallas")
    )]
    pub city: Field<String>,
    /// State of the property, two letters; stored upper case.
    #[cfg_attr(feature = "openapi", schema(value_type = String, required = true, example = "TX"))]
    pub state: Field<String>,
    /// ZIP code of the property, five digits.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = String, required = true, example = "75201")
    )]
    pub zipcode: Field<String>,
    /// Preferred language of the signer.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<String>, default = default_language, example = "en")
    )]
    pub language: Field<String>,
    /// Full name of the primary signer's spouse.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "John Doe"))]
    pub spouse_name: Field<String>,
    /// Full name of the co-signer.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "Richard Roe"))]
    pub co_signer_name: Field<String>,
    /// Full name of the co-signer's spouse.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "Mary Roe"))]
    pub co_signer_spouse_name: Field<String>,
    /// Phone of the co-signer.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<String>, example = "+1 555 010 0142")
    )]
    pub co_signer_phone: Field<String>,
    /// E-mail address of the co-signer.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<String>, example = "richard.roe@example.com")
    )]
    pub co_signer_email: Field<String>,
    /// Address of the signing location. It counts only if `isPropertyAddressSame` is false.
    /// Otherwise the signing location is the property.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<String>, example = "500 Elm St, Suite 12")
    )]
    pub signing_address: Field<String>,
    /// City of the signing location. It belongs to `signingAddress`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "Plano"))]
    pub signing_city: Field<String>,
    /// State of the signing location, two letters. It belongs to `signingAddress`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "TX"))]
    pub signing_state: Field<String>,
    /// ZIP code of the signing location, five digits. It belongs to `signingAddress`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "75023"))]
    pub signing_zipcode: Field<String>,
    /// Whether the signing location is the property. For another location, send `false` and
    /// `signingAddress`.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<bool>, default = default_same, example = true)
    )]
    pub is_property_address_same: Field<bool>,
    /// Name of the e-signing platform.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "DocuSign"))]
    pub esigning_platform: Field<String>,
    /// Whether scanbacks are required.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<bool>, default = false, example = true)
    )]
    pub scanbacks_required: Field<bool>,
    /// Whether this is a remote online notarization.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<bool>, default = false, example = false)
    )]
    pub ron_signing: Field<bool>,
    /// Delivery method of the documents to the notary.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "Email"))]
    pub document_delivery: Field<String>,
    /// Name of the lender.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<String>, example = "First Example Bank")
    )]
    pub lender: Field<String>,
    /// Instructions for the notary. Several lines are allowed.
    #[cfg_attr(
        feature = "openapi",
        schema(
            value_type = Option<String>,
            example = "Call the signer an hour before.\nScanbacks by 18:00."
        )
    )]
    pub special_instructions: Field<String>,
    /// The lender's loan officer.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ContactRequest>))]
    pub loan_officer: Field<ContactRequest>,
    /// Recipient of the invoice.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<InvoiceRecipientRequest>))]
    pub invoice_order_to: Field<InvoiceRecipientRequest>,
    /// Name of the invoice contact.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<String>, example = "Accounts Payable")
    )]
    pub invoice_name: Field<String>,
    /// Phone of the invoice contact.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<String>, example = "+1 555 010 0150")
    )]
    pub invoice_phone: Field<String>,
    /// E-mail address of the invoice contact.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<String>, example = "billing@title.example.com")
    )]
    pub invoice_email: Field<String>,
    /// Amount of the invoice in US dollars, at most two decimals.
    #[cfg_attr(
        feature = "openapi",
        schema(
            value_type = Option<f64>,
            minimum = 0,
            maximum = 9_999_999_999.99,
            multiple_of = 0.01,
            example = 150.5
        )
    )]
    #[serde(default)]
    pub invoice_fee: Field<JsonNumber>,
    /// Amount paid to the notary in US dollars, at most two decimals.
    #[cfg_attr(
        feature = "openapi",
        schema(
            value_type = Option<f64>,
            minimum = 0,
            maximum = 9_999_999_999.99,
            multiple_of = 0.01,
            example = 100
        )
    )]
    #[serde(default)]
    pub notary_pay: Field<JsonNumber>,
}

/// Recipient of the invoice.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InvoiceRecipientRequest {
    /// Name of the company.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<String>, example = "Example Title Company")
    )]
    pub company_name: Field<String>,
    /// Street address of the recipient.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<String>, example = "77 Commerce St")
    )]
    pub invoice_address: Field<String>,
    /// City of the recipient.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "Dallas"))]
    pub city: Field<String>,
    /// State, in any form.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "TX"))]
    pub state: Field<String>,
    /// ZIP code, in any form.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "75201"))]
    pub zipcode: Field<String>,
}

/// The user who creates the order.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RequestedByRequest {
    /// Identifier of the user who creates the order.
    #[cfg_attr(
        feature = "openapi",
        schema(
            value_type = i64,
            required = true,
            minimum = 1,
            maximum = 9_223_372_036_854_775_807_i64,
            example = 1001
        )
    )]
    pub user_id: Field<i64>,
    /// Role of the user.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<String>, example = "escrow_officer")
    )]
    pub user_role: Field<String>,
    /// Signing service of the user.
    #[cfg_attr(
        feature = "openapi",
        schema(
            value_type = Option<i64>,
            minimum = 1,
            maximum = 9_223_372_036_854_775_807_i64,
            example = 42
        )
    )]
    pub signing_service_id: Field<i64>,
}
