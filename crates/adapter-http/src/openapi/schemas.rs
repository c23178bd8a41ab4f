//! The schemas of answers, and what several schemas have in common: limits of numbers, examples.

use domain::{
    document::{DocumentLimits, MAX_DOCUMENTS_PER_ORDER},
    order::{Money, text_rule},
};
use serde_json::Value;
use utoipa::{
    Number,
    openapi::{Array, Components, KnownFormat, Object, Ref, RefOr, Schema, SchemaFormat, Type},
};

use super::examples;
use crate::paging::MAX_LIMIT;

/// Adds the schemas of answers that are made of others, and of the form with documents only. The
/// schemas of requests and records must be complete.
pub(super) fn add_composed(components: &mut Components, limits: DocumentLimits) {
    let record = object(components, "OrderRecord").cloned().unwrap_or_default();
    let Some(order_id) = record.properties.get("order_id").cloned() else { return };
    let Some(number) = record.properties.get("documents_uploaded").cloned() else { return };

    let mut order = record;
    order.description = Some("An order with its details and documents.".to_owned());
    let details = Ref::builder()
        .ref_location_from_schema_name("OrderDetails")
        .description(Some("The order in the names of the request, as it is stored."))
        .build();
    add_property(&mut order, "details", details);
    let documents = array_of("DocumentRecord", MAX_DOCUMENTS_PER_ORDER, "The documents.");
    add_property(&mut order, "documents", documents);
    order.required.push("documents_uploaded".to_owned());

    let mut added = Object::new();
    added.description = Some("Documents that were added to an order.".to_owned());
    add_property(&mut added, "order_id", order_id);
    add_property(&mut added, "documents_uploaded", number);
    let documents = array_of("DocumentRecord", limits.max_count, "The new documents.");
    add_property(&mut added, "documents", documents);

    let details = details_of(object(components, "OrderRequest").cloned().unwrap_or_default());
    let form = documents_form(object(components, "OrderForm").cloned().unwrap_or_default());
    for (name, schema) in [
        ("Order", order),
        ("OrderDetails", details),
        ("OrderList", list("OrderRecord", MAX_LIMIT, "/api/order")),
        ("AddedDocuments", added),
        ("DocumentList", list("DocumentRecord", MAX_DOCUMENTS_PER_ORDER, "/api/order/1/documents")),
        ("DocumentsForm", form),
    ] {
        components.schemas.insert(name.to_owned(), Schema::Object(schema).into());
    }
}

/// Returns the schema of details: a request without its signing service.
fn details_of(mut request: Object) -> Object {
    request.description = Some(
        "An order in the names of the request: trimmed, with its defaults, without `null`. With \
         `signingServiceId` and another `fileNumber` it creates an equal order."
            .to_owned(),
    );
    request.properties.shift_remove("signingServiceId");
    request.required.retain(|name| name != "signingServiceId");
    let details = examples::details();
    for (name, property) in &mut request.properties {
        if let Some(property) = as_object(property) {
            property.example = details.get(name).cloned().or(property.example.take());
        }
    }
    request
}

/// Returns the schema of a form with documents only.
fn documents_form(mut form: Object) -> Object {
    form.description = Some("A form with documents only.".to_owned());
    form.properties.retain(|name, _| name == "documents");
    form.required.retain(|name| name == "documents");
    form
}

/// Returns the schema of a list of items.
pub(super) fn list(items: &str, max_items: usize, url: &str) -> Object {
    let mut object = Object::with_type(Type::String);
    object.description = Some("Always `list`.".to_owned());
    object.enum_values = Some(vec!["list".into()]);
    object.example = Some("list".into());
    let mut path = Object::with_type(Type::String);
    path.description = Some("Path of the list.".to_owned());
    (path.max_length, path.example) = (Some(200), Some(url.into()));
    let mut has_more = Object::with_type(Type::Boolean);
    has_more.description =
        Some("Whether there are more items in the direction of the page.".to_owned());
    has_more.example = Some(false.into());

    let mut list = Object::new();
    list.description = Some(format!("A page of items of the schema {items}."));
    add_property(&mut list, "object", object);
    add_property(&mut list, "url", path);
    add_property(&mut list, "has_more", has_more);
    add_property(&mut list, "data", array_of(items, max_items, "The items of the page."));
    list
}

fn array_of(schema: &str, max_items: usize, description: &str) -> Schema {
    let mut array = Array::new(Ref::from_schema_name(schema));
    array.max_items = Some(max_items);
    array.description = Some(description.to_owned());
    Schema::Array(array)
}

pub(super) fn add_property(object: &mut Object, name: &str, schema: impl Into<RefOr<Schema>>) {
    object.properties.insert(name.to_owned(), schema.into());
    object.required.push(name.to_owned());
}

/// States the limits of identifiers and amounts, and of what a record repeats.
pub(super) fn add_limits(components: &mut Components) {
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
    let position = object(components, "DocumentRecord")
        .and_then(|record| as_object(record.properties.get_mut("position")?));
    if let Some(position) = position {
        position.maximum = Some((MAX_DOCUMENTS_PER_ORDER - 1).into());
    }
    let Some(record) = object(components, "OrderRecord") else { return };
    for (name, property) in &mut record.properties {
        let Some(property) = as_object(property) else { continue };
        let repeated = match name.as_str() {
            "documents_uploaded" => {
                property.maximum = Some(MAX_DOCUMENTS_PER_ORDER.into());
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
        if let (Some(property), Some(example)) = (as_object(property), example.get(name)) {
            property.example = Some(example.clone());
        }
    }
}

/// Returns an object schema by name.
pub(super) fn object<'a>(components: &'a mut Components, name: &str) -> Option<&'a mut Object> {
    as_object(components.schemas.get_mut(name)?)
}

pub(super) fn as_object(schema: &mut RefOr<Schema>) -> Option<&mut Object> {
    match schema {
        RefOr::T(Schema::Object(object)) => Some(object),
        _ => None,
    }
}
