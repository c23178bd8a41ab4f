//! Each rule of compatibility finds a breaking change and accepts its harmless neighbour.

use serde_json::{Value, json};

use crate::changes::breaking_changes;

const REQUEST: &str = "/paths/~1orders/post/requestBody/content/application~1json/schema";
const RESPONSE: &str = "/components/schemas/Order";
const OPERATION: &str = "/paths/~1orders/post";

fn document() -> Value {
    json!({
        "paths": { "/orders": { "post": {
            "operationId": "createOrder",
            "security": [{ "api_key": [] }],
            "parameters": [
                { "in": "header", "name": "Key", "schema": { "type": "string", "maxLength": 255 } },
                { "$ref": "#/components/parameters/Trace" }
            ],
            "requestBody": { "content": {
                "application/json": { "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": { "type": "string", "maxLength": 100, "minLength": 1 },
                        "fee": { "type": ["number", "null"], "maximum": 100, "minimum": 0 },
                        "kind": { "type": "string", "enum": ["at", "between"] },
                        "pages": {
                            "type": "array",
                            "items": { "type": "integer" },
                            "minItems": 1,
                            "maxItems": 20
                        },
                        "contact": {
                            "oneOf": [
                                { "type": "null" },
                                { "$ref": "#/components/schemas/Contact" }
                            ]
                        }
                    }
                } },
                "text/plain": {}
            } },
            "responses": {
                "201": {
                    "headers": {
                        "X-Request-Id": { "required": true, "schema": { "type": "string" } }
                    },
                    "content": {
                        "application/json": { "schema": { "$ref": "#/components/schemas/Order" } }
                    }
                },
                "409": { "content": {
                    "application/json": { "schema": { "$ref": "#/components/schemas/Problem" } }
                } }
            }
        } } },
        "components": {
            "parameters": {
                "Trace": { "in": "query", "name": "trace", "schema": { "type": "boolean" } }
            },
            "schemas": {
                "Contact": { "type": "object", "properties": { "email": { "type": "string" } } },
                "Order": {
                    "type": "object",
                    "required": ["id", "status"],
                    "properties": {
                        "id": { "type": "integer", "format": "int64" },
                        "status": { "type": "string", "enum": ["NEW"] },
                        "note": { "type": ["string", "null"] }
                    }
                },
                "Problem": {
                    "type": "object",
                    "required": ["code"],
                    "properties": { "code": { "type": "string", "enum": ["duplicate"] } }
                }
            },
            "securitySchemes": { "api_key": { "type": "http", "scheme": "bearer" } }
        }
    })
}

/// Changes the node at a JSON Pointer: `null` removes it, and an array grows by the new node.
fn changes(pointer: &str, node: &Value) -> Vec<String> {
    let mut current = document();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let name = name.replace("~1", "/");
    match current.pointer_mut(parent).unwrap_or_else(|| panic!("{parent}")) {
        Value::Array(list) => list.push(node.clone()),
        parent if node.is_null() => drop(parent.as_object_mut().unwrap().remove(&name)),
        parent => parent[name] = node.clone(),
    }
    assert_ne!(current, document(), "{pointer} changes nothing");
    breaking_changes(&document(), &current)
}

/// Tries changes below a pointer; each is harmless or is found as this one change.
#[track_caller]
fn expect(below: &str, cases: &[(&str, Value, Option<&str>)]) {
    for (pointer, node, expected) in cases {
        let found = changes(&format!("{below}{pointer}"), node);
        let expected: Vec<_> = expected.iter().collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{below}{pointer}: {node}");
    }
}

#[test]
fn same_document_has_no_changes() {
    assert_eq!(breaking_changes(&document(), &document()), [""; 0]);
}

#[test]
fn operation_keeps_path_method_and_name() {
    expect(
        "/paths",
        &[
            ("/~1orders", Value::Null, Some("POST /orders: gone")),
            ("/~1orders/post", Value::Null, Some("POST /orders: gone")),
            (
                "/~1orders/post/operationId",
                json!("create"),
                Some("POST /orders: operationId changed"),
            ),
            (
                "/~1orders/parameters",
                json!([{ "in": "query", "name": "q" }]),
                Some("/orders: parameters outside of the operation changed"),
            ),
            ("/~1keys", json!({ "get": {} }), None),
            ("/~1orders/get", json!({}), None),
            ("/~1orders/post/summary", json!("Creates an order."), None),
        ],
    );
}

#[test]
fn accepted_credentials_stay_accepted() {
    let changed = Some("POST /orders: security changed");
    expect(
        OPERATION,
        &[
            ("/security", json!([{ "api_key": ["orders"] }]), changed),
            ("/security", json!([{ "api_key": [], "certificate": [] }]), changed),
            ("/security", json!([{ "certificate": [] }, { "api_key": [] }]), None),
        ],
    );
    let scheme_changed = Some("security scheme api_key: changed");
    expect(
        "/components/securitySchemes",
        &[
            ("/api_key", Value::Null, scheme_changed),
            ("/api_key/scheme", json!("basic"), scheme_changed),
            ("/certificate", json!({ "type": "mutualTLS" }), None),
        ],
    );
    expect("", &[("/security", json!([{ "api_key": [] }]), Some("document: security changed"))]);
    let mut open = document();
    open.pointer_mut(OPERATION).unwrap().as_object_mut().unwrap().remove("security");
    assert_eq!(breaking_changes(&open, &document()), ["POST /orders: security changed"]);
}

#[test]
fn new_parameters_are_optional() {
    let parameter = |required| {
        let schema = json!({ "type": "string" });
        json!({ "in": "header", "name": "New", "required": required, "schema": schema })
    };
    expect(
        OPERATION,
        &[
            ("/parameters/2", parameter(true), Some("POST /orders header New: new and required")),
            ("/parameters/2", parameter(false), None),
            (
                "/parameters",
                json!([{ "$ref": "#/components/parameters/Trace" }]),
                Some("POST /orders header Key: gone"),
            ),
            (
                "/parameters/0/schema/maxLength",
                json!(64),
                Some("POST /orders header Key: maxLength changed"),
            ),
        ],
    );
    expect(
        "/components/parameters/Trace",
        &[
            ("/required", json!(true), Some("POST /orders query trace: now required")),
            ("/schema/type", json!("integer"), Some("POST /orders query trace: type changed")),
        ],
    );
}

#[test]
fn request_keeps_its_fields_and_media_types() {
    expect(
        &format!("{OPERATION}/requestBody"),
        &[
            ("/required", json!(true), Some("POST /orders request: now required")),
            ("/content/text~1plain", Value::Null, Some("POST /orders request text/plain: gone")),
            ("/content/application~1xml", json!({}), None),
        ],
    );
    let required_changed = Some("POST /orders request application/json: required changed");
    expect(
        REQUEST,
        &[
            (
                "/properties/fee",
                Value::Null,
                Some("POST /orders request application/json/fee: gone"),
            ),
            ("/required", json!(["file", "fee"]), required_changed),
            ("/required", json!(["file", "new"]), required_changed),
            ("/required", Value::Null, None),
            ("/properties/new", json!({ "type": "string", "maxLength": 1 }), None),
            (
                "/additionalProperties",
                json!(false),
                Some("POST /orders request application/json: additionalProperties changed"),
            ),
            (
                "/allOf",
                json!([{ "if": { "required": ["fee"] }, "then": { "required": ["kind"] } }]),
                Some("POST /orders request application/json: allOf changed"),
            ),
        ],
    );
}

#[test]
fn request_accepts_earlier_types_and_values() {
    let changed = |change: &str| Some(format!("POST /orders request application/json/{change}"));
    for (pointer, node, expected) in [
        ("file/type", json!("integer"), changed("file: type changed")),
        ("file/type", json!(["string", "null"]), None),
        ("file/type", Value::Null, None),
        ("file/enum", json!(["A"]), changed("file: enum changed")),
        ("fee/type", json!("number"), changed("fee: type changed")),
        ("fee/type", json!(["integer", "null"]), changed("fee: type changed")),
        ("pages/items/type", json!("string"), changed("pages/items: type changed")),
        ("pages/items/type", json!("number"), None),
        ("contact/oneOf", json!([{ "type": "null" }]), changed("contact: oneOf changed")),
        ("contact/oneOf/0/type", json!("string"), changed("contact: type changed")),
        ("kind/enum", json!(["at"]), changed("kind: enum changed")),
        ("kind/enum", json!(["anytime", "between", "at"]), None),
        ("kind/enum", Value::Null, None),
        ("kind/const", json!("at"), changed("kind: const changed")),
        ("kind/description", json!("When."), None),
    ] {
        expect(&format!("{REQUEST}/properties/"), &[(pointer, node, expected.as_deref())]);
    }
    expect(
        "/components/schemas/Contact",
        &[(
            "/properties/email",
            Value::Null,
            Some("POST /orders request application/json/contact/email: gone"),
        )],
    );
}

#[test]
fn request_limits_become_no_tighter() {
    for (property, limit, tighter, looser) in [
        ("file", "maxLength", 99, 101),
        ("file", "minLength", 2, 0),
        ("fee", "maximum", 99, 101),
        ("fee", "minimum", 1, -1),
        ("pages", "maxItems", 19, 21),
        ("pages", "minItems", 2, 0),
    ] {
        let changed = format!("POST /orders request application/json/{property}: {limit} changed");
        let pointer = format!("/properties/{property}/{limit}");
        expect(
            REQUEST,
            &[
                (&pointer, json!(tighter), Some(changed.as_str())),
                (&pointer, json!(looser), None),
                (&pointer, Value::Null, None),
            ],
        );
    }
    for (keyword, value) in [
        ("maxLength", json!(20)),
        ("pattern", json!("^a")),
        ("format", json!("date")),
        ("multipleOf", json!(2)),
        ("contentMediaType", json!("application/json")),
    ] {
        let changed = format!("POST /orders request application/json/kind: {keyword} changed");
        let pointer = format!("/properties/kind/{keyword}");
        expect(REQUEST, &[(&pointer, value, Some(changed.as_str()))]);
    }
}

#[test]
fn response_keeps_its_fields_and_headers() {
    expect(
        &format!("{OPERATION}/responses"),
        &[
            ("/201", Value::Null, Some("POST /orders 201: gone")),
            ("/409", Value::Null, None),
            ("/422", json!({}), None),
            (
                "/201/content/application~1json",
                Value::Null,
                Some("POST /orders 201 application/json: gone"),
            ),
            ("/201/content/application~1xml", json!({}), None),
            (
                "/201/headers/X-Request-Id",
                Value::Null,
                Some("POST /orders 201 header X-Request-Id: gone"),
            ),
            (
                "/201/headers/X-Request-Id/required",
                json!(false),
                Some("POST /orders 201 header X-Request-Id: now optional"),
            ),
            ("/201/headers/Idempotency-Replayed", json!({}), None),
        ],
    );
    expect(
        RESPONSE,
        &[
            ("/properties/note", Value::Null, Some("POST /orders 201 application/json/note: gone")),
            ("/properties/new", json!({ "type": "string" }), None),
            (
                "/required",
                json!(["id"]),
                Some("POST /orders 201 application/json: required changed"),
            ),
            ("/required", json!(["id", "note", "status"]), None),
        ],
    );
}

#[test]
fn response_has_no_new_types_or_values() {
    let changed = |change: &str| Some(format!("POST /orders 201 application/json/{change}"));
    for (pointer, node, expected) in [
        ("id/type", json!(["integer", "null"]), changed("id: type changed")),
        ("id/type", json!("number"), changed("id: type changed")),
        ("id/type", Value::Null, changed("id: type changed")),
        ("id/format", json!("int32"), changed("id: format changed")),
        ("status/enum", json!(["NEW", "DONE"]), changed("status: enum changed")),
        ("status/enum", Value::Null, changed("status: enum changed")),
        ("note/type", json!("string"), None),
        ("note/maxLength", json!(10), None),
    ] {
        expect(&format!("{RESPONSE}/properties/"), &[(pointer, node, expected.as_deref())]);
    }
}

#[test]
fn problems_may_have_new_codes() {
    let changed = "POST /orders 409 application/json/code: enum changed";
    expect(
        "/components/schemas/Problem/properties/code",
        &[
            ("/enum", json!(["duplicate", "in_flight"]), None),
            ("/enum", json!(["in_flight"]), Some(changed)),
        ],
    );
}
