//! What several schemas have in common: limits of numbers, and examples.

use domain::{
    document::DocumentLimits,
    order::{Money, text_rule},
};
use serde_json::Value;
use utoipa::{
    Number,
    openapi::{Components, KnownFormat, Object, RefOr, Schema, SchemaFormat},
};

/// States the limits of identifiers and amounts, and of what a record repeats.
pub(super) fn add_limits(components: &mut Components, limits: DocumentLimits) {
    #[expect(clippy::cast_precision_loss, reason = "the cents are far below 2^53")]
    let max_amount = Money::MAX.cents() as f64 / 100.0;
    let objects = components.schemas.values_mut().filter_map(as_object);
    for property in objects.flat_map(|object| object.properties.values_mut()).filter_map(as_object)
    {
        let (minimum, maximum): (_, Number) = match property.format {
            Some(SchemaFormat::KnownFormat(KnownFormat::Int64)) => (1, i64::MAX.into()),
            Some(SchemaFormat::KnownFormat(KnownFormat::Double)) => (0, max_amount.into()),
            _ => continue,
        };
        (property.minimum, property.maximum) = (Some(minimum.into()), Some(maximum));
    }
    let Some(record) = object(components, "OrderRecord") else { return };
    for (name, property) in &mut record.properties {
        let Some(property) = as_object(property) else { continue };
        let repeated = match name.as_str() {
            "documents_uploaded" => {
                property.maximum = Some(limits.max_count.into());
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

/// Gives each property of a schema its value in `example`.
pub(super) fn add_examples(components: &mut Components, schema: &str, example: &Value) {
    let Some(schema) = object(components, schema) else { return };
    for (name, property) in &mut schema.properties {
        if let Some(property) = as_object(property) {
            property.example = example.get(name).cloned();
        }
    }
}

/// Returns an object schema by name.
pub(super) fn object<'a>(components: &'a mut Components, name: &str) -> Option<&'a mut Object> {
    as_object(components.schemas.get_mut(name)?)
}

fn as_object(schema: &mut RefOr<Schema>) -> Option<&mut Object> {
    match schema {
        RefOr::T(Schema::Object(object)) => Some(object),
        _ => None,
    }
}
