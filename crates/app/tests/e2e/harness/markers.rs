//! An order with a unique text in every field, so that a leak of any field is found and named.

use serde_json::{Value, json};

/// The unique content of a field.
#[derive(Clone)]
pub struct Marker {
    /// JSON Pointer to the field, or the name of another carrier.
    pub field: String,
    pub needle: String,
    /// Counts only as a whole word. Short digits and letters are also parts of other words.
    is_word: bool,
}

impl Marker {
    pub fn text(field: impl Into<String>, needle: impl Into<String>) -> Self {
        Self { field: field.into(), needle: needle.into().to_lowercase(), is_word: false }
    }

    fn word(field: &str, needle: impl Into<String>) -> Self {
        Self { is_word: true, ..Self::text(field, needle) }
    }

    pub fn is_in(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let part_of_more = |c: Option<char>| {
            c.is_some_and(|c| {
                c.is_alphanumeric() || c == '.' || c == ':' && self.needle.contains(':')
            })
        };
        text.match_indices(&self.needle).any(|(at, found)| {
            !self.is_word
                || !part_of_more(text[..at].chars().next_back())
                    && !part_of_more(text[at + found.len()..].chars().next())
        })
    }
}

/// A valid order with a marker in every field of the OpenAPI document, new fields included.
pub struct MarkedOrder {
    pub order: Value,
    pub markers: Vec<Marker>,
    /// The pointer and the JSON type of each field.
    pub fields: Vec<(String, &'static str)>,
}

impl MarkedOrder {
    pub fn new() -> Self {
        let settings = adapter_http::OpenApiSettings::default();
        let document: Value =
            serde_json::from_str(&adapter_http::openapi_document(&settings)).unwrap();
        let mut marked = Self { order: Value::Null, markers: Vec::new(), fields: Vec::new() };
        marked.order = marked.object(&document["components"]["schemas"], "OrderRequest", "");
        assert!(marked.fields.len() > 60, "{:?}", marked.fields);
        // A marker that is not found in the order itself would be found nowhere.
        let sent = marked.order.to_string();
        let lost: Vec<&str> = marked
            .markers
            .iter()
            .filter(|marker| !marker.is_in(&sent))
            .map(|marker| marker.field.as_str())
            .collect();
        assert!(lost.is_empty() && marked.markers.len() > 60, "{lost:?} in {sent}");
        // With `true`, the service ignores the fields of the signing location.
        marked.order["signingDetailsFormData"]["isPropertyAddressSame"] = json!(false);
        marked
    }

    /// Returns the fields whose markers are in a text.
    pub fn found_in<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a str> {
        self.markers.iter().filter(|marker| marker.is_in(text)).map(|marker| marker.field.as_str())
    }

    fn object(&mut self, schemas: &Value, name: &str, path: &str) -> Value {
        let properties = schemas[name]["properties"].as_object().unwrap();
        let fields = properties.iter().map(|(property, schema)| {
            (property.clone(), self.field(schemas, schema, &format!("{path}/{property}")))
        });
        Value::Object(fields.collect())
    }

    fn field(&mut self, schemas: &Value, schema: &Value, pointer: &str) -> Value {
        let reference = schema["$ref"]
            .as_str()
            .or_else(|| schema["oneOf"].as_array()?.iter().find_map(|one| one["$ref"].as_str()));
        if let Some(reference) = reference {
            let name = reference.rsplit('/').next().unwrap();
            return match &schemas[name] {
                object if object["properties"].is_object() => self.object(schemas, name, pointer),
                // Closed values have a name.
                named => self.field(schemas, named, pointer),
            };
        }
        let has_type = |name: &str| {
            schema["type"] == name
                || schema["type"].as_array().is_some_and(|types| types.contains(&json!(name)))
        };
        let number = 1 + self.fields.len();
        let kinds = ["boolean", "integer", "number", "string"];
        let kind = kinds.into_iter().find(|kind| has_type(kind));
        let kind = kind.unwrap_or_else(|| panic!("define a marker for {pointer}: {schema}"));
        let (value, markers) = match kind {
            "boolean" => (json!(true), Vec::new()),
            "integer" => {
                let id = 7_351_846_000_000_000 + number;
                (json!(id), vec![Marker::text(pointer, id.to_string())])
            }
            "number" => {
                let dollars = u32::try_from(7_351_800 + number).unwrap();
                let amount = f64::from(dollars) + 0.25;
                (json!(amount), vec![Marker::text(pointer, dollars.to_string())])
            }
            _ => text(schema, pointer, number),
        };
        self.fields.push((pointer.to_owned(), kind));
        self.markers.extend(markers);
        value
    }
}

/// Returns a valid text for a field, and its markers.
fn text(schema: &Value, pointer: &str, number: usize) -> (Value, Vec<Marker>) {
    if let Some(values) = schema["enum"].as_array() {
        // The possible values are public.
        return (values[0].clone(), Vec::new());
    }
    let example = schema["example"].as_str().unwrap_or_else(|| panic!("{pointer} has no example"));
    let is_free = schema["maxLength"].is_u64();
    let whole = |text: String| (text.clone(), vec![Marker::text(pointer, text)]);
    let word = |text: String| (text.clone(), vec![Marker::word(pointer, text)]);
    let (value, markers) = match example {
        _ if example.contains('@') => {
            let parts = [format!("mk{number}zq"), format!("home{number}zq")];
            let address = format!("{}.example.com", parts.join("@"));
            (address, parts.map(|part| Marker::text(pointer, part)).into())
        }
        _ if pointer.to_lowercase().ends_with("phone") => {
            let tail = format!("735 {}", 1_000 + number);
            (format!("+1 918 {tail}"), vec![Marker::text(pointer, tail)])
        }
        _ if example.ends_with('Z') && example.contains('T') => {
            let minute = format!("2087-03-29T{:02}:47", number % 24);
            (format!("{minute}:00Z"), vec![Marker::text(pointer, minute)])
        }
        _ if schema["format"] == "date" => whole("2087-03-29".to_owned()),
        _ if pointer.ends_with("/timeZoneId") => {
            ("Pacific/Chatham".to_owned(), vec![Marker::text(pointer, "chatham")])
        }
        _ if is_free => {
            let marker = format!("Mk{number}zq");
            (format!("{marker} Planted"), vec![Marker::text(pointer, marker)])
        }
        _ if example.len() == 5 && example.contains(':') => {
            let noon = if pointer.ends_with("endTime") { 12 } else { 0 };
            word(format!("{:02}:47", number % 12 + noon))
        }
        _ if example.len() == 5 => word((79_000 + number).to_string()),
        _ if example.len() == 2 => word("QZ".to_owned()),
        _ => panic!("define a marker for {pointer}: {schema}"),
    };
    (json!(value), markers)
}
