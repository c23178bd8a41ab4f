//! The schemas that are not derived from a type of the code, and the configured limits.

use domain::{document::DocumentLimits, order::text_rule};
use utoipa::{
    ToSchema,
    openapi::{Components, Object, RefOr, Schema},
};

use super::units;

/// The form of an order with documents. Its JSON parts have the structure of the same field of
/// `OrderRequest`.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "describes the form; the code reads the form part by part")]
pub(super) struct OrderForm {
    /// Contacts that are notified of the order: JSON.
    #[schema(value_type = domain::order::SigningContactsRequest)]
    signing_contacts_form_data: String,
    /// What is signed, by whom, where and when: JSON.
    #[schema(value_type = domain::order::SigningDetailsRequest)]
    signing_details_form_data: String,
    /// Identifier of the signing service of the order, in decimal digits.
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807_i64, example = 42)]
    signing_service_id: i64,
    /// UTC datetime of an appointment at a specific time; see `OrderRequest`.
    #[schema(nullable = false, example = "2026-12-01T20:30:00Z")]
    utc_time_date: Option<String>,
    /// UTC start of a time range; see `OrderRequest`.
    #[schema(nullable = false, example = "2026-12-01T15:00:00Z")]
    utc_start_time_date: Option<String>,
    /// UTC end of a time range; see `OrderRequest`.
    #[schema(nullable = false, example = "2026-12-01T17:30:00Z")]
    utc_end_time_date: Option<String>,
    /// The user who creates the order: JSON.
    #[schema(value_type = domain::order::RequestedByRequest)]
    requested_by: String,
    /// Replaced by [`add_limits`].
    #[schema(value_type = Vec<String>, format = Binary, min_items = 1)]
    documents: Vec<u8>,
}

/// States the limits of documents, and the lengths of the fields that a record repeats.
pub(super) fn add_limits(components: &mut Components, limits: DocumentLimits) {
    let DocumentLimits { max_count, max_bytes } = limits;
    if let Some(form) = object(components, "OrderForm")
        && let Some(RefOr::T(Schema::Array(documents))) = form.properties.get_mut("documents")
    {
        documents.max_items = Some(max_count);
        documents.description = Some(format!(
            "The files to be signed: 1 to {max_count} files of at most {} each. A file must be a \
             PDF, DOC, DOCX, JPG, JPEG or PNG file, have its extension, and not be empty. Repeat \
             the part for each file.",
            units::size(max_bytes)
        ));
    }
    let Some(record) = object(components, "OrderRecord") else { return };
    for (name, property) in &mut record.properties {
        let RefOr::T(Schema::Object(property)) = property else { continue };
        let repeated = match name.as_str() {
            "documents_uploaded" => {
                property.maximum = Some(max_count.into());
                continue;
            }
            "file_number" => "fileNumber",
            "signer_name" => "signerName",
            "property_address" => "propertyAddress",
            _ => continue,
        };
        property.max_length = Some(text_rule("SigningDetailsRequest", repeated).max_length);
    }
}

/// Returns an object schema by name.
pub(super) fn object<'a>(components: &'a mut Components, name: &str) -> Option<&'a mut Object> {
    match components.schemas.get_mut(name)? {
        RefOr::T(Schema::Object(object)) => Some(object),
        _ => None,
    }
}
