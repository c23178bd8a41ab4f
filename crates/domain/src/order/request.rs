//! The request to create an order, field by field. The names are those of the API.

use serde::{Deserialize, Serialize, de::MapAccess, de::value::MapAccessDeserializer};

use super::{
    field::{Field, JsonType},
    money::JsonNumber,
};

/// Makes structs of [`Field`]s JSON objects. Absent fields are not written.
macro_rules! json_objects {
    ($(
        $(#[$of_struct:meta])*
        pub struct $name:ident {
            $($(#[$of_field:meta])* pub $field:ident: Field<$type:ty>,)*
        }
    )*) => {$(
        #[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
        $(#[$of_struct])*
        pub struct $name {
            $(
                $(#[$of_field])*
                #[serde(skip_serializing_if = "Field::is_absent")]
                pub $field: Field<$type>,
            )*
        }

        impl<'de> JsonType<'de> for $name {
            const EXPECTED: &'static str = "an object";
            fn from_object<A: MapAccess<'de>>(object: A) -> Result<Option<Self>, A::Error> {
                Self::deserialize(MapAccessDeserializer::new(object)).map(Some)
            }
        }
    )*};
}

json_objects! {
    /// A request to create a notarial signing order.
    #[serde(default, rename_all = "camelCase")]
    pub struct OrderRequest {
        /// Contacts of the order.
        pub signing_contacts_form_data: Field<SigningContactsRequest>,
        /// What is signed, by whom, where and when.
        pub signing_details_form_data: Field<SigningDetailsRequest>,
        /// Identifier of the signing service that the order belongs to.
        pub signing_service_id: Field<i64>,
        /// UTC instant of an appointment at a specific time, ISO 8601 with `Z`. The service converts
        /// `specificTime` itself. This value only selects the later instant of a local time that occurs
        /// twice.
        pub utc_time_date: Field<String>,
        /// UTC start of a time range, used like `utcTimeDate`.
        pub utc_start_time_date: Field<String>,
        /// UTC end of a time range, used like `utcTimeDate`.
        pub utc_end_time_date: Field<String>,
        /// The user who creates the order.
        pub requested_by: Field<RequestedByRequest>,
    }

    /// Contacts of the order.
    #[serde(default, rename_all = "camelCase")]
    pub struct SigningContactsRequest {
        /// Primary contact of the order.
        pub order_contact_email: Field<String>,
        /// Identifier of the client company.
        pub client_company_id: Field<i64>,
        /// E-mail address of an observer.
        pub observer: Field<String>,
        /// Primary in-house contact.
        pub in_house_contact: Field<ContactRequest>,
        /// Secondary in-house contact.
        pub in_house_contact2: Field<ContactRequest>,
    }

    /// A contact.
    #[serde(default)]
    pub struct ContactRequest {
        /// Full name of the contact.
        pub contact_name: Field<String>,
        /// Phone number with country code: 7 to 15 digits, the usual punctuation, an optional
        /// extension.
        pub contact_phone: Field<String>,
        /// E-mail address of the contact.
        pub contact_email: Field<String>,
    }

    /// What is signed, by whom, where and when.
    #[serde(default, rename_all = "camelCase")]
    pub struct SigningDetailsRequest {
        /// Unique file or loan number. A second order with it inside the duplicate window is rejected.
        pub file_number: Field<String>,
        /// Date of the signing, `YYYY-MM-DD`.
        pub signing_date: Field<String>,
        /// `at` a time (needs `specificTime`), `between` two times (needs `startTime` and `endTime`),
        /// or `anytime`.
        pub signing_time_type: Field<String>,
        /// Local time `HH:MM`, 24-hour; required when `signingTimeType` is `at`, otherwise ignored.
        pub specific_time: Field<String>,
        /// Local start `HH:MM`, 24-hour; required when `signingTimeType` is `between`, otherwise
        /// ignored.
        pub start_time: Field<String>,
        /// Local end `HH:MM`, 24-hour, after the start; required when `signingTimeType` is `between`,
        /// otherwise ignored.
        pub end_time: Field<String>,
        /// IANA time zone identifier of every local time.
        pub time_zone_id: Field<String>,
        /// Full address of the property.
        pub property_address: Field<String>,
        /// Type of signing, e.g. `Refinance`, `Purchase`, `HELOC`.
        pub signing_type: Field<String>,
        /// Full name of the primary signer.
        pub signer_name: Field<String>,
        /// Phone of the primary signer: 7 to 15 digits, the usual punctuation, an optional extension.
        pub signer_phone: Field<String>,
        /// E-mail address of the primary signer.
        pub signer_email: Field<String>,
        /// City of the property.
        pub city: Field<String>,
        /// State of the property, two letters; stored upper case.
        pub state: Field<String>,
        /// ZIP code of the property, five digits.
        pub zipcode: Field<String>,
        /// Preferred language of the signer.
        pub language: Field<String>,
        /// Full name of the primary signer's spouse.
        pub spouse_name: Field<String>,
        /// Full name of the co-signer.
        pub co_signer_name: Field<String>,
        /// Full name of the co-signer's spouse.
        pub co_signer_spouse_name: Field<String>,
        /// Phone of the co-signer.
        pub co_signer_phone: Field<String>,
        /// E-mail address of the co-signer.
        pub co_signer_email: Field<String>,
        /// Address of the signing location. It counts only if `isPropertyAddressSame` is false.
        /// Otherwise the signing location is the property.
        pub signing_address: Field<String>,
        /// City of the signing location. It belongs to `signingAddress`.
        pub signing_city: Field<String>,
        /// State of the signing location, two letters. It belongs to `signingAddress`.
        pub signing_state: Field<String>,
        /// ZIP code of the signing location, five digits. It belongs to `signingAddress`.
        pub signing_zipcode: Field<String>,
        /// Whether the signing location is the property. For another location, send `false` and
        /// `signingAddress`.
        pub is_property_address_same: Field<bool>,
        /// Name of the e-signing platform.
        pub esigning_platform: Field<String>,
        /// Whether scanbacks are required.
        pub scanbacks_required: Field<bool>,
        /// Whether this is a remote online notarization.
        pub ron_signing: Field<bool>,
        /// Delivery method of the documents to the notary.
        pub document_delivery: Field<String>,
        /// Name of the lender.
        pub lender: Field<String>,
        /// Instructions for the notary. Several lines are allowed.
        pub special_instructions: Field<String>,
        /// The lender's loan officer.
        pub loan_officer: Field<ContactRequest>,
        /// Recipient of the invoice.
        pub invoice_order_to: Field<InvoiceRecipientRequest>,
        /// Name of the invoice contact.
        pub invoice_name: Field<String>,
        /// Phone of the invoice contact.
        pub invoice_phone: Field<String>,
        /// E-mail address of the invoice contact.
        pub invoice_email: Field<String>,
        /// Amount of the invoice in US dollars, at most two decimals.
        pub invoice_fee: Field<JsonNumber>,
        /// Amount paid to the notary in US dollars, at most two decimals.
        pub notary_pay: Field<JsonNumber>,
    }

    /// Recipient of the invoice.
    #[serde(default)]
    pub struct InvoiceRecipientRequest {
        /// Name of the company.
        pub company_name: Field<String>,
        /// Street address of the recipient.
        pub invoice_address: Field<String>,
        /// City of the recipient.
        pub city: Field<String>,
        /// State, in any form.
        pub state: Field<String>,
        /// ZIP code, in any form.
        pub zipcode: Field<String>,
    }

    /// The user who creates the order.
    #[serde(default, rename_all = "camelCase")]
    pub struct RequestedByRequest {
        /// Identifier of the user who creates the order.
        pub user_id: Field<i64>,
        /// Role of the user.
        pub user_role: Field<String>,
        /// Signing service of the user.
        pub signing_service_id: Field<i64>,
    }
}
