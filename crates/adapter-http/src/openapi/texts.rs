//! The rules of the request's texts, quoted from the domain.
//!
//! The rules hold for trimmed texts. This module adds what clients may send around them: white
//! space, and nothing but white space in an optional text.

use domain::order::{TextRule, text_rule};
use serde_json::json;
use utoipa::openapi::{Components, Object, RefOr, Schema, SchemaFormat, Type, schema::SchemaType};

use super::schemas::object;

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

/// White space that is trimmed. The pattern allows one character only: with more, a text could
/// exceed its length limit before trimming.
const BLANK: &str = r"[\t-\r ]?";
/// The same, with the line separators of Unicode.
const BLANK_LINES: &str = r"[\t-\r \x85\u2028\u2029]?";
const LINE: &str = r"[^\x00-\x1F\x7F-\x9F\u2028\u2029]*";
const NOT_BLANK: &str = r"[^\x00- \x7F-\xA0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]";

const EMAIL: &str = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*\
    @[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\
    (?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*";
const PHONE: &str = "[ (]*\\+?(?:[ .()/-]*[0-9]){7,15}[ .()/-]*[ ,;]*\
    (?:(?:[eE][xX][tT](?:[eE][nN][sS][iI][oO][nN])?|[xX]|#)[.: ]*[0-9]{1,8})?";
const UTC: &str = "[1-9][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])\
    T(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\\.[0-9]{1,9})?)?(?:Z|\\+00:00)";

/// Adds the patterns of all texts that clients send.
pub(super) fn add_rules(components: &mut Components) {
    for name in REQUESTS {
        let Some(request) = object(components, name) else { continue };
        for (property, schema) in &mut request.properties {
            if let RefOr::T(Schema::Object(schema)) = schema
                && is_text(schema)
            {
                let rule = text_rule(rules_of(name), property);
                restrict(schema, rule, request.required.contains(property));
            }
        }
    }
    if let Some(details) = object(components, "SigningDetailsRequest") {
        time_types(details);
    }
}

/// Returns the schema with the rules of a schema's texts.
fn rules_of(schema: &str) -> &str {
    if schema == "OrderForm" { "OrderRequest" } else { schema }
}

fn is_text(schema: &Object) -> bool {
    match &schema.schema_type {
        SchemaType::Type(kind) => *kind == Type::String,
        SchemaType::Array(kinds) => kinds.contains(&Type::String),
        SchemaType::AnyValue => false,
    }
}

/// States the rule of a text. Only required texts keep a format, because an optional text may be
/// blank.
fn restrict(schema: &mut Object, rule: &TextRule, required: bool) {
    let format = rule.openapi_format;
    if format == Some("date") {
        schema.format = Some(SchemaFormat::Custom("date".to_owned()));
        return;
    }
    let pattern = match format {
        Some("date-time") => Some(UTC),
        Some("email") => Some(EMAIL),
        Some("phone") => Some(PHONE),
        _ => rule.pattern.map(|text| text.trim_start_matches('^').trim_end_matches('$')),
    };
    // Most patterns have a fixed length, which needs no maximum.
    let fixed_length = format.is_none() && pattern.is_some_and(|text| !text.ends_with('*'));
    if !fixed_length {
        schema.max_length = Some(rule.max_length);
    }
    schema.pattern = Some(match pattern {
        Some(pattern) if required => format!("^{BLANK}{pattern}{BLANK}$"),
        Some(pattern) => format!("^{BLANK}(?:{pattern})?{BLANK}$"),
        None if required => format!("^{LINE}{NOT_BLANK}{LINE}$"),
        None => format!("^{BLANK_LINES}{LINE}{BLANK_LINES}$"),
    });
    if required && pattern.is_none() {
        schema.min_length = Some(1);
    }
    if required && format == Some("email") {
        schema.format = Some(SchemaFormat::Custom("email".to_owned()));
    }
}

/// States the three time types and the fields that each requires.
fn time_types(details: &mut Object) {
    if let Some(RefOr::T(Schema::Object(kind))) = details.properties.get_mut("signingTimeType") {
        kind.pattern = None;
        kind.min_length = None;
        kind.max_length = None;
        kind.enum_values = Some(vec!["at".into(), "between".into(), "anytime".into()]);
    }
    let given = json!({ "type": "string", "pattern": "[0-9]" });
    let conditions = json!([
        {
            "if": {
                "properties": { "signingTimeType": { "const": "at" } },
                "required": ["signingTimeType"]
            },
            "then": { "properties": { "specificTime": given }, "required": ["specificTime"] }
        },
        {
            "if": {
                "properties": { "signingTimeType": { "const": "between" } },
                "required": ["signingTimeType"]
            },
            "then": {
                "properties": { "startTime": given, "endTime": given },
                "required": ["startTime", "endTime"]
            }
        }
    ]);
    // `Object` has no member for these keywords of JSON Schema. Programs ignore unknown keywords.
    details.extensions.get_or_insert_default().insert("allOf".to_owned(), conditions);
}
