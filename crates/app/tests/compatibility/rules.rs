//! Each rule of compatibility catches what breaks, and not its harmless neighbour.

use serde_json::{Value, json};

use crate::documents::breaking_changes;

const REQUEST: &str = "/paths/~1orders/post/requestBody/content/application~1json/schema";
const ANSWER: &str = "/components/schemas/Order";
const OPERATION: &str = "/paths/~1orders/post";

fn document() -> Value {
    json!({
        "paths": { "/orders": {
            "parameters": [{ "$ref": "#/components/parameters/Trace" }],
            "post": {
                "operationId": "createOrder",
                "security": [{ "api_key": [] }],
                "parameters": [{ "in": "header", "name": "Idempotency-Key", "schema": { "type": "string", "maxLength": 255 } }],
                "requestBody": { "content": {
                    "application/json": { "schema": {
                        "type": "object",
                        "required": ["file"],
                        "properties": {
                            "file": { "type": "string", "maxLength": 100, "minLength": 1 },
                            "fee": { "type": ["number", "null"], "maximum": 100, "minimum": 0 },
                            "kind": { "type": "string", "enum": ["at", "between"] },
                            "pages": { "type": "array", "items": { "type": "integer" }, "minItems": 1, "maxItems": 20 },
                            "contact": { "oneOf": [{ "type": "null" }, { "$ref": "#/components/schemas/Contact" }] },
                            "place": { "oneOf": [{ "type": "string" }, { "type": "integer" }] }
                        }
                    } },
                    "text/plain": {}
                } },
                "responses": {
                    "201": {
                        "headers": { "X-Request-Id": { "required": true, "schema": { "type": "string" } } },
                        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Order" } } }
                    },
                    "409": { "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } } }
                }
            }
        } },
        "components": {
            "parameters": { "Trace": { "in": "query", "name": "trace", "schema": { "type": "boolean" } } },
            "schemas": {
                "Contact": { "type": "object", "properties": { "email": { "type": "string" } } },
                "Order": {
                    "type": "object",
                    "required": ["id", "status"],
                    "properties": {
                        "id": { "type": "integer", "format": "int64" },
                        "status": { "type": "string", "enum": ["NEW"] },
                        "note": { "type": ["string", "null"] },
                        "place": { "oneOf": [{ "type": "string" }, { "type": "integer" }] }
                    }
                },
                "Problem": { "type": "object", "required": ["code"], "properties": { "code": { "type": "string", "enum": ["duplicate"] } } }
            },
            "securitySchemes": { "api_key": { "type": "http", "scheme": "bearer" } }
        }
    })
}

/// The changes that are found when this node is put at this place, or taken away if it is null.
fn changes(pointer: &str, node: Value) -> Vec<String> {
    let mut current = document();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let name = name.replace("~1", "/");
    match current.pointer_mut(parent).unwrap_or_else(|| panic!("{parent}")) {
        Value::Array(list) => list.push(node),
        parent if node.is_null() => assert!(
            parent.as_object_mut().unwrap().remove(&name).is_some(),
            "{pointer} was not there"
        ),
        parent => parent[name] = node,
    }
    assert_ne!(current, document(), "{pointer} changes nothing");
    breaking_changes(&document(), &current)
}

#[track_caller]
fn breaks(pointer: &str, node: Value, expected: &str) {
    assert_eq!(changes(pointer, node), [expected]);
}

#[track_caller]
fn passes(pointer: &str, node: Value) {
    assert_eq!(changes(pointer, node), [""; 0]);
}

#[test]
fn what_stays_as_it_is_breaks_nobody() {
    assert_eq!(breaking_changes(&document(), &document()), [""; 0]);
}

#[test]
fn operations_may_come_but_not_go_or_be_renamed() {
    breaks("/paths/~1orders", Value::Null, "POST /orders: gone");
    breaks(OPERATION, Value::Null, "POST /orders: gone");
    breaks(
        &format!("{OPERATION}/operationId"),
        json!("create"),
        "POST /orders: another operationId, which names the operation in generated code",
    );
    passes("/paths/~1keys", json!({ "get": {} }));
    passes("/paths/~1orders/get", json!({}));
    passes(&format!("{OPERATION}/summary"), json!("Creates an order."));
}

#[test]
fn credentials_that_were_good_stay_good() {
    breaks("/components/securitySchemes/api_key", Value::Null, "security scheme api_key: gone");
    breaks(
        "/components/securitySchemes/api_key/scheme",
        json!("basic"),
        "security scheme api_key: another one",
    );
    breaks(
        &format!("{OPERATION}/security"),
        json!([{ "api_key": ["orders"] }]),
        "POST /orders: asks for other credentials",
    );
    breaks(
        &format!("{OPERATION}/security"),
        json!([{ "api_key": [], "certificate": [] }]),
        "POST /orders: asks for other credentials",
    );
    passes(&format!("{OPERATION}/security"), json!([{ "certificate": [] }, { "api_key": [] }]));
    passes(&format!("{OPERATION}/security"), json!([]));
    passes("/components/securitySchemes/certificate", json!({ "type": "mutualTLS" }));

    let (mut open, mut closed) = (document(), document());
    open.pointer_mut(OPERATION).unwrap().as_object_mut().unwrap().remove("security");
    closed["security"] = json!([{ "api_key": [] }]);
    closed.pointer_mut(OPERATION).unwrap().as_object_mut().unwrap().remove("security");
    assert_eq!(breaking_changes(&open, &closed), ["POST /orders: asks for other credentials"]);
    assert_eq!(breaking_changes(&closed, &open), [""; 0]);
}

#[test]
fn parameters_may_come_if_nobody_has_to_send_them() {
    let parameter = |required| json!({ "in": "header", "name": "X-New", "required": required, "schema": { "type": "string" } });
    breaks(
        &format!("{OPERATION}/parameters/1"),
        parameter(true),
        "POST /orders header x-new: new and required",
    );
    passes(&format!("{OPERATION}/parameters/1"), parameter(false));
    breaks(
        &format!("{OPERATION}/parameters"),
        Value::Null,
        "POST /orders header idempotency-key: gone",
    );
    breaks("/paths/~1orders/parameters", Value::Null, "POST /orders query trace: gone");
    breaks(
        "/components/parameters/Trace/required",
        json!(true),
        "POST /orders query trace: now required",
    );
    breaks(
        "/components/parameters/Trace/schema/type",
        json!("integer"),
        "POST /orders query trace: no longer takes boolean",
    );
    breaks(
        &format!("{OPERATION}/parameters/0/schema/maxLength"),
        json!(64),
        "POST /orders header idempotency-key: maxLength is tighter",
    );
    passes(&format!("{OPERATION}/parameters/0/name"), json!("idempotency-key"));
}

#[test]
fn what_could_be_sent_can_be_sent() {
    breaks(
        &format!("{OPERATION}/requestBody/required"),
        json!(true),
        "POST /orders request: now required",
    );
    breaks(
        &format!("{OPERATION}/requestBody/content/text~1plain"),
        Value::Null,
        "POST /orders request text/plain: gone",
    );
    passes(&format!("{OPERATION}/requestBody/content/application~1xml"), json!({}));
    let place = "POST /orders request application/json";
    breaks(&format!("{REQUEST}/properties/fee"), Value::Null, &format!("{place}/fee: gone"));
    breaks(
        &format!("{REQUEST}/required"),
        json!(["file", "fee"]),
        &format!("{place}/fee: now required"),
    );
    breaks(
        &format!("{REQUEST}/required"),
        json!(["file", "new"]),
        &format!("{place}/new: new and required"),
    );
    breaks(
        &format!("{REQUEST}/additionalProperties"),
        json!(false),
        &format!("{place}: no longer takes other properties"),
    );
    passes(&format!("{REQUEST}/required"), Value::Null);
    passes(&format!("{REQUEST}/properties/new"), json!({ "type": "string", "maxLength": 1 }));
}

#[test]
fn a_request_takes_every_type_and_value_that_it_took() {
    let place = |name: &str| format!("POST /orders request application/json/{name}");
    breaks(
        &format!("{REQUEST}/properties/file/type"),
        json!("integer"),
        &format!("{}: no longer takes string", place("file")),
    );
    breaks(
        &format!("{REQUEST}/properties/fee/type"),
        json!("number"),
        &format!("{}: no longer takes null", place("fee")),
    );
    breaks(
        &format!("{REQUEST}/properties/fee/type"),
        json!(["integer", "null"]),
        &format!("{}: no longer takes number", place("fee")),
    );
    breaks(
        &format!("{REQUEST}/properties/pages/items/type"),
        json!("string"),
        &format!("{}/items: no longer takes integer", place("pages")),
    );
    let contact = json!({ "$ref": "#/components/schemas/Contact" });
    breaks(
        &format!("{REQUEST}/properties/contact"),
        contact,
        &format!("{}: no longer takes null", place("contact")),
    );
    breaks(
        &format!("{REQUEST}/properties/kind/enum"),
        json!(["at"]),
        &format!("{}: no longer takes \"between\"", place("kind")),
    );
    breaks(
        &format!("{REQUEST}/properties/kind/const"),
        json!("at"),
        &format!("{}: no longer takes \"between\"", place("kind")),
    );
    breaks(
        &format!("{REQUEST}/properties/file/enum"),
        json!(["A"]),
        &format!("{}: takes only certain values now", place("file")),
    );
    breaks(
        &format!("{REQUEST}/properties/place/oneOf"),
        json!([{ "type": "string" }]),
        &format!("{} oneOf: a variant is gone", place("place")),
    );
    passes(&format!("{REQUEST}/properties/place/oneOf/2"), json!({ "type": "boolean" }));
    passes(&format!("{REQUEST}/properties/file/type"), json!(["string", "null"]));
    passes(&format!("{REQUEST}/properties/file/type"), Value::Null);
    passes(&format!("{REQUEST}/properties/pages/items/type"), json!("number"));
    passes(&format!("{REQUEST}/properties/kind/enum"), json!(["anytime", "between", "at"]));
    passes(&format!("{REQUEST}/properties/kind/enum"), Value::Null);
    passes(
        &format!("{REQUEST}/properties/contact"),
        json!({ "type": ["object", "null"], "properties": { "email": { "type": "string" } } }),
    );
    passes(
        &format!("{REQUEST}/properties/file"),
        json!({ "allOf": [{ "type": "string", "maxLength": 100 }, { "minLength": 1 }] }),
    );
}

#[test]
fn no_limit_of_a_request_becomes_tighter() {
    let cases = [
        ("file", "maxLength", 99, 101),
        ("file", "minLength", 2, 0),
        ("fee", "maximum", 99, 101),
        ("fee", "minimum", 1, -1),
        ("pages", "maxItems", 19, 21),
        ("pages", "minItems", 2, 0),
    ];
    for (property, limit, tighter, looser) in cases {
        let (pointer, place) = (
            format!("{REQUEST}/properties/{property}"),
            format!("POST /orders request application/json/{property}"),
        );
        breaks(
            &format!("{pointer}/{limit}"),
            json!(tighter),
            &format!("{place}: {limit} is tighter"),
        );
        passes(&format!("{pointer}/{limit}"), json!(looser));
        passes(&format!("{pointer}/{limit}"), Value::Null);
    }
    let kind = format!("{REQUEST}/properties/kind");
    breaks(
        &format!("{kind}/maxLength"),
        json!(20),
        "POST /orders request application/json/kind: maxLength is tighter",
    );
    for (form, value) in [
        ("pattern", json!("^a")),
        ("format", json!("date")),
        ("multipleOf", json!(2)),
        ("contentMediaType", json!("application/json")),
    ] {
        breaks(
            &format!("{kind}/{form}"),
            value,
            &format!("POST /orders request application/json/kind: {form} is added or changed"),
        );
    }
    passes(&format!("{kind}/description"), json!("When."));
    let condition = json!([{ "if": { "required": ["fee"] }, "then": { "required": ["kind"] } }]);
    breaks(
        &format!("{REQUEST}/allOf"),
        condition,
        "POST /orders request application/json: a condition is added or changed",
    );
}

#[test]
fn an_answer_may_say_more_but_not_less() {
    breaks(&format!("{OPERATION}/responses/201"), Value::Null, "POST /orders 201: gone");
    passes(&format!("{OPERATION}/responses/409"), Value::Null);
    passes(&format!("{OPERATION}/responses/422"), json!({}));
    let place = "POST /orders 201";
    breaks(
        &format!("{OPERATION}/responses/201/content/application~1json"),
        Value::Null,
        &format!("{place} application/json: gone"),
    );
    breaks(
        &format!("{OPERATION}/responses/201/headers/X-Request-Id"),
        Value::Null,
        &format!("{place} header X-Request-Id: gone"),
    );
    breaks(
        &format!("{OPERATION}/responses/201/headers/X-Request-Id/required"),
        json!(false),
        &format!("{place} header X-Request-Id: may be absent now"),
    );
    passes(&format!("{OPERATION}/responses/201/headers/Idempotency-Replayed"), json!({}));
    passes(&format!("{OPERATION}/responses/201/content/application~1xml"), json!({}));
    breaks(
        &format!("{ANSWER}/properties/note"),
        Value::Null,
        &format!("{place} application/json/note: gone"),
    );
    breaks(
        &format!("{ANSWER}/required"),
        json!(["id"]),
        &format!("{place} application/json/status: may be absent now"),
    );
    passes(&format!("{ANSWER}/required"), json!(["id", "note", "status"]));
    passes(&format!("{ANSWER}/properties/new"), json!({ "type": "string" }));
}

#[test]
fn what_an_answer_has_is_what_it_was() {
    let place = |name: &str| format!("POST /orders 201 application/json/{name}");
    breaks(
        &format!("{ANSWER}/properties/id/type"),
        json!(["integer", "null"]),
        &format!("{}: may be null now", place("id")),
    );
    breaks(
        &format!("{ANSWER}/properties/id/type"),
        json!("number"),
        &format!("{}: may be number now", place("id")),
    );
    breaks(
        &format!("{ANSWER}/properties/id/type"),
        Value::Null,
        &format!("{}: may be a value of any type now", place("id")),
    );
    breaks(
        &format!("{ANSWER}/properties/id/format"),
        json!("int32"),
        &format!("{}: format changed", place("id")),
    );
    breaks(
        &format!("{ANSWER}/properties/status/enum"),
        json!(["NEW", "DONE"]),
        &format!("{}: the enum changed", place("status")),
    );
    breaks(
        &format!("{ANSWER}/properties/status/enum"),
        Value::Null,
        &format!("{}: the enum changed", place("status")),
    );
    breaks(
        &format!("{ANSWER}/properties/place/oneOf/2"),
        json!({ "type": "boolean" }),
        &format!("{} oneOf: a new variant", place("place")),
    );
    passes(&format!("{ANSWER}/properties/place/oneOf"), json!([{ "type": "integer" }]));
    passes(&format!("{ANSWER}/properties/note/type"), json!("string"));
    passes(&format!("{ANSWER}/properties/note/maxLength"), json!(10));
}

#[test]
fn problems_may_have_new_codes() {
    let code = "/components/schemas/Problem/properties/code/enum";
    passes(code, json!(["duplicate", "in_flight"]));
    breaks(
        code,
        json!(["in_flight"]),
        "POST /orders 409 application/problem+json/code: the enum changed",
    );
}
