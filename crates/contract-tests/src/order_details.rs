//! The view `order_details` of a database.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Returns the columns that hold a field of an order, and the values of the order of a golden file.
///
/// Times are `HH:MM`, dates and instants as in the golden file. A column has the name of the
/// request's field in snake case. If the object of the field is no section of the request, the
/// object's name comes first.
pub fn expected(golden: &str) -> BTreeMap<String, Value> {
    let golden: Value = serde_json::from_str(golden).unwrap();
    let mut columns = BTreeMap::new();
    for section in ["signingContactsFormData", "signingDetailsFormData"] {
        add_fields(&golden["request"][section], "", &mut columns);
    }
    add_fields(&golden["request"]["requestedBy"], "requested_by_", &mut columns);
    let location = ["address", "city", "state", "zipcode"];
    for field in location {
        let of_property = columns[&format!("property_{field}")].clone();
        columns.entry(format!("signing_{field}")).or_insert(of_property);
    }
    for state in ["property_state", "signing_state"] {
        let upper = columns[state].as_str().unwrap().to_uppercase();
        columns.insert(state.to_owned(), json!(upper));
    }
    let specific_time = columns.remove("specific_time");
    match columns["signing_time_type"].as_str().unwrap() {
        "at" => drop(columns.insert("start_time".to_owned(), specific_time.unwrap())),
        "between" => {}
        _ => columns.retain(|name, _| !["start_time", "end_time"].contains(&name.as_str())),
    }
    for (column, value) in golden["columns"].as_object().unwrap() {
        columns.insert(column.clone(), value.clone());
    }
    let defaults = [
        ("language", json!("en")),
        ("is_property_address_same", json!(true)),
        ("scanbacks_required", json!(false)),
        ("ron_signing", json!(false)),
    ];
    for (column, value) in defaults {
        columns.entry(column.to_owned()).or_insert(value);
    }
    columns.retain(|_, value| !value.is_null());
    columns
}

fn add_fields(object: &Value, prefix: &str, columns: &mut BTreeMap<String, Value>) {
    for (name, value) in object.as_object().unwrap() {
        let column = match name.as_str() {
            "observer" => "observer_email".to_owned(),
            "invoiceOrderTo" => "invoice".to_owned(),
            "city" | "state" | "zipcode" if prefix.is_empty() => format!("property_{name}"),
            name => {
                let name = snake_case(name);
                let name = ["contact_", "invoice_"]
                    .into_iter()
                    .find_map(|start| name.strip_prefix(start).filter(|_| !prefix.is_empty()))
                    .unwrap_or(&name);
                format!("{prefix}{name}")
            }
        };
        if value.is_object() {
            add_fields(value, &format!("{column}_"), columns);
        } else {
            columns.insert(column, value.clone());
        }
    }
}

fn snake_case(name: &str) -> String {
    name.chars()
        .flat_map(|c| {
            let separator = c.is_ascii_uppercase().then_some('_');
            separator.into_iter().chain(std::iter::once(c.to_ascii_lowercase()))
        })
        .collect()
}

/// Returns the JSON pointers of the values in `details` of a golden file, without the version.
pub fn members(golden: &str) -> Vec<String> {
    let golden: Value = serde_json::from_str(golden).unwrap();
    let mut found = Vec::new();
    add_members(&golden["details"], "", &mut found);
    found.retain(|pointer| pointer != "/v");
    assert!(!found.is_empty());
    found
}

fn add_members(value: &Value, pointer: &str, found: &mut Vec<String>) {
    let Some(members) = value.as_object() else { return found.push(pointer.to_owned()) };
    for (name, value) in members {
        add_members(value, &format!("{pointer}/{name}"), found);
    }
}
