//! Sample orders, and their requests.

use domain::{
    appointment::{AppointmentTime, Moment},
    order::{Order, OrderRequest},
};
use serde_json::{Value, json};
use time::{
    Time,
    macros::{date, datetime},
};

/// The golden files of the domain: requests and what a database stores of their orders.
pub const GOLDEN: [&str; 3] = [
    include_str!("../../../domain/golden/order-v1-minimal.json"),
    include_str!("../../../domain/golden/order-v1-anytime.json"),
    include_str!("../../../domain/golden/order-v1-full.json"),
];

fn golden_request(text: &str) -> Value {
    serde_json::from_str::<Value>(text).unwrap()["request"].take()
}

/// Returns the JSON of a request with every required field and no other.
pub fn minimal_request() -> Value {
    golden_request(GOLDEN[0])
}

/// Returns a text of that many characters, most of them beyond ASCII, with characters that SQL and
/// JSON escape.
fn long(characters: usize) -> String {
    "é'\"\\%𝕏;ß中{".chars().cycle().take(characters).collect()
}

/// Returns an e-mail address of 254 characters.
fn long_email(user: &str) -> String {
    format!("{user:x<64}@{}.{}.{}", "a".repeat(63), "b".repeat(63), "c".repeat(61))
}

/// Returns the JSON of a request with every field, each as long or as large as its rule allows.
pub fn maximal_request() -> Value {
    let mut request = golden_request(GOLDEN[2]);
    for path in leaves(&request, "") {
        for candidate in candidates(&request, &path) {
            let golden = request.pointer_mut(&path).unwrap();
            let golden = std::mem::replace(golden, candidate);
            if try_order(request.clone()).is_some() {
                break;
            }
            *request.pointer_mut(&path).unwrap() = golden;
        }
    }
    request
}

/// Returns the JSON Pointers of the fields of an object.
fn leaves(object: &Value, path: &str) -> Vec<String> {
    let members = object.as_object().unwrap().iter();
    let of_member = |(name, value): (&String, &Value)| {
        let path = format!("{path}/{name}");
        if value.is_object() { leaves(value, &path) } else { vec![path] }
    };
    members.flat_map(of_member).collect()
}

/// Maximum lengths of texts in characters, the longest first.
const LENGTHS: [usize; 6] = [5_000, 500, 200, 100, 50, 20];

/// Returns extreme values for a field, the longest first; most break its rule.
fn candidates(request: &Value, path: &str) -> Vec<Value> {
    match request.pointer(path).unwrap() {
        Value::Number(_) => vec![json!(i64::MAX), json!(9_999_999_999.99)],
        Value::String(_) => {
            let texts = LENGTHS.map(|length| json!(long(length)));
            let name = path.rsplit('/').next().unwrap();
            texts.into_iter().chain([json!(long_email(name))]).collect()
        }
        _ => vec![],
    }
}

fn try_order(request: Value) -> Option<Box<Order>> {
    let request: OrderRequest = serde_json::from_value(request).ok()?;
    request.parse().ok().map(|parsed| parsed.order)
}

/// Returns the order of a valid request.
pub fn order(request: Value) -> Box<Order> {
    try_order(request).unwrap()
}

/// Returns an order with every required field and no other.
pub fn minimal_order() -> Box<Order> {
    order(minimal_request())
}

/// Returns an order with every field, each as long or as large as its rule allows.
pub fn maximal_order() -> Box<Order> {
    order(maximal_request())
}

/// Returns orders that differ in a few members of `signingDetailsFormData`.
///
/// They have every kind of appointment, the first and the last year, a year that only older orders
/// have, a time that occurs twice, extreme values, and sections of one field.
pub fn various_orders() -> Vec<Order> {
    let instructions = json!({ "specialInstructions": format!("{}\r\n\t.", long(4_996)) });
    let other_place = json!({ "isPropertyAddressSame": false, "signingAddress": "a café" });
    let sections = json!({
        "loanOfficer": { "contact_phone": "5550100" }, "invoiceOrderTo": { "city": "Austin" },
        "notaryPay": 0.01
    });
    let first_anytime = json!({
        "signingDate": "1900-01-01", "signingTimeType": "anytime", "timeZoneId": "Etc/GMT+12"
    });
    let twice = || at("2026-11-01", "01:30", "America/Chicago");
    let orders = [
        (at("1900-01-01", "00:00", "America/Chicago"), None),
        (at("1969-12-31", "23:59", "UTC"), None),
        (twice(), Some("2026-11-01T06:30:00Z")),
        (twice(), Some("2026-11-01T07:30:00Z")),
        (json!({ "signingTimeType": "anytime" }), None),
        (first_anytime, None),
        (between("2026-12-01", "09:00", "09:01", "America/Chicago"), None),
        (between("9999-12-31", "00:00", "23:59", "Pacific/Kiritimati"), None),
        (instructions, None),
        (json!({ "notaryPay": 0 }), None),
        (json!({ "isPropertyAddressSame": false }), None),
        (other_place, None),
        (sections, None),
    ];
    let order = |(members, utc): (Value, Option<&str>)| {
        let mut request = minimal_request();
        request["utcTimeDate"] = json!(utc);
        let details = request["signingDetailsFormData"].as_object_mut().unwrap();
        details.extend(members.as_object().unwrap().clone());
        *order(request)
    };
    let mut orders: Vec<_> = orders.into_iter().map(order).collect();
    let mut old = order((json!({}), None));
    old.appointment.date = date!(0001 - 01 - 01);
    let utc = datetime!(0001-01-01 05:50:36 UTC);
    old.appointment.time = AppointmentTime::At(Moment { local: Time::MIDNIGHT, utc });
    orders.push(old.clone());
    old.appointment.time = AppointmentTime::Anytime;
    orders.push(old);
    orders
}

fn at(date: &str, time: &str, zone: &str) -> Value {
    json!({ "signingDate": date, "specificTime": time, "timeZoneId": zone })
}

fn between(date: &str, start: &str, end: &str, zone: &str) -> Value {
    json!({
        "signingDate": date, "signingTimeType": "between", "startTime": start, "endTime": end,
        "timeZoneId": zone
    })
}
