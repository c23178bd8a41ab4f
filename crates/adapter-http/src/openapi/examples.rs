//! Examples of the requests, made of the examples of the fields. Each creates an order when sent.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use utoipa::openapi::{
    Components, RefOr,
    example::{Example, ExampleBuilder},
};

/// Builds the examples.
pub(super) struct Examples {
    /// An order with every field of a signing at a time.
    full: Value,
}

impl Examples {
    /// Reads the examples of the fields.
    pub(super) fn of(components: &Components) -> Self {
        let schemas = serde_json::to_value(&components.schemas).unwrap_or_default();
        let mut full = example_of(&schemas, &schemas["OrderRequest"]);
        // These two belong to a time range.
        remove(&mut full, &["utcStartTimeDate", "utcEndTimeDate"]);
        remove(&mut full["signingDetailsFormData"], &["startTime", "endTime"]);
        full["signingDetailsFormData"]["isPropertyAddressSame"] = false.into();
        full["signingContactsFormData"]["inHouseContact2"] =
            contact("Sam Jones", "+1 555 010 0101 x12", "sam.jones@title.example.com");
        full["signingDetailsFormData"]["loanOfficer"] =
            contact("Lee Brown", "+1 555 010 0120", "lee.brown@bank.example.com");
        Self { full }
    }

    /// Returns orders without documents.
    pub(super) fn orders(&self) -> BTreeMap<String, RefOr<Example>> {
        let example = |summary: &str, value: Value| {
            RefOr::from(ExampleBuilder::new().summary(summary).value(Some(value)))
        };
        let at = example("A signing at 14:30, with every field", self.full.clone());
        let between = example(
            "A signing between 09:00 and 11:30, with the required fields only",
            minimal("HELOC-2026-003"),
        );
        BTreeMap::from([("at".to_owned(), at), ("between".to_owned(), between)])
    }

    /// Returns the parts of a form. A document stands for its file.
    pub(super) fn form(&self) -> Value {
        let mut form = minimal("PURCHASE-2026-002");
        form["requestedBy"] = self.full["requestedBy"].clone();
        form["documents"] = json!(["deed-of-trust.pdf"]);
        form
    }
}

/// Returns the example of a schema. Without its own, it is that of the alternative that is not
/// `null`, or an object of the examples of its properties.
fn example_of(schemas: &Value, schema: &Value) -> Value {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap_or_default();
        return example_of(schemas, &schemas[name]);
    }
    if let Some(alternatives) = schema["oneOf"].as_array() {
        let object = alternatives.iter().find(|schema| schema["type"] != "null");
        return object.map_or(Value::Null, |schema| example_of(schemas, schema));
    }
    match schema["properties"].as_object() {
        None => schema["example"].clone(),
        Some(properties) => properties
            .iter()
            .map(|(name, schema)| (name.clone(), example_of(schemas, schema)))
            .collect::<Map<_, _>>()
            .into(),
    }
}

fn contact(name: &str, phone: &str, email: &str) -> Value {
    json!({ "contact_name": name, "contact_phone": phone, "contact_email": email })
}

fn remove(object: &mut Value, names: &[&str]) {
    if let Some(members) = object.as_object_mut() {
        members.retain(|name, _| !names.contains(&name.as_str()));
    }
}

/// Returns an order with the required fields of a signing in a time range.
fn minimal(file_number: &str) -> Value {
    json!({
        "signingContactsFormData": { "orderContactEmail": "escrow@title.example.com" },
        "signingDetailsFormData": {
            "fileNumber": file_number,
            "signingDate": "2026-12-02",
            "signingTimeType": "between",
            "startTime": "09:00",
            "endTime": "11:30",
            "timeZoneId": "America/New_York",
            "propertyAddress": "9 Elm St, Albany, NY 12207",
            "city": "Albany",
            "state": "NY",
            "zipcode": "12207",
            "signingType": "Purchase",
            "signerName": "John Roe",
            "signerPhone": "+1 555 010 0142",
            "signerEmail": "john.roe@example.com"
        },
        "signingServiceId": 42,
        "requestedBy": { "userId": 1001 }
    })
}
