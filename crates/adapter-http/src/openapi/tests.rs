//! Checks that the document is complete and consistent.

use std::collections::BTreeSet;

use domain::{document::DocumentLimits, duplicate_window::DuplicateWindow};
use serde_json::{Map, Value, json};
use time::Duration;

use super::OpenApiSettings;
use crate::problem::ProblemCode;

pub(super) fn document() -> Value {
    serde_json::to_value(super::document(&OpenApiSettings::default())).unwrap()
}

/// Returns what a `$ref` names, or the value itself.
pub(super) fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(name) => document
            .pointer(name.strip_prefix('#').unwrap())
            .unwrap_or_else(|| panic!("{name} is not in the document")),
        None => value,
    }
}

/// Visits every value of the document with its JSON Pointer. Skips examples, which are data.
fn walk<'a>(path: &str, value: &'a Value, visit: &mut impl FnMut(&str, &'a Value)) {
    visit(path, value);
    let inside = |name: &str| format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
    match value {
        Value::Object(members) => {
            for (name, member) in
                members.iter().filter(|(name, _)| !matches!(name.as_str(), "example" | "examples"))
            {
                walk(&inside(name), member, visit);
            }
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(at, item)| walk(&inside(&at.to_string()), item, visit)),
        _ => {}
    }
}

fn schemas(document: &Value) -> &Map<String, Value> {
    document["components"]["schemas"].as_object().unwrap()
}

fn properties(document: &Value) -> Vec<(String, &Value)> {
    let named = |(schema, body): (&String, &'_ Value)| {
        let properties = body["properties"]
            .as_object()
            .unwrap_or_else(|| panic!("{schema} has no properties"))
            .clone();
        properties
            .keys()
            .map(|name| format!("/components/schemas/{schema}/properties/{name}"))
            .collect::<Vec<_>>()
    };
    let paths: Vec<_> = schemas(document).iter().flat_map(named).collect();
    paths.into_iter().map(|path| (path.clone(), document.pointer(&path).unwrap())).collect()
}

/// Returns the schema of a property without its alternative `null`.
fn without_null(property: &Value) -> &Value {
    property["oneOf"]
        .as_array()
        .map_or(property, |kinds| kinds.iter().find(|kind| kind["type"] != "null").unwrap())
}

/// Returns every operation with its method and path.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            found.push((format!("{method} {path}"), operation));
        }
    }
    found
}

/// Returns every response with its status.
fn responses(document: &Value) -> Vec<(String, &str, &Value)> {
    let mut found = Vec::new();
    for (name, operation) in operations(document) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            found.push((format!("{name} {status}"), status.as_str(), resolve(document, response)));
        }
    }
    found
}

/// Returns every example with its schema.
fn examples(document: &Value) -> Vec<(String, Value, Value)> {
    let mut found = Vec::new();
    walk("", document, &mut |path, value| {
        let schema = if value["schema"].is_object() { &value["schema"] } else { value };
        let mut add = |name: &str, example: &Value| {
            found.push((format!("{path}{name}"), schema.clone(), example.clone()));
        };
        if let Some(example) = value.get("example") {
            add("/example", example);
        }
        match value.get("examples") {
            Some(Value::Array(examples)) => {
                for example in examples {
                    add("/examples", example);
                }
            }
            Some(Value::Object(examples)) if path != "/components" => {
                for (name, example) in examples {
                    add(&format!("/examples/{name}"), &example["value"]);
                }
            }
            _ => {}
        }
    });
    found
}

#[test]
fn every_property_has_description_limit_and_example() {
    let document = document();
    let mut found = 0;
    for (path, property) in properties(&document) {
        let property = without_null(property);
        assert!(
            property["description"].as_str().is_some_and(|text| text.len() > 10),
            "{path} has no description"
        );
        if property["$ref"].is_string() {
            continue;
        }
        let kinds =
            property["type"].as_array().cloned().unwrap_or_else(|| vec![property["type"].clone()]);
        let limits: &[&str] =
            match kinds[0].as_str().unwrap_or_else(|| panic!("{path} has no type")) {
                "string" => &["maxLength", "pattern", "enum", "format"],
                "integer" | "number" => &["maximum"],
                "array" => &["maxItems"],
                "boolean" => &["type"],
                other => panic!("{path} is {other}"),
            };
        assert!(limits.iter().any(|limit| !property[limit].is_null()), "{path} has no limit");
        let described = property.get("example").is_some()
            || property["items"]["$ref"].is_string()
            || property["items"]["format"] == "binary";
        assert!(described, "{path} has no example");
        found += 1;
    }
    assert!(found > 80, "checked only {found} properties");
}

#[test]
fn optional_request_fields_may_be_null_and_blank() {
    let document = document();
    for (path, property) in
        properties(&document).into_iter().filter(|(path, _)| path.contains("Request/"))
    {
        let schema = path.split('/').nth(3).unwrap();
        let name = path.rsplit('/').next().unwrap();
        let required = schemas(&document)[schema]["required"]
            .as_array()
            .is_some_and(|required| required.contains(&json!(name)));
        let mut whole = property.clone();
        whole["components"] = document["components"].clone();
        let validator = jsonschema::validator_for(&whole).unwrap();
        assert_eq!(validator.is_valid(&Value::Null), !required, "{path}");
        if property["type"].as_array().is_some_and(|kinds| kinds.contains(&json!("string")))
            || property["type"] == "string"
        {
            assert_eq!(
                validator.is_valid(&json!(" \t")),
                !required || property["format"] == "date",
                "{path}"
            );
        }
    }
}

#[test]
fn responses_have_headers_and_problem_examples() {
    let document = document();
    let responses = responses(&document);
    assert!(responses.len() > 70, "{}", responses.len());
    for (path, status, response) in responses {
        let is_document = response["content"]["application/pdf"].is_object();
        let is_page = response["description"].as_str().unwrap().starts_with("A page of ");
        let is_of_webhooks = path.contains("/api/webhooks");
        let is_read = path.starts_with("get ");
        let mut expected = BTreeSet::from(["X-Request-Id"]);
        if status != "401" {
            expected.extend(["RateLimit", "RateLimit-Policy"]);
        }
        expected.extend(match status {
            "200" | "206" | "304" if is_read => &["ETag", "Cache-Control"][..],
            "201" if is_of_webhooks => &["Location"],
            "201" => &["Idempotency-Replayed"],
            "401" | "403" => &["WWW-Authenticate"],
            "409" if path.contains("/test ") => &[],
            "409" | "429" | "503" => &["Retry-After"],
            "416" => &["Content-Range"],
            _ => &[],
        });
        if is_document {
            expected.extend([
                "Content-Disposition",
                "Accept-Ranges",
                "Repr-Digest",
                "Content-Security-Policy",
            ]);
        }
        expected.extend((status == "206").then_some("Content-Range"));
        expected.extend(is_page.then_some("Link"));
        let headers = response["headers"].as_object().unwrap();
        assert_eq!(headers.keys().map(String::as_str).collect::<BTreeSet<_>>(), expected, "{path}");
        for (name, header) in headers {
            let header = resolve(&document, header);
            assert!(
                header["description"].is_string() && !header["example"].is_null(),
                "{path} {name}"
            );
        }
        assert!(response["description"].as_str().is_some_and(|text| text.len() > 10), "{path}");
        if status.starts_with('4') || status.starts_with('5') {
            let examples = response["content"]["application/problem+json"]["examples"]
                .as_object()
                .unwrap_or_else(|| panic!("{path} has no examples"));
            for (name, example) in examples {
                assert_eq!(example["value"]["status"].to_string(), status, "{path} {name}");
            }
        }
    }
}

#[test]
fn examples_match_their_schemas() {
    let document = document();
    let examples = examples(&document);
    assert!(examples.len() > 100, "checked only {} examples", examples.len());
    for (path, schema, example) in examples {
        let mut whole = schema;
        whole["components"] = document["components"].clone();
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .build(&whole)
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        let faults: Vec<_> = validator
            .iter_errors(&example)
            .map(|error| format!("{} {error}", error.instance_path()))
            .collect();
        assert!(faults.is_empty(), "{path}: {faults:?}");
    }
}

#[test]
fn every_problem_code_has_an_example() {
    let document = document();
    let mut shown = BTreeSet::new();
    for (_, _, response) in responses(&document) {
        for (_, example) in response["content"]["application/problem+json"]["examples"]
            .as_object()
            .into_iter()
            .flatten()
        {
            shown.insert(example["value"]["code"].as_str().unwrap().to_owned());
        }
    }
    let expected: BTreeSet<_> = ProblemCode::ALL
        .iter()
        .filter(|code| **code != ProblemCode::MethodNotAllowed)
        .map(|code| code.as_str().to_owned())
        .collect();
    assert_eq!(shown, expected);
}

#[test]
fn operations_have_summary_security_and_parameters() {
    let document = document();
    let mut ids = BTreeSet::new();
    for (path, operation) in operations(&document) {
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{path}");
        let is_of_webhooks = path.contains("/api/webhooks");
        assert!(operation["summary"].is_string() && operation["description"].is_string(), "{path}");
        let tag = if is_of_webhooks { "webhooks" } else { "orders" };
        assert_eq!(operation["tags"], json!([tag]), "{path}");
        assert_eq!(operation["security"], json!([{ "api_key": [] }]), "{path}");
        let mut names = BTreeSet::new();
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            assert!(names.insert(name), "{path} {name}");
            assert!(
                parameter["description"].is_string()
                    && !parameter["schema"]["examples"][0].is_null(),
                "{path} {name}"
            );
            assert_eq!(parameter["required"] == true, parameter["in"] == "path", "{path} {name}");
        }
        let (is_read, is_of_order) = (path.starts_with("get"), !is_of_webhooks);
        assert_eq!(names.contains("If-None-Match"), is_read, "{path}");
        assert_eq!(names.contains("Idempotency-Key"), is_of_order && !is_read, "{path}");
    }
}

#[test]
fn links_lead_to_parameters_of_operations() {
    let document = document();
    let operations = operations(&document);
    let mut linked = BTreeSet::new();
    for (path, _, response) in responses(&document) {
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
    assert_eq!(
        linked,
        BTreeSet::from([
            "changeWebhook",
            "deleteWebhook",
            "listDocuments",
            "listOrders",
            "listWebhookDeliveries",
            "readDocument",
            "readOrder",
            "readWebhook",
            "replayWebhookDeliveries",
            "replayWebhookDelivery",
            "rotateWebhookSecret",
            "testWebhook",
        ])
    );
}

#[test]
fn every_form_part_has_an_encoding() {
    let document = document();
    let operation = &document["paths"]["/api/order/create-with-documents"]["post"];
    let form = &operation["requestBody"]["content"]["multipart/form-data"];
    let parts: BTreeSet<_> =
        resolve(&document, &form["schema"])["properties"].as_object().unwrap().keys().collect();
    let encodings = form["encoding"].as_object().unwrap();
    assert_eq!(encodings.keys().collect::<BTreeSet<_>>(), parts);
    assert!(
        encodings.values().all(|encoding| encoding["contentType"]
            .as_str()
            .is_some_and(|kind| kind.contains('/')))
    );
}

#[test]
fn each_time_type_requires_its_fields() {
    let document = document();
    let whole = json!({
        "$ref": "#/components/schemas/SigningDetailsRequest",
        "components": document["components"]
    });
    let validator = jsonschema::validator_for(&whole).unwrap();
    let body = &document["paths"]["/api/order/create"]["post"]["requestBody"]["content"];
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
fn patterns_match_the_rules_of_the_domain() {
    let document = document();
    let property = |name: &str| {
        let schema = document
            .pointer(&format!("/components/schemas/SigningDetailsRequest/properties/{name}"))
            .unwrap();
        jsonschema::options().should_validate_formats(true).build(schema).unwrap()
    };
    let cases = [
        ("signerPhone", "(+1) 555-010-0199, ext. 12", true),
        ("signerPhone", " 5550100199#44\n", true),
        ("signerPhone", "555010", false),
        ("signerPhone", "555+0100199", false),
        ("signerPhone", "555-010-0199 e5", false),
        ("signerEmail", "jane.o'doe+x@title.example.com", true),
        ("signerEmail", "a..b@example.com", false),
        ("signerEmail", "jane@-example.com", false),
        ("signerEmail", "jane@[192.0.2.1]", false),
        ("specificTime", "23:59", true),
        ("specificTime", "24:00", false),
        ("state", "tx", true),
        ("state", "Texas", false),
        ("zipcode", "75201-1234", false),
        ("signerName", "\u{a0}Zo\u{eb} ", true),
        ("signerName", "\u{a0} ", false),
        ("spouseName", "John Doe\n", true),
        ("signerName", "Zo\u{eb}\nDoe", false),
        ("signerName", "Jane\u{200b} Doe", false),
        ("spouseName", "Jane\u{202e} Doe", false),
        ("spouseName", "Jane\u{e0041} Doe", false),
        ("signerName", "\u{feff}", false),
        ("signerName", "\u{639}\u{644}\u{6cc}\u{200c}\u{631}\u{636}\u{627}", true),
        ("specialInstructions", "Ring.\r\n\tTwice.", true),
        ("specialInstructions", "Ring.\u{0}", false),
    ];
    for (name, text, valid) in cases {
        assert_eq!(property(name).is_valid(&json!(text)), valid, "{name}: {text:?}");
    }
}

#[test]
fn no_text_looks_like_a_key() {
    let text = document().to_string();
    for (at, _) in text.match_indices("nok_") {
        let after = text[at + 4..].trim_start_matches("test_");
        let digits = after.chars().take_while(char::is_ascii_hexdigit).count();
        assert!(digits < 16, "{}", &text[at..at + 40]);
    }
}

#[test]
fn published_document_is_current() {
    let current = format!(
        "{}\n",
        serde_json::to_string_pretty(&super::document(&OpenApiSettings::default())).unwrap()
    );
    let copy =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json"))
            .unwrap_or_default();
    assert!(current == copy, "docs/openapi.json is outdated: run `just openapi`");
}

#[test]
fn document_states_the_settings() {
    let document = serde_json::to_value(super::document(&OpenApiSettings {
        base_path: "/signing".to_owned(),
        limits: DocumentLimits { max_count: 7, max_bytes: 3 * 1024 * 1024 },
        duplicate_window: DuplicateWindow(Duration::seconds(90)),
        idempotency_retention: Duration::hours(2),
    }))
    .unwrap();
    let operation = &document["paths"]["/api/order/create-with-documents"]["post"];
    let problem = |status: &str, name: &str| {
        let response = resolve(&document, &operation["responses"][status]);
        response["content"]["application/problem+json"]["examples"][name]["value"]["detail"].clone()
    };
    let documents = &document["components"]["schemas"]["OrderForm"]["properties"]["documents"];
    assert_eq!(document["servers"][0]["url"], "/signing");
    assert_eq!(documents["maxItems"], 7);
    for (text, expected) in [
        (&operation["description"], "1 to 7 files"),
        (&documents["description"], "1 to 7 files of at most 3 MiB"),
        (&problem("400", "too_many_documents"), "at most 7 documents"),
        (&problem("413", "document_too_large"), "larger than 3145728 bytes"),
        (&document["components"]["responses"]["Conflict"]["description"], "90 seconds ago"),
        (&operation["parameters"][0]["description"], "for 2 hours"),
    ] {
        assert!(text.as_str().unwrap().contains(expected), "{text} should contain {expected}");
    }
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["DocumentsForm"]["properties"]["documents"]["maxItems"], 7);
    assert_eq!(schemas["AddedDocuments"]["properties"]["documents"]["maxItems"], 7);
}
