//! Checks that the document is complete and consistent.

use std::{collections::BTreeSet, sync::LazyLock};

use actix_web::http::{Method, header::HeaderMap};
use jsonschema::Validator;
use serde_json::{Value, json};

/// The document of a service with default settings.
pub(super) static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(super::DEFAULT).unwrap());

/// Returns what is at a JSON Pointer in the document.
pub(super) fn at(pointer: &str) -> &'static Value {
    DOCUMENT.pointer(pointer).unwrap_or_else(|| panic!("{pointer} is not in the document"))
}

/// Returns what a `$ref` names, or the value itself.
pub(super) fn resolve(value: &'static Value) -> &'static Value {
    value["$ref"].as_str().map_or(value, |name| at(name.strip_prefix('#').unwrap()))
}

/// Returns the validator of a schema of the document.
pub(super) fn validator(schema: &Value) -> Validator {
    build(schema, at("/components").clone())
}

/// Returns the validator of a schema that permits no member besides those of the document.
pub(super) fn strict_validator(schema: &Value) -> Validator {
    let mut components = at("/components").clone();
    for schema in components["schemas"].as_object_mut().unwrap().values_mut() {
        if schema["type"] == "object" {
            schema["additionalProperties"] = false.into();
        }
    }
    build(schema, components)
}

fn build(schema: &Value, components: Value) -> Validator {
    let mut whole = schema.clone();
    whole["components"] = components;
    jsonschema::options().should_validate_formats(true).build(&whole).unwrap()
}

/// Returns what is wrong with a value.
pub(super) fn faults(validator: &Validator, value: &Value) -> Vec<String> {
    validator.iter_errors(value).map(|it| format!("{} {it}", it.instance_path())).collect()
}

/// Asserts that the document describes the answer to a request. Paths and methods that it does not
/// have are ignored.
pub(crate) fn assert_described(
    method: &Method,
    path: &str,
    (status, headers, body): (u16, &HeaderMap, &Value),
) {
    let matches = |template: &str| {
        let (mut segments, mut names) = (path.split('/'), template.split('/'));
        segments.by_ref().zip(names.by_ref()).all(|(it, name)| name.starts_with('{') || name == it)
            && path.split('/').count() == template.split('/').count()
    };
    let found = at("/paths").as_object().unwrap().iter().find(|(template, _)| matches(template));
    let Some((_, operations)) = found else { return };
    let is_head = *method == Method::HEAD;
    let method = if is_head { "get".into() } else { method.as_str().to_lowercase() };
    let Some(operation) = operations.get(&method) else { return };
    let response = &operation["responses"][status.to_string()];
    assert!(response.is_object(), "{method} {path} {status} is not described");
    let described = resolve(response)["headers"].as_object().unwrap();
    for name in at("/components/headers").as_object().unwrap().keys() {
        // Every answer has `Cache-Control`; only what a client may keep is described.
        let is_described =
            name == "Cache-Control" || !headers.contains_key(name) || described.contains_key(name);
        assert!(is_described, "{method} {path} {status} has {name}");
    }
    assert!(status != 201 || headers.contains_key("location"), "{method} {path} names nothing new");
    let content = resolve(response)["content"].as_object().into_iter().flatten();
    if let Some((_, json)) = content.into_iter().find(|(kind, _)| kind.ends_with("json")) {
        let found =
            if is_head { Vec::new() } else { faults(&strict_validator(&json["schema"]), body) };
        assert!(found.is_empty(), "{method} {path} {status}: {found:?} in {body}");
    }
}

/// Visits every value of the document with its path. Skips examples, which are data.
fn walk(path: &str, value: &'static Value, visit: &mut impl FnMut(&str, &'static Value)) {
    visit(path, value);
    for (name, member) in value.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "example" | "examples") {
            walk(&format!("{path}/{name}"), member, visit);
        }
    }
    for item in value.as_array().into_iter().flatten() {
        walk(path, item, visit);
    }
}

/// Returns every property of every schema, with its pointer.
fn properties() -> Vec<(String, &'static Value)> {
    let schemas = at("/components/schemas").as_object().unwrap().iter();
    let of_schema = |(schema, body): (&String, &'static Value)| {
        let properties = body["properties"].as_object().into_iter().flatten();
        let schema = schema.clone();
        properties.map(move |(name, property)| (format!("{schema}/{name}"), property))
    };
    schemas.flat_map(of_schema).collect()
}

/// Returns the schema of a property without its alternative `null`.
fn without_null(property: &'static Value) -> &'static Value {
    property["oneOf"]
        .as_array()
        .map_or(property, |kinds| kinds.iter().find(|kind| kind["type"] != "null").unwrap())
}

/// Returns every operation with its method and path.
pub(super) fn operations() -> Vec<(String, &'static Value)> {
    let paths = at("/paths").as_object().unwrap().iter();
    let of_path = |(path, operations): (&String, &'static Value)| {
        let (path, operations) = (path.clone(), operations.as_object().unwrap());
        operations.iter().map(move |(method, operation)| (format!("{method} {path}"), operation))
    };
    paths.flat_map(of_path).collect()
}

/// Returns whether an operation is for the pages of browsers, not for programs.
fn is_of_browsers(operation: &str) -> bool {
    ["/api/session", "/api/people", "/api/keys"].iter().any(|path| operation.contains(path))
}

/// Returns every response with its status.
fn responses() -> Vec<(String, &'static str, &'static Value)> {
    let of_operation = |(name, operation): (String, &'static Value)| {
        let responses = operation["responses"].as_object().unwrap().iter();
        responses.map(move |(status, response)| {
            (format!("{name} {status}"), status.as_str(), resolve(response))
        })
    };
    operations().into_iter().flat_map(of_operation).collect()
}

/// Returns the names of the schemas of answers and events.
fn schemas_of_answers() -> BTreeSet<&'static str> {
    let events = at("/webhooks").as_object().unwrap().values();
    let events = events.map(|event| &event["post"]["requestBody"]);
    let mut open: Vec<_> = responses().into_iter().map(|(_, _, it)| it).chain(events).collect();
    let mut names = BTreeSet::new();
    while let Some(value) = open.pop() {
        walk("", value, &mut |_, value| {
            let name =
                value["$ref"].as_str().and_then(|it| it.strip_prefix("#/components/schemas/"));
            if let Some(name) = name.filter(|name| names.insert(*name)) {
                open.push(&at("/components/schemas")[name]);
            }
        });
    }
    names
}

/// Returns every example with its path and schema.
pub(super) fn examples() -> Vec<(String, &'static Value, &'static Value)> {
    let mut found = Vec::new();
    walk("", &DOCUMENT, &mut |path, value| {
        let schema = if value["schema"].is_object() { &value["schema"] } else { value };
        let listed = value["examples"].as_array().into_iter().flatten();
        for example in value.get("example").into_iter().chain(listed) {
            found.push((path.to_owned(), schema, example));
        }
        for (name, example) in value["examples"].as_object().into_iter().flatten() {
            found.push((format!("{path}/{name}"), schema, &example["value"]));
        }
    });
    found
}

#[test]
fn answers_have_no_rules_that_a_later_version_may_break() {
    let names = schemas_of_answers();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        walk(name, &at("/components/schemas")[name], &mut |path, value| {
            for rule in ["pattern", "enum", "maxItems", "maxLength", "maximum", "default"] {
                assert!(value.get(rule).is_none(), "{path} {rule}");
            }
        });
    }
}

#[test]
fn every_property_has_description_limit_and_example() {
    let (properties, of_answers) = (properties(), schemas_of_answers());
    assert!(properties.len() > 80, "checked only {} properties", properties.len());
    for (path, property) in properties {
        // A reference has no members beside it: generators read them differently.
        let is_alone =
            property.get("$ref").is_none_or(|_| property.as_object().unwrap().len() == 1);
        assert!(is_alone, "{path}");
        let described = resolve(property)["description"].as_str();
        assert!(described.is_some_and(|text| text.len() > 10), "{path}");
        if without_null(property)["$ref"].is_string() {
            continue;
        }
        let kind = property["type"].as_str().or(property["type"][0].as_str()).unwrap();
        let limits: &[&str] = match kind {
            _ if of_answers.contains(path.split('/').next().unwrap()) => &["type"],
            "string" => &["maxLength", "pattern", "const", "format"],
            "integer" | "number" => &["maximum"],
            "array" => &["maxItems"],
            _ => &["type"],
        };
        assert!(limits.iter().any(|limit| !property[limit].is_null()), "{path} has no limit");
        let items = &property["items"];
        let is_shown = items["$ref"].is_string() || items["format"] == "binary";
        assert!(is_shown || property.get("example").is_some(), "{path} has no example");
    }
}

#[test]
fn optional_request_fields_may_be_null() {
    for (path, property) in properties().into_iter().filter(|(path, _)| path.contains("Request/")) {
        let (schema, name) = path.split_once('/').unwrap();
        let required = at("/components/schemas")[schema]["required"].as_array();
        let is_required = required.is_some_and(|required| required.contains(&json!(name)));
        assert_eq!(validator(property).is_valid(&Value::Null), !is_required, "{path}");
    }
}

#[test]
fn responses_have_headers_and_problem_examples() {
    let responses = responses();
    assert!(responses.len() > 70, "{}", responses.len());
    for (path, status, response) in responses {
        let headers = response["headers"].as_object().unwrap();
        let quota = ["RateLimit-Policy", "RateLimit"].map(|name| headers.contains_key(name));
        assert_eq!(quota, [status != "401"; 2], "{path}");
        let has = |name| !response["headers"][name].is_null();
        assert!(has("X-Request-Id"), "{path}");
        // Waiting does not help against the state of an order or a webhook.
        let of_order = ["put /api/order/{order_id} 409", "patch /api/order/{order_id} 409"];
        let withdrawn = "documents/{position} 409";
        let is_state = ["/test 409", "/cancel 409", withdrawn, of_order[0], of_order[1]];
        let is_state = is_state.iter().any(|conflict| path.ends_with(conflict))
            || status == "409" && is_of_browsers(&path);
        let waits = matches!(status, "409" | "429" | "503") && !is_state;
        assert_eq!(has("Retry-After"), waits, "{path}");
        assert_eq!(has("WWW-Authenticate"), matches!(status, "401" | "403"), "{path}");
        assert!(response["description"].as_str().is_some_and(|text| text.len() > 10), "{path}");
        let examples = &response["content"]["application/problem+json"]["examples"];
        assert_eq!(examples.is_object(), status >= "400", "{path}");
        for (name, example) in examples.as_object().into_iter().flatten() {
            assert_eq!(example["value"]["status"].to_string(), status, "{path} {name}");
        }
    }
}

#[test]
fn examples_match_their_schemas() {
    let examples = examples();
    assert!(examples.len() > 100, "checked only {} examples", examples.len());
    for (path, schema, example) in examples {
        assert_eq!(faults(&validator(schema), example), [""; 0], "{path}");
    }
}

#[test]
fn operations_have_summary_security_and_parameters() {
    let mut ids = BTreeSet::new();
    for (path, operation) in operations() {
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{path}");
        let is_of_webhooks = path.contains("/api/webhooks");
        let is_of_browsers = is_of_browsers(&path);
        assert!(operation["summary"].is_string() && operation["description"].is_string(), "{path}");
        let tag = match path.as_str() {
            _ if is_of_webhooks => "webhooks",
            _ if path.contains("/api/session") => "sessions",
            _ if path.contains("/api/people") => "people",
            _ if path.contains("/api/key") => "keys",
            "get /api/services" | "get /api/notaries" => "services",
            _ => "orders",
        };
        assert_eq!(operation["tags"], json!([tag]), "{path}");
        let security = match path.as_str() {
            "post /api/session/key" => json!([{ "api_key": [] }]),
            _ if path.contains("/api/session/") => json!([]),
            _ if is_of_browsers => json!([{ "cookieAuth": [] }]),
            _ => json!([{ "api_key": [] }]),
        };
        assert_eq!(operation["security"], security, "{path}");
        // By its file number, an order is changed or created.
        let is_put = path == "put /api/order";
        let mut names = BTreeSet::new();
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            assert!(names.insert(name), "{path} {name}");
            assert!(
                parameter["description"].is_string()
                    && !parameter["schema"]["examples"][0].is_null(),
                "{path} {name}"
            );
            let is_required = parameter["in"] == "path" || is_put && name == "file_number";
            assert_eq!(parameter["required"] == true, is_required, "{path} {name}");
        }
        let is_read = path.starts_with("get");
        // Twice is the same as once. So is withdrawing.
        let is_change = path.starts_with("put") && !is_put
            || path.starts_with("patch")
            || path.ends_with("/cancel");
        let is_intake = !is_read
            && !is_change
            && !is_of_webhooks
            && !is_of_browsers
            && !path.starts_with("delete");
        // What browsers read is kept nowhere, and has no versions.
        let has_versions = !is_of_browsers;
        assert_eq!(names.contains("If-None-Match"), has_versions && (is_read || is_put), "{path}");
        let creations = ["/create", "/create-with-documents", "post /api/webhooks"];
        let is_creation = creations.iter().any(|creation| path.ends_with(creation));
        let names_version = has_versions && !is_read && !is_creation;
        assert_eq!(names.contains("If-Match"), names_version, "{path}");
        let is_described = !operation["responses"]["412"].is_null();
        assert_eq!(is_described, !is_read, "{path}");
        assert_eq!(names.contains("Idempotency-Key"), is_intake, "{path}");
    }
}

#[test]
fn links_lead_to_parameters_of_operations() {
    let operations = operations();
    let mut linked = BTreeSet::new();
    for (path, _, response) in responses() {
        for (name, link) in response["links"].as_object().into_iter().flatten() {
            let target = operations.iter().find(|(_, it)| it["operationId"] == link["operationId"]);
            let (_, target) = target.unwrap_or_else(|| panic!("{path} {name}"));
            let parameters = target["parameters"].as_array().unwrap();
            for parameter in link["parameters"].as_object().unwrap().keys() {
                assert!(
                    parameters.iter().any(|it| it["name"] == parameter.as_str()),
                    "{path} {name} {parameter}"
                );
            }
            linked.insert(link["operationId"].as_str().unwrap());
        }
    }
    assert_eq!(linked.len(), 17, "{linked:?}");
}

#[test]
fn each_time_type_requires_its_fields() {
    let validator = validator(&json!({ "$ref": "#/components/schemas/SigningDetailsRequest" }));
    let body = &at("/paths")["/api/order/create"]["post"]["requestBody"]["content"];
    let example = &body["application/json"]["examples"]["between"]["value"];
    let mut details = example["signingDetailsFormData"].clone();
    details["specificTime"].take();
    assert!(validator.is_valid(&details));
    for absent in [Value::Null, json!(" ")] {
        details["endTime"] = absent;
        assert!(!validator.is_valid(&details));
    }
    details["signingTimeType"] = json!("anytime");
    assert!(validator.is_valid(&details));
    details["signingTimeType"] = json!("at");
    assert!(!validator.is_valid(&details));
    details["specificTime"] = json!("14:30");
    assert!(validator.is_valid(&details));
    details["signingTimeType"] = json!("soon");
    assert!(!validator.is_valid(&details));
}

#[test]
fn no_text_looks_like_a_key() {
    let text = DOCUMENT.to_string();
    for (at, _) in text.match_indices("nok_") {
        let after = text[at + 4..].trim_start_matches("test_");
        let digits = after.chars().take_while(char::is_ascii_hexdigit).count();
        assert!(digits < 16, "{}", &text[at..at + 40]);
    }
}
