//! The rules of the request's texts, as patterns.
//!
//! The attributes of the request types say what a text is; here is added what holds for all of
//! them: texts are trimmed, those that are optional may be blank, and those without a format are
//! one line.

use serde_json::json;
use utoipa::{
    Modify,
    openapi::{
        Components, KnownFormat, Object, OpenApi, RefOr, Schema, SchemaFormat, Type,
        schema::SchemaType,
    },
};

/// The schemas that clients send.
const REQUESTS: [&str; 7] = [
    "OrderRequest",
    "OrderForm",
    "SigningContactsRequest",
    "ContactRequest",
    "SigningDetailsRequest",
    "InvoiceRecipientRequest",
    "RequestedByRequest",
];

/// White space that is trimmed: one character is told for any number of them, or text could be
/// within its length after trimming, and beyond it before.
const BLANK: &str = r"[\t-\r ]?";
/// The same, with what ends a line elsewhere.
const BLANK_LINES: &str = r"[\t-\r \x85\u2028\u2029]?";
const LINE: &str = r"[^\x00-\x1F\x7F-\x9F\u2028\u2029]*";
const NOT_BLANK: &str = r"[^\x00- \x7F-\xA0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]";

const EMAIL: &str = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*\
    @[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*";
const PHONE: &str = r"[ (]*\+?(?:[ .()/-]*[0-9]){7,15}[ .()/-]*[ ,;]*(?:(?:[eE][xX][tT](?:[eE][nN][sS][iI][oO][nN])?|[xX]|#)[.: ]*[0-9]{1,8})?";
const UTC: &str = r"[1-9][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?(?:Z|\+00:00)";

pub(super) struct TextRules;

impl Modify for TextRules {
    fn modify(&self, document: &mut OpenApi) {
        let Some(components) = &mut document.components else { return };
        for name in REQUESTS {
            let Some(request) = object(components, name) else { continue };
            for (property, schema) in &mut request.properties {
                if let RefOr::T(Schema::Object(schema)) = schema
                    && is_text(schema)
                {
                    restrict(schema, request.required.contains(property));
                }
            }
        }
        if let Some(details) = object(components, "SigningDetailsRequest") {
            time_types(details);
        }
    }
}

fn object<'a>(components: &'a mut Components, name: &str) -> Option<&'a mut Object> {
    match components.schemas.get_mut(name)? {
        RefOr::T(Schema::Object(object)) => Some(object),
        _ => None,
    }
}

fn is_text(schema: &Object) -> bool {
    match &schema.schema_type {
        SchemaType::Type(kind) => *kind == Type::String,
        SchemaType::Array(kinds) => kinds.contains(&Type::String),
        SchemaType::AnyValue => false,
    }
}

/// Gives a text its pattern. A format that a blank text breaks stays with required texts only.
fn restrict(schema: &mut Object, required: bool) {
    let format = match (&schema.format, &schema.pattern) {
        (Some(SchemaFormat::KnownFormat(KnownFormat::Date)), _) => return,
        (Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)), _) => Some(UTC.to_owned()),
        (Some(SchemaFormat::Custom(format)), _) if format == "email" => Some(EMAIL.to_owned()),
        (Some(SchemaFormat::Custom(format)), _) if format == "phone" => Some(PHONE.to_owned()),
        (_, pattern) => pattern
            .as_deref()
            .map(|pattern| pattern.trim_start_matches('^').trim_end_matches('$').to_owned()),
    };
    let lines = format.is_none();
    schema.pattern = Some(match format {
        Some(format) if required => format!("^{BLANK}{format}{BLANK}$"),
        Some(format) => format!("^{BLANK}(?:{format})?{BLANK}$"),
        None if required => format!("^{LINE}{NOT_BLANK}{LINE}$"),
        None => format!("^{BLANK_LINES}{LINE}{BLANK_LINES}$"),
    });
    if required && lines {
        schema.min_length = Some(1);
    }
    let email = matches!(&schema.format, Some(SchemaFormat::Custom(format)) if format == "email");
    if !(required && email) {
        schema.format = None;
    }
}

/// The three kinds of time, and the fields that each needs.
fn time_types(details: &mut Object) {
    if let Some(RefOr::T(Schema::Object(kind))) = details.properties.get_mut("signingTimeType") {
        kind.pattern = None;
        kind.enum_values = Some(vec!["at".into(), "between".into(), "anytime".into()]);
    }
    let given = json!({ "type": "string", "pattern": "[0-9]" });
    let conditions = json!([
        {
            "if": { "properties": { "signingTimeType": { "const": "at" } }, "required": ["signingTimeType"] },
            "then": { "properties": { "specificTime": given }, "required": ["specificTime"] }
        },
        {
            "if": { "properties": { "signingTimeType": { "const": "between" } }, "required": ["signingTimeType"] },
            "then": { "properties": { "startTime": given, "endTime": given }, "required": ["startTime", "endTime"] }
        }
    ]);
    // Keywords of JSON Schema that the type of the schema has no member for; programs that do not
    // know them pass over them.
    details.extensions.get_or_insert_default().insert("allOf".to_owned(), conditions);
}
