use proptest::prelude::*;
use serde_json::{Value, json};
use time::{Time, macros::datetime};

use super::*;
use crate::{
    appointment::{AppointmentTime, Moment},
    order::ParsedOrder,
};

fn full_request() -> Value {
    let golden = include_str!("../../golden/order-v1-full.json");
    serde_json::from_str::<Value>(golden).unwrap()["request"].take()
}

fn parse(request: Value) -> Option<ParsedOrder> {
    serde_json::from_value::<OrderRequest>(request).unwrap().parse().ok()
}

/// Reads an order back and sends it again.
fn sent_again(order: &Order) -> ParsedOrder {
    let mut json = serde_json::to_value(OrderRequest::of(order)).unwrap();
    assert_eq!(json["signingServiceId"], Value::Null, "it is not part of the details");
    assert!(!json.to_string().contains("null"), "{json}");
    json["signingServiceId"] = json!(order.signing_service_id.0);
    parse(json).unwrap()
}

#[test]
fn full_request_is_read_back() {
    let mut request = full_request();
    let order = parse(request.clone()).unwrap().order;
    let mut json = serde_json::to_value(OrderRequest::of(&order)).unwrap();
    request.as_object_mut().unwrap().remove("signingServiceId");
    let missing = |path: &String| json.pointer(path).is_none();
    let absent: Vec<_> = leaves(&request).into_iter().filter(missing).collect();
    // Times that do not belong to `between` are ignored.
    assert_eq!(absent, ["/signingDetailsFormData/specificTime", "/utcTimeDate"]);
    json["signingServiceId"] = json!(order.signing_service_id.0);
    assert_eq!(parse(json).unwrap().order, order);
}

fn leaves(json: &Value) -> Vec<String> {
    let Some(members) = json.as_object() else { return vec![String::new()] };
    let below = |(name, member): (&String, &Value)| {
        leaves(member).into_iter().map(move |path| format!("/{name}{path}")).collect::<Vec<_>>()
    };
    members.iter().filter(|(_, member)| !member.is_null()).flat_map(below).collect()
}

#[test]
fn defaults_are_filled_in() {
    let order = parse(crate::test_support::minimal_request()).unwrap().order;
    let details = serde_json::to_value(OrderRequest::of(&order)).unwrap();
    let signing = &details["signingDetailsFormData"];
    assert_eq!(
        [&signing["language"], &signing["ronSigning"], &signing["isPropertyAddressSame"]],
        [&json!("en"), &json!(false), &json!(true)]
    );
    assert_eq!(details["utcTimeDate"], "2026-12-01T20:30:00Z");
    for (location, property) in [
        ("signingAddress", "propertyAddress"),
        ("signingCity", "city"),
        ("signingState", "state"),
        ("signingZipcode", "zipcode"),
    ] {
        assert_eq!(signing[location], signing[property], "{location}");
    }
}

/// Of another location, only the address defaults to that of the property.
#[test]
fn location_is_filled_in_and_sent_again_makes_an_equal_order() {
    for (city, address) in [(None, None), (Some("Troy"), None), (Some("Troy"), Some("5 Elm St"))] {
        let mut request = crate::test_support::minimal_request();
        let details = &mut request["signingDetailsFormData"];
        details["isPropertyAddressSame"] = json!(false);
        (details["signingCity"], details["signingAddress"]) = (json!(city), json!(address));
        let expected = address.unwrap_or("123 Main St, Dallas, TX 75201");
        let order = parse(request).unwrap().order;
        let details = serde_json::to_value(OrderRequest::of(&order)).unwrap();
        let signing = &details["signingDetailsFormData"];
        assert_eq!(
            (&signing["signingAddress"], &signing["signingCity"]),
            (&json!(expected), &json!(city))
        );
        assert_eq!(signing["signingState"], Value::Null);
        assert_eq!(sent_again(&order).order, order);
    }
}

#[test]
fn instant_before_the_first_year_is_left_out() {
    let mut order = parse(crate::test_support::minimal_request()).unwrap().order;
    let before = datetime!(0000-12-31 14:41 UTC);
    order.appointment.time = AppointmentTime::At(Moment { local: Time::MIDNIGHT, utc: before });
    let details = serde_json::to_value(OrderRequest::of(&order)).unwrap();
    assert_eq!(details["utcTimeDate"], Value::Null);
    assert_eq!(details["signingDetailsFormData"]["specificTime"], "00:00");
}

/// Returns the full request with some fields left out and some changed.
fn request() -> impl Strategy<Value = Value> {
    let texts = prop_oneof![
        Just(json!(" é'\"\\ ")),
        "[A-Za-z0-9 .,é\u{4e2d}]{1,40}".prop_map(|text| json!(text)),
    ];
    let time = prop_oneof![
        (0..24u8, 0..60u8).prop_map(|(hour, minute)| json!({
            "signingTimeType": "at", "specificTime": format!("{hour:02}:{minute:02}")
        })),
        (0..23u8, 0..60u8, 1..60u8).prop_map(|(hour, minute, later)| json!({
            "signingTimeType": "between",
            "startTime": format!("{hour:02}:{minute:02}"),
            "endTime": format!("{:02}:{later:02}", hour + 1)
        })),
        Just(json!({ "signingTimeType": "anytime" })),
    ];
    let date = prop_oneof![
        (1..=9999u32, 1..=12u32, 1..=28u32)
            .prop_map(|(year, month, day)| format!("{year:04}-{month:02}-{day:02}")),
        Just("2026-11-01".to_owned()),
        Just("2026-03-08".to_owned()),
    ];
    let zone = prop::sample::select(vec![
        "America/Chicago",
        "America/New_York",
        "Pacific/Kiritimati",
        "Etc/GMT+12",
        "UTC",
    ]);
    let later = prop::bool::ANY;
    let all = leaves(&full_request());
    let dropped = prop::sample::subsequence(all.clone(), 0..all.len());
    let changed = prop::collection::vec((prop::sample::select(all), texts), 0..8);
    let money = 0..1_000_000_000_000_i64;
    (time, date, zone, later, dropped, changed, money, prop::bool::ANY).prop_map(
        |(time, date, zone, later, dropped, changed, cents, same)| {
            let mut request = full_request();
            let required = crate::test_support::minimal_request();
            for path in dropped.iter().filter(|path| required.pointer(path).is_none()) {
                *request.pointer_mut(path).unwrap() = Value::Null;
            }
            for (path, text) in changed {
                let leaf = request.pointer_mut(&path).unwrap();
                let old = std::mem::replace(leaf, text);
                if parse(request.clone()).is_none() {
                    *request.pointer_mut(&path).unwrap() = old;
                }
            }
            let details = request["signingDetailsFormData"].as_object_mut().unwrap();
            details.extend(time.as_object().unwrap().clone());
            details.insert("signingDate".to_owned(), json!(date));
            details.insert("timeZoneId".to_owned(), json!(zone));
            details.insert("isPropertyAddressSame".to_owned(), json!(same));
            if cents % 3 > 0 {
                let fee = format!("{}.{:02}", cents / 100, cents % 100);
                let fee: Value = serde_json::from_str(&fee).unwrap();
                details.insert("invoiceFee".to_owned(), fee);
            }
            // The later instant of a local time that occurs twice in Chicago.
            request["utcTimeDate"] = json!(later.then_some("2026-11-01T07:30:00Z"));
            request
        },
    )
}

proptest! {
    #[test]
    fn order_sent_again_is_equal(request in request()) {
        // A local time that a clock change skips makes no order.
        let Some(first) = parse(request) else { return Ok(()) };
        let again = sent_again(&first.order);
        prop_assert!(again.order == first.order);
        prop_assert_eq!(again.utc_disagreements, Vec::<&str>::new());
    }
}
