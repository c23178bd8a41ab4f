//! The schemas of requests. The types of the domain give the names, types and descriptions of
//! fields. This module adds what the domain knows of each field: whether it is required, its rule,
//! and an example.

use std::collections::BTreeSet;

use domain::{
    document::DocumentLimits,
    order::{
        Field, OrderRequest, RequestedByRequest, SigningContactsRequest, SigningDetailsRequest,
        TextRule, text_rule,
    },
};
use serde_json::{Value, json};
use utoipa::openapi::{
    Array, Components, KnownFormat, Object, OneOf, Ref, RefOr, Schema, SchemaFormat, Type,
    schema::SchemaType,
};

use super::{schemas::object, units};

/// The schemas that clients send, each with a JSON Pointer to where it stands in an order.
const REQUESTS: [(&str, &str); 6] = [
    ("OrderRequest", ""),
    ("SigningContactsRequest", "/signingContactsFormData"),
    ("ContactRequest", "/signingContactsFormData/inHouseContact"),
    ("SigningDetailsRequest", "/signingDetailsFormData"),
    ("InvoiceRecipientRequest", "/signingDetailsFormData/invoiceOrderTo"),
    ("RequestedByRequest", "/requestedBy"),
];

/// Prefix of the names that utoipa gives to [`Field`]s.
const FIELD: &str = "Field_";

/// White space that is trimmed. The pattern allows one character only: with more, a text could
/// exceed its length limit before trimming.
pub(super) const BLANK: &str = r"[\t-\r ]?";
/// The same, with the line separators of Unicode.
const BLANK_LINES: &str = r"[\t-\r \x85\u2028\u2029]?";
/// No control characters, and no invisible ones. Tags stand for themselves, because programs agree
/// on no escape for characters beyond 16 bits.
const LINE: &str = "[^\\x00-\\x1F\\x7F-\\x9F\\u200B\\u2028-\\u202E\\u2060\\u2066-\\u2069\\uFEFF\
    \u{E0000}-\u{E007F}]*";
const NOT_BLANK: &str = "[^\\x00- \\x7F-\\xA0\\u1680\\u2000-\\u200B\\u2028-\\u202F\\u205F\\u2060\
    \\u2066-\\u2069\\u3000\\uFEFF\u{E0000}-\u{E007F}]";

const EMAIL: &str = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*\
    @[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\
    (?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*";
const PHONE: &str = "[ (]*\\+?(?:[ .()/-]*[0-9]){7,15}[ .()/-]*[ ,;]*\
    (?:(?:[eE][xX][tT](?:[eE][nN][sS][iI][oO][nN])?|[xX]|#)[.: ]*[0-9]{1,8})?";
const UTC: &str = "[1-9][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])\
    T(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\\.[0-9]{1,9})?)?(?:Z|\\+00:00)";

/// Completes the schemas of requests. The example of a field is its value in the first order of
/// `orders` that has the field.
pub(super) fn complete(components: &mut Components, limits: DocumentLimits, orders: &[Value]) {
    let required = required_fields();
    for (name, path) in REQUESTS {
        let Some(request) = object(components, name) else { continue };
        for (property, schema) in &mut request.properties {
            let RefOr::Ref(field) = &*schema else { continue };
            let pointer = format!("{path}/{property}");
            let is_required = required.contains(&pointer);
            if is_required {
                request.required.push(property.clone());
            }
            let rule = text_rule(name, property);
            let example = orders.iter().find_map(|order| order.pointer(&pointer));
            *schema = complete_field(field, rule, is_required, example);
        }
    }
    components.schemas.retain(|name, _| !name.starts_with(FIELD));
    if let Some(details) = object(components, "SigningDetailsRequest") {
        time_types(details);
    }
    if let Some(order) = object(components, "OrderRequest").cloned() {
        components.schemas.insert("OrderForm".to_owned(), Schema::from(form(order, limits)).into());
    }
}

/// Returns the JSON Pointers of all required fields: the domain reports them as missing.
fn required_fields() -> BTreeSet<String> {
    let empty_sections = OrderRequest {
        signing_contacts_form_data: Field::Value(SigningContactsRequest::default()),
        signing_details_form_data: Field::Value(SigningDetailsRequest::default()),
        requested_by: Field::Value(RequestedByRequest::default()),
        ..OrderRequest::default()
    };
    [OrderRequest::default(), empty_sections]
        .into_iter()
        .flat_map(|request| request.parse().err().unwrap_or_default())
        .map(|violation| violation.pointer.into_owned())
        .collect()
}

fn complete_field(
    field: &Ref,
    rule: &TextRule,
    required: bool,
    example: Option<&Value>,
) -> RefOr<Schema> {
    let kind = field.ref_location.rsplit_once(FIELD).map_or("", |(_, kind)| kind);
    let mut schema = match kind {
        "String" => text(rule, required),
        "bool" => Object::with_type(Type::Boolean),
        "i64" => number(Type::Integer, KnownFormat::Int64),
        "JsonNumber" => {
            let mut amount = number(Type::Number, KnownFormat::Double);
            amount.multiple_of = Some(0.01.into());
            amount
        }
        object => {
            let mut reference = Ref::from_schema_name(object);
            reference.description.clone_from(&field.description);
            if required {
                return reference.into();
            }
            let mut optional = OneOf::new();
            optional.items = vec![reference.into(), Object::with_type(Type::Null).into()];
            return Schema::OneOf(optional).into();
        }
    };
    if !required && let SchemaType::Type(kind) = schema.schema_type {
        schema.schema_type = SchemaType::from_iter([kind, Type::Null]);
    }
    schema.description = Some(field.description.clone());
    schema.default = field.default.clone().filter(|default| !default.is_null());
    schema.example = example.cloned();
    Schema::Object(schema).into()
}

fn number(kind: Type, format: KnownFormat) -> Object {
    let mut schema = Object::with_type(kind);
    schema.format = Some(SchemaFormat::KnownFormat(format));
    schema
}

/// Returns the schema of a text: its rule, which holds for trimmed texts, and what clients may send
/// around it: white space, and nothing but white space in an optional text. Only required texts
/// keep a format, because an optional text may be blank.
pub(super) fn text(rule: &TextRule, required: bool) -> Object {
    let mut schema = Object::with_type(Type::String);
    let format = rule.openapi_format;
    if format == Some("date") {
        schema.format = Some(SchemaFormat::KnownFormat(KnownFormat::Date));
        return schema;
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
        schema.format = Some(SchemaFormat::KnownFormat(KnownFormat::Email));
    }
    schema
}

/// States the three time types and the fields that each requires.
fn time_types(details: &mut Object) {
    if let Some(RefOr::T(Schema::Object(kind))) = details.properties.get_mut("signingTimeType") {
        kind.pattern = None;
        kind.min_length = None;
        kind.max_length = None;
        kind.enum_values = Some(vec!["at".into(), "between".into(), "anytime".into()]);
    }
    let condition = |time_type: &str, fields: &[&str]| {
        let given =
            |field: &&str| ((*field).to_owned(), json!({ "type": "string", "pattern": "[0-9]" }));
        let given: serde_json::Map<_, _> = fields.iter().map(given).collect();
        json!({
            "if": {
                "properties": { "signingTimeType": { "const": time_type } },
                "required": ["signingTimeType"]
            },
            "then": { "properties": given, "required": fields }
        })
    };
    let conditions = json!([
        condition("at", &["specificTime"]),
        condition("between", &["startTime", "endTime"])
    ]);
    // `Object` has no member for these keywords of JSON Schema. Programs ignore unknown keywords.
    details.extensions.get_or_insert_default().insert("allOf".to_owned(), conditions);
}

/// Returns the form of an order with documents. It has the fields of an order as parts, and a part
/// has no `null`.
fn form(order: Object, DocumentLimits { max_count, max_bytes }: DocumentLimits) -> Object {
    let mut form = order;
    form.description = Some(
        "The form of an order with documents. Its JSON parts have the structure of the same field \
         of `OrderRequest`; `signingServiceId` is in decimal digits."
            .to_owned(),
    );
    for part in form.properties.values_mut() {
        if let RefOr::T(Schema::Object(text)) = part
            && let SchemaType::Array(kinds) = &text.schema_type
        {
            text.schema_type = SchemaType::Type(kinds[0].clone());
        }
    }
    let mut file = Object::with_type(Type::String);
    file.format = Some(SchemaFormat::KnownFormat(KnownFormat::Binary));
    let mut documents = Array::new(file);
    documents.min_items = Some(1);
    documents.max_items = Some(max_count);
    documents.description = Some(format!(
        "The files to be signed: 1 to {max_count} files of at most {} each. A file must be a PDF, \
         DOC, DOCX, JPG, JPEG or PNG file, have its extension, and not be empty. Repeat the part \
         for each file.",
        units::size(max_bytes)
    ));
    form.properties.insert("documents".to_owned(), Schema::Array(documents).into());
    form.required.push("documents".to_owned());
    form
}
