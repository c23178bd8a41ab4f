//! The parameters of the operations.

use domain::{document::MAX_DOCUMENTS_PER_ORDER, order::text_rule};
use serde_json::Value;
use utoipa::openapi::{
    KnownFormat, Object, Required, Schema, SchemaFormat, Type,
    path::{Parameter, ParameterBuilder, ParameterIn},
};

use super::{requests, settings::OpenApiSettings, units};
use crate::paging::{DEFAULT_LIMIT, MAX_LIMIT};

/// Returns the parameter with the identifier of an order.
pub(super) fn order_id() -> Parameter {
    in_path("order_id", "Identifier of the order.", identifier())
}

/// Returns the parameter with the position of a document.
pub(super) fn position() -> Parameter {
    let max = MAX_DOCUMENTS_PER_ORDER.saturating_sub(1);
    let position = integer(0, i64::try_from(max).unwrap_or(i64::MAX), 0.into());
    in_path("position", "Position of the document in its order, from 0.", position)
}

/// Returns the parameter with the identifier of a webhook.
pub(super) fn webhook_id() -> Parameter {
    in_path("webhook_id", "Identifier of the webhook.", identifier())
}

/// Returns the parameter with the identifier of a delivery.
pub(super) fn delivery_id() -> Parameter {
    in_path("delivery_id", "Identifier of the delivery.", identifier())
}

/// Returns the parameters of a list of orders.
pub(super) fn of_list() -> impl Iterator<Item = Parameter> {
    let mut file_number = requests::text(text_rule("SigningDetailsRequest", "fileNumber"), true);
    file_number.examples = vec!["REFI-1".into()];
    let instant = || {
        let mut instant = text("2026-11-21T12:00:00Z");
        instant.format = Some(SchemaFormat::KnownFormat(KnownFormat::DateTime));
        instant
    };
    let filters = [
        in_query("file_number", "Only orders with this `fileNumber`.", file_number),
        in_query("created_after", "Only orders created at this instant or later.", instant()),
        in_query("created_before", "Only orders created before this instant.", instant()),
    ];
    filters.into_iter().chain(of_page("orders"))
}

/// Returns the parameters of a list of deliveries.
pub(super) fn of_deliveries() -> [Parameter; 3] {
    of_page("deliveries")
}

fn of_page(items: &str) -> [Parameter; 3] {
    let max = i64::try_from(MAX_LIMIT).unwrap_or(i64::MAX);
    let mut limit = integer(1, max, 50.into());
    limit.default = Some(DEFAULT_LIMIT.into());
    let older = format!("Only {items} older than this one: the last of the page before.");
    let newer =
        format!("Only {items} newer than this one, those next to it. Excludes `starting_after`.");
    [
        in_query("limit", &format!("Largest number of {items} on the page."), limit),
        in_query("starting_after", &older, identifier()),
        in_query("ending_before", &newer, identifier()),
    ]
}

/// Returns the headers of conditional requests: `If-None-Match`, `Range`, `If-Range`.
pub(super) fn conditions() -> [Parameter; 3] {
    let header = |name, description: &str, example| {
        parameter(ParameterIn::Header, name, description, text(example))
    };
    [
        header(
            "If-None-Match",
            "Tags of the versions that the client has. 304 is the answer if one is current.",
            r#""9f86d081884c7d659a2feaa0c55ad015""#,
        ),
        header(
            "Range",
            "The part to send: one range of bytes. Other ranges are ignored.",
            "bytes=0-1023",
        ),
        header(
            "If-Range",
            "Tag of the version of which the client has a part. Another version is sent whole.",
            r#""9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08""#,
        ),
    ]
}

/// Returns the parameter with the idempotency key.
pub(super) fn idempotency_key(settings: &OpenApiSettings) -> Parameter {
    let max = domain::idempotency::MAX_KEY_CHARS;
    let mut key = text("\"8e03978e-40d5-43dd-bc93-6894a57f9324\"");
    key.min_length = Some(1);
    key.pattern = Some(format!(
        r#"^(?:[!#-+\--:<-\[\]-~]{{1,{max}}}|"(?:[!#-\[\]-~]|\\["\\]){{1,{max}}}")$"#
    ));
    let description = format!(
        "Identifies this request among those of the client for {}: 1 to {max} visible ASCII \
         characters, quoted or bare, preferably a new UUID. A repeat with the same body gets the \
         first answer again, with `Idempotency-Replayed: true`.",
        units::duration(settings.idempotency_retention)
    );
    parameter(ParameterIn::Header, "Idempotency-Key", &description, key)
}

fn in_path(name: &str, description: &str, schema: Object) -> Parameter {
    let mut parameter = parameter(ParameterIn::Path, name, description, schema);
    parameter.required = Required::True;
    parameter
}

fn in_query(name: &str, description: &str, schema: Object) -> Parameter {
    parameter(ParameterIn::Query, name, description, schema)
}

fn parameter(place: ParameterIn, name: &str, description: &str, schema: Object) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .description(Some(description))
        .schema(Some(Schema::Object(schema)))
        .build()
}

fn identifier() -> Object {
    integer(1, i64::MAX, 7.into())
}

fn integer(minimum: i64, maximum: i64, example: Value) -> Object {
    let mut schema = Object::with_type(Type::Integer);
    schema.format = Some(SchemaFormat::KnownFormat(KnownFormat::Int64));
    (schema.minimum, schema.maximum) = (Some(minimum.into()), Some(maximum.into()));
    schema.examples = vec![example];
    schema
}

fn text(example: &str) -> Object {
    let mut schema = Object::with_type(Type::String);
    schema.examples = vec![example.into()];
    schema
}
