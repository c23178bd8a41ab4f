//! Each rule of compatibility finds a breaking change and accepts its harmless neighbour.

use serde_json::{Value, json};

use super::changes::breaking_changes;

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
                        "note": { "type": ["string", "null"], "x-extensible-enum": ["a"] }
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
fn changes(pointer: &str, node: &str) -> Vec<String> {
    let (mut current, node): (_, Value) = (document(), serde_json::from_str(node).unwrap());
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let name = name.replace("~1", "/");
    match current.pointer_mut(parent).unwrap_or_else(|| panic!("{parent}")) {
        Value::Array(list) => list.push(node),
        parent if node.is_null() => drop(parent.as_object_mut().unwrap().remove(&name)),
        parent => parent[name] = node,
    }
    assert_ne!(current, document(), "{pointer} changes nothing");
    breaking_changes(&document(), &current)
}

/// Tries changes below a pointer: each of the first breaks clients, and none of the others does.
#[track_caller]
fn expect(below: &str, breaking: &[(&str, &str)], harmless: &[(&str, &str)]) {
    for (cases, count) in [(breaking, 1), (harmless, 0)] {
        for (pointer, node) in cases {
            let found = changes(&format!("{below}{pointer}"), node);
            assert_eq!(found.len(), count, "{below}{pointer}: {node}: {found:?}");
        }
    }
}

#[test]
fn same_document_has_no_changes() {
    assert_eq!(breaking_changes(&document(), &document()), [""; 0]);
}

#[test]
fn change_is_named_with_its_location() {
    let properties = format!("{REQUEST}/properties");
    for (pointer, node, expected) in [
        ("/paths/~1orders", "null", "POST /orders: gone"),
        ("/components/parameters/Trace/required", "true", "POST /orders query trace: now required"),
        (&format!("{properties}/fee"), "null", "POST /orders request application/json/fee: gone"),
        (
            &format!("{properties}/contact/oneOf/0/type"),
            r#""string""#,
            "POST /orders request application/json/contact: type changed",
        ),
        (
            &format!("{RESPONSE}/required"),
            "[]",
            "POST /orders 201 application/json: required changed",
        ),
    ] {
        assert_eq!(changes(pointer, node), [expected]);
    }
}

#[test]
fn operation_keeps_path_method_and_name() {
    expect(
        "/paths",
        &[
            ("/~1orders", "null"),
            ("/~1orders/post", "null"),
            ("/~1orders/post/operationId", r#""create""#),
            ("/~1orders/parameters", r#"[{ "in": "query", "name": "q" }]"#),
        ],
        &[
            ("/~1keys", r#"{ "get": {} }"#),
            ("/~1orders/get", "{}"),
            ("/~1orders/post/summary", r#""Creates an order.""#),
        ],
    );
}

#[test]
fn accepted_credentials_stay_accepted() {
    expect(
        OPERATION,
        &[
            ("/security", r#"[{ "api_key": ["orders"] }]"#),
            ("/security", r#"[{ "api_key": [], "certificate": [] }]"#),
        ],
        &[("/security", r#"[{ "certificate": [] }, { "api_key": [] }]"#)],
    );
    expect(
        "/components/securitySchemes",
        &[("/api_key", "null"), ("/api_key/scheme", r#""basic""#)],
        &[("/certificate", r#"{ "type": "mutualTLS" }"#)],
    );
    expect("", &[("/security", r#"[{ "api_key": [] }]"#)], &[]);
    let mut open = document();
    open.pointer_mut(OPERATION).unwrap().as_object_mut().unwrap().remove("security");
    assert_eq!(breaking_changes(&open, &document()), ["POST /orders: security changed"]);
}

#[test]
fn new_parameters_are_optional() {
    expect(
        OPERATION,
        &[
            ("/parameters/2", r#"{ "in": "header", "name": "New", "required": true }"#),
            ("/parameters", r##"[{ "$ref": "#/components/parameters/Trace" }]"##),
            ("/parameters/0/schema/maxLength", "64"),
        ],
        &[("/parameters/2", r#"{ "in": "header", "name": "New", "required": false }"#)],
    );
    let trace = "/components/parameters/Trace";
    expect(trace, &[("/required", "true"), ("/schema/type", r#""integer""#)], &[]);
}

#[test]
fn request_keeps_its_fields_and_media_types() {
    expect(
        &format!("{OPERATION}/requestBody"),
        &[("/required", "true"), ("/content/text~1plain", "null")],
        &[("/content/application~1xml", "{}")],
    );
    expect(
        REQUEST,
        &[
            ("/properties/fee", "null"),
            ("/required", r#"["file", "fee"]"#),
            ("/required", r#"["file", "new"]"#),
            ("/additionalProperties", "false"),
            ("/allOf", r#"[{ "if": { "required": ["fee"] }, "then": { "required": ["kind"] } }]"#),
        ],
        &[("/required", "null"), ("/properties/new", r#"{ "type": "string", "maxLength": 1 }"#)],
    );
}

#[test]
fn request_accepts_earlier_types_and_values() {
    expect(
        &format!("{REQUEST}/properties/"),
        &[
            ("file/type", r#""integer""#),
            ("file/enum", r#"["A"]"#),
            ("fee/type", r#""number""#),
            ("fee/type", r#"["integer", "null"]"#),
            ("pages/items/type", r#""string""#),
            ("contact/oneOf", r#"[{ "type": "null" }]"#),
            ("contact/oneOf/0/type", r#""string""#),
            ("kind/enum", r#"["at"]"#),
            ("kind/const", r#""at""#),
        ],
        &[
            ("file/type", r#"["string", "null"]"#),
            ("file/type", "null"),
            ("pages/items/type", r#""number""#),
            ("kind/enum", r#"["anytime", "between", "at"]"#),
            ("kind/enum", "null"),
            ("kind/description", r#""When.""#),
        ],
    );
    expect("/components/schemas/Contact", &[("/properties/email", "null")], &[]);
}

#[test]
fn request_limits_become_no_tighter() {
    for (limit, tighter, looser) in [
        ("file/maxLength", "99", "101"),
        ("file/minLength", "2", "0"),
        ("fee/maximum", "99", "101"),
        ("fee/minimum", "1", "-1"),
        ("pages/maxItems", "19", "21"),
        ("pages/minItems", "2", "0"),
    ] {
        let properties = format!("{REQUEST}/properties/");
        expect(&properties, &[(limit, tighter)], &[(limit, looser), (limit, "null")]);
    }
    expect(
        &format!("{REQUEST}/properties/kind/"),
        &[
            ("maxLength", "20"),
            ("pattern", r#""^a""#),
            ("format", r#""date""#),
            ("multipleOf", "2"),
            ("contentMediaType", r#""application/json""#),
        ],
        &[],
    );
}

#[test]
fn response_keeps_its_fields_and_headers() {
    expect(
        &format!("{OPERATION}/responses"),
        &[
            ("/201", "null"),
            ("/201/content/application~1json", "null"),
            ("/201/headers/X-Request-Id", "null"),
            ("/201/headers/X-Request-Id/required", "false"),
        ],
        &[
            ("/409", "null"),
            ("/422", "{}"),
            ("/201/content/application~1xml", "{}"),
            ("/201/headers/Idempotency-Replayed", "{}"),
        ],
    );
    expect(
        RESPONSE,
        &[("/properties/note", "null"), ("/required", r#"["id"]"#)],
        &[
            ("/properties/new", r#"{ "type": "string" }"#),
            ("/required", r#"["id", "note", "status"]"#),
        ],
    );
}

#[test]
fn response_has_no_new_types_or_values() {
    expect(
        &format!("{RESPONSE}/properties/"),
        &[
            ("id/type", r#"["integer", "null"]"#),
            ("id/type", r#""number""#),
            ("id/type", "null"),
            ("id/format", r#""int32""#),
            ("status/enum", r#"["NEW", "DONE"]"#),
            ("status/enum", "null"),
        ],
        &[
            ("note/type", r#""string""#),
            ("note/maxLength", "10"),
            ("note/x-extensible-enum", r#"["a", "b"]"#),
        ],
    );
}

#[test]
fn problems_may_have_new_codes() {
    expect(
        "/components/schemas/Problem/properties/code",
        &[("/enum", r#"["in_flight"]"#)],
        &[("/enum", r#"["duplicate", "in_flight"]"#)],
    );
}
