use serde_json::{Value, json};

use super::*;
use crate::{order::EmailAddress, test_support::minimal_request};

fn parse(request: &Value) -> Result<ParsedOrder, Vec<Violation>> {
    serde_json::from_value::<OrderRequest>(request.clone()).unwrap().parse()
}

/// Returns the minimal request with a value at a JSON Pointer; `None` removes the field.
fn with(changes: &[(&str, Option<Value>)]) -> Value {
    let mut request = minimal_request();
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = request.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Some(value) => parent.insert(name.to_owned(), value.clone()),
            None => parent.remove(name),
        };
    }
    request
}

fn order(changes: &[(&str, Option<Value>)]) -> Box<Order> {
    parse(&with(changes)).unwrap().order
}

fn faults(changes: &[(&str, Option<Value>)]) -> Vec<(String, ViolationCode)> {
    parse(&with(changes)).map_or_else(
        |found| {
            found
                .into_iter()
                .map(|violation| (violation.pointer.into_owned(), violation.code))
                .collect()
        },
        |_| Vec::new(),
    )
}

fn fault(pointer: &str, value: Value) -> Option<ViolationCode> {
    let found = faults(&[(pointer, Some(value))]);
    assert!(found.len() <= 1, "{pointer}: {found:?}");
    found.first().map(|(at, code)| {
        assert_eq!(at, pointer);
        *code
    })
}

const REQUIRED: [&str; 15] = [
    "/signingContactsFormData/orderContactEmail",
    "/signingDetailsFormData/fileNumber",
    "/signingDetailsFormData/signingDate",
    "/signingDetailsFormData/signingTimeType",
    "/signingDetailsFormData/timeZoneId",
    "/signingDetailsFormData/propertyAddress",
    "/signingDetailsFormData/signingType",
    "/signingDetailsFormData/signerName",
    "/signingDetailsFormData/signerPhone",
    "/signingDetailsFormData/signerEmail",
    "/signingDetailsFormData/city",
    "/signingDetailsFormData/state",
    "/signingDetailsFormData/zipcode",
    "/signingDetailsFormData/specificTime",
    "/requestedBy/userId",
];

/// Returns the optional text fields of the signing details: every text of the full golden request
/// that is not required, except the times and the signing location, which may not count.
fn optional_texts() -> Vec<String> {
    let golden = include_str!("../../golden/order-v1-full.json");
    let golden: Value = serde_json::from_str(golden).unwrap();
    let details = golden["request"]["signingDetailsFormData"].as_object().unwrap();
    let optional = |name: &str| {
        !REQUIRED.contains(&&*format!("/signingDetailsFormData/{name}"))
            && !["startTime", "endTime"].contains(&name)
            && !["signingAddress", "signingCity", "signingState", "signingZipcode"].contains(&name)
    };
    let texts = details.iter().filter(|(name, value)| value.is_string() && optional(name));
    texts.map(|(name, _)| name.clone()).collect()
}

#[test]
fn minimal_request_gets_defaults() {
    let order = order(&[]);
    assert_eq!(order.signing.language, "en");
    assert!(!order.signing.scanbacks_required && !order.signing.ron_signing);
    assert_eq!(
        order.signing.signing_location(),
        SigningLocation {
            address: order.signing.property.address.clone(),
            city: Some("Dallas".into()),
            state: Some("TX".into()),
            zipcode: Some("75201".into())
        }
    );
    assert_eq!(order.signing.invoice, Invoice::default());
    assert_eq!(order.signing.co_signer, CoSigner::default());
    assert_eq!(
        order.requested_by,
        RequestedBy { user_id: 1001, user_role: None, signing_service_id: None }
    );
}

#[test]
fn required_fields_are_reported() {
    for pointer in REQUIRED {
        assert_eq!(faults(&[(pointer, None)]), [(pointer.to_owned(), ViolationCode::Required)]);
        assert_eq!(fault(pointer, Value::Null), Some(ViolationCode::Required), "{pointer}");
        assert_eq!(fault(pointer, json!([])), Some(ViolationCode::WrongType), "{pointer}");
        assert_eq!(fault(pointer, json!({})), Some(ViolationCode::WrongType), "{pointer}");
        assert_eq!(fault(pointer, json!(true)), Some(ViolationCode::WrongType), "{pointer}");
        if pointer != "/requestedBy/userId" {
            assert_eq!(fault(pointer, json!(" \t ")), Some(ViolationCode::Blank), "{pointer}");
            assert_eq!(fault(pointer, json!(7)), Some(ViolationCode::WrongType), "{pointer}");
        }
    }
}

#[test]
fn missing_sections_are_reported() {
    for section in ["/signingContactsFormData", "/signingDetailsFormData", "/requestedBy"] {
        assert_eq!(faults(&[(section, None)]), [(section.to_owned(), ViolationCode::Required)]);
        for value in [json!("{}"), json!([]), json!(1)] {
            assert_eq!(fault(section, value), Some(ViolationCode::WrongType));
        }
    }
    let empty = parse(&json!({})).unwrap_err();
    let pointers: Vec<_> = empty.iter().map(|violation| violation.pointer.as_ref()).collect();
    assert_eq!(
        pointers,
        [
            "/requestedBy",
            "/signingContactsFormData",
            "/signingDetailsFormData",
            "/signingServiceId",
        ]
    );
}

#[test]
fn all_violations_are_reported_at_once() {
    let found = faults(&[
        ("/signingContactsFormData/orderContactEmail", Some(json!("nobody"))),
        (
            "/signingContactsFormData/inHouseContact",
            Some(json!({ "contact_phone": "12", "contact_email": 5 })),
        ),
        ("/utcTimeDate", Some(json!("yesterday"))),
        ("/signingDetailsFormData/fileNumber", None),
        ("/signingDetailsFormData/signingDate", Some(json!("2026-02-30"))),
        ("/signingDetailsFormData/state", Some(json!("Texas"))),
        ("/signingDetailsFormData/invoiceFee", Some(json!(-1))),
        ("/signingServiceId", Some(json!("42"))),
        ("/requestedBy/userId", Some(json!(0))),
    ]);
    let expected = [
        ("/requestedBy/userId", ViolationCode::OutOfRange),
        ("/signingContactsFormData/inHouseContact/contact_email", ViolationCode::WrongType),
        ("/signingContactsFormData/inHouseContact/contact_phone", ViolationCode::InvalidFormat),
        ("/signingContactsFormData/orderContactEmail", ViolationCode::InvalidFormat),
        ("/signingDetailsFormData/fileNumber", ViolationCode::Required),
        ("/signingDetailsFormData/invoiceFee", ViolationCode::OutOfRange),
        ("/signingDetailsFormData/signingDate", ViolationCode::InvalidFormat),
        ("/signingDetailsFormData/state", ViolationCode::InvalidFormat),
        ("/signingServiceId", ViolationCode::WrongType),
        ("/utcTimeDate", ViolationCode::InvalidFormat),
    ];
    assert_eq!(found, expected.map(|(pointer, code)| (pointer.to_owned(), code)));
}

#[test]
fn blank_and_null_optional_fields_are_absent() {
    let absent = order(&[]);
    for name in optional_texts() {
        let pointer = format!("/signingDetailsFormData/{name}");
        assert_eq!(order(&[(&pointer, Some(json!("  ")))]), absent, "{name}");
        assert_eq!(order(&[(&pointer, Some(Value::Null))]), absent, "{name}");
        assert_eq!(fault(&pointer, json!(1)), Some(ViolationCode::WrongType), "{name}");
        assert_eq!(
            fault(&pointer, json!("a\0b")),
            Some(ViolationCode::InvalidCharacters),
            "{name}"
        );
    }
    assert_eq!(
        order(&[(
            "/signingDetailsFormData/loanOfficer",
            Some(json!({ "contact_name": " ", "contact_email": null }))
        )]),
        absent
    );
    assert_eq!(order(&[("/signingDetailsFormData/invoiceOrderTo", Some(json!({})))]), absent);
}

#[test]
fn blank_text_is_absent_for_every_optional_type() {
    let absent = order(&[]);
    for pointer in [
        "/signingContactsFormData/clientCompanyId",
        "/signingContactsFormData/inHouseContact",
        "/signingContactsFormData/inHouseContact2",
        "/signingDetailsFormData/isPropertyAddressSame",
        "/signingDetailsFormData/scanbacksRequired",
        "/signingDetailsFormData/ronSigning",
        "/signingDetailsFormData/loanOfficer",
        "/signingDetailsFormData/invoiceOrderTo",
        "/signingDetailsFormData/invoiceFee",
        "/signingDetailsFormData/notaryPay",
        "/requestedBy/signingServiceId",
    ] {
        for blank in ["", "  ", "\t\n", "\u{200b}"] {
            assert_eq!(order(&[(pointer, Some(json!(blank)))]), absent, "{pointer}");
        }
        assert_eq!(fault(pointer, json!("x")), Some(ViolationCode::WrongType), "{pointer}");
    }
    for pointer in ["/signingServiceId", "/requestedBy/userId", "/requestedBy"] {
        assert_eq!(fault(pointer, json!(" ")), Some(ViolationCode::WrongType), "{pointer}");
    }
}

#[test]
fn texts_are_trimmed_and_states_upper_case() {
    let order = order(&[
        ("/signingDetailsFormData/fileNumber", Some(json!("\t F-1 \n"))),
        ("/signingDetailsFormData/state", Some(json!(" tx "))),
    ]);
    assert_eq!(order.file_number.as_str(), "F-1");
    assert_eq!(order.signing.property.state, "TX");
}

#[test]
fn identifiers_are_positive_64_bit_integers() {
    for pointer in [
        "/signingServiceId",
        "/requestedBy/userId",
        "/requestedBy/signingServiceId",
        "/signingContactsFormData/clientCompanyId",
    ] {
        assert_eq!(fault(pointer, json!(i64::MAX)), None);
        for value in [json!(0), json!(-1), json!(i64::MIN)] {
            assert_eq!(fault(pointer, value), Some(ViolationCode::OutOfRange), "{pointer}");
        }
        for value in [json!("1"), json!(1.5), json!(u64::MAX), json!(1e30), json!(false)] {
            assert_eq!(fault(pointer, value), Some(ViolationCode::WrongType), "{pointer}");
        }
    }
    for (text, expected) in [
        ("42", Ok(42)),
        (" 7 ", Ok(7)),
        ("\u{200e}4\u{ff12}\u{200b}", Ok(42)),
        ("\u{200b}", Err(ViolationCode::Required)),
        ("", Err(ViolationCode::Required)),
        ("-1", Err(ViolationCode::OutOfRange)),
        ("+1", Err(ViolationCode::WrongType)),
        ("1.0", Err(ViolationCode::WrongType)),
        ("9223372036854775808", Err(ViolationCode::WrongType)),
        ("٤٢", Err(ViolationCode::WrongType)),
    ] {
        let request = with(&[("/signingServiceId", None)]);
        let mut request: OrderRequest = serde_json::from_value(request).unwrap();
        request.add_part("signingServiceId", text.to_owned()).unwrap();
        let parsed = request.parse().map(|parsed| parsed.order.signing_service_id.0);
        assert_eq!(parsed.map_err(|violations| violations[0].code), expected, "{text}");
    }
}

#[test]
fn unknown_fields_are_ignored() {
    assert_eq!(
        order(&[
            ("/surprise", Some(json!({ "deep": [1] }))),
            ("/signingDetailsFormData/surprise", Some(json!(1)))
        ]),
        order(&[])
    );
}

#[test]
fn repeated_field_is_malformed() {
    for (json, expected) in [
        (r#"{ "signingServiceId": null, "signingServiceId": 2 }"#, Some("`signingServiceId` at")),
        (r#"{ "requestedBy": { "userId": 1, "userId": 2 } }"#, Some("duplicate field `userId` at")),
        (r#"{ "surprise": 1, "surprise": { "deep": [{}] } }"#, None),
    ] {
        let error = serde_json::from_str::<OrderRequest>(json).err().map(|error| error.to_string());
        assert_eq!(error.is_some(), expected.is_some(), "{json}");
        assert!(error.unwrap_or_default().contains(expected.unwrap_or_default()), "{json}");
    }
}

/// Returns the signing location of an order with these members of the details.
fn location(members: &Value) -> SigningLocation {
    let mut request = minimal_request();
    let details = request["signingDetailsFormData"].as_object_mut().unwrap();
    details.extend(members.as_object().unwrap().clone());
    parse(&request).unwrap().order.signing.signing_location()
}

#[test]
fn only_the_address_of_another_location_defaults_to_the_property() {
    let street = "123 Main St, Dallas, TX 75201";
    let whole = (street, Some("Dallas"), Some("TX"), Some("75201"));
    for (members, expected) in [
        (json!({}), whole),
        (json!({ "signingAddress": "9 Office Rd" }), whole),
        (json!({ "isPropertyAddressSame": true, "signingCity": "Troy" }), whole),
        (json!({ "isPropertyAddressSame": false }), whole),
        (json!({ "isPropertyAddressSame": false, "signingAddress": street }), whole),
        (
            json!({ "isPropertyAddressSame": false, "signingAddress": "9 Office Rd" }),
            ("9 Office Rd", None, None, None),
        ),
        (
            json!({ "isPropertyAddressSame": false, "signingCity": "Troy", "signingZipcode": "12180" }),
            (street, Some("Troy"), None, Some("12180")),
        ),
        (
            json!({ "isPropertyAddressSame": false, "signingState": "ny" }),
            (street, None, Some("NY"), None),
        ),
    ] {
        let found = location(&members);
        let found = (
            &*found.address,
            found.city.as_deref(),
            found.state.as_deref(),
            found.zipcode.as_deref(),
        );
        assert_eq!(found, expected, "{members}");
    }
}

#[test]
fn fields_of_a_location_that_does_not_count_are_not_checked() {
    for same in [Value::Null, json!(true)] {
        let members = [
            ("signingAddress", json!(7)),
            ("signingCity", json!("a\0b")),
            ("signingState", json!("N/A".repeat(50))),
            ("signingZipcode", json!([])),
            ("isPropertyAddressSame", same),
        ];
        let mut request = minimal_request();
        for (name, value) in members {
            request["signingDetailsFormData"][name] = value;
        }
        assert_eq!(parse(&request).unwrap().order.signing.location, None);
        request["signingDetailsFormData"]["isPropertyAddressSame"] = json!(false);
        let pointers = ["Address", "City", "State", "Zipcode"]
            .map(|name| format!("/signingDetailsFormData/signing{name}"));
        let found = parse(&request).unwrap_err();
        assert_eq!(found.iter().map(|fault| &*fault.pointer).collect::<Vec<_>>(), pointers);
    }
}

#[test]
fn state_and_zip_of_the_location_are_texts() {
    for (state, stored) in [("ny", "NY"), ("New York", "New York"), ("N/A", "N/A")] {
        let members = json!({
            "isPropertyAddressSame": false, "signingState": state, "signingZipcode": "12180-1234"
        });
        let location = location(&members);
        assert_eq!(
            (location.state.as_deref(), location.zipcode.as_deref()),
            (Some(stored), Some("12180-1234"))
        );
    }
    for (name, longest) in [("State", 50), ("Zipcode", 20)] {
        let pointer = format!("/signingDetailsFormData/signing{name}");
        let fault = |length| {
            let flag = ("/signingDetailsFormData/isPropertyAddressSame", Some(json!(false)));
            faults(&[flag, (&pointer, Some(json!("x".repeat(length))))])
        };
        assert_eq!(fault(longest), []);
        assert_eq!(fault(longest + 1), [(pointer.clone(), ViolationCode::TooLong)]);
    }
}

#[test]
fn phones_of_copied_contacts_are_cleaned() {
    for (sent, stored) in [
        ("\u{202a}+1 555 010 0199\u{202c}", "+1 555 010 0199"),
        ("\u{200e}+1\u{a0}(555)\u{2007}010\u{2013}0199 ", "+1 (555) 010-0199"),
        ("555\u{2011}010\u{2212}0199\u{feff}", "555-010-0199"),
        ("555\u{ad}-010\u{200b}-0199\u{202f}x\u{3000}12", "555-010-0199 x 12"),
        (
            "\u{fffc}\u{ff0b}1\t\u{ff08}555\u{ff09}\u{2043}\u{ff10}10\u{fe31}0\u{34f}1\u{2063}99",
            "+1 (555)-010-0199",
        ),
    ] {
        let order = order(&[("/signingDetailsFormData/signerPhone", Some(json!(sent)))]);
        assert_eq!(order.signing.signer.phone, stored, "{sent:?}");
    }
}

#[test]
fn copied_texts_lose_invisible_formatting() {
    let sent = |text: &str| Some(json!(format!("\u{feff}\u{202a}{text}\u{200e}\u{202c}\u{200b} ")));
    let mut request = minimal_request();
    request["utcTimeDate"] = json!("2026-12-01T20:30:00Z");
    let expected = parse(&request).unwrap();
    let texts = request["signingDetailsFormData"].as_object().unwrap().clone();
    for (name, text) in &texts {
        let pointer = format!("/signingDetailsFormData/{name}");
        assert_eq!(order(&[(&pointer, sent(text.as_str().unwrap()))]), expected.order, "{name}");
    }
    let inside = order(&[
        ("/signingContactsFormData/orderContactEmail", sent("escrow@title\u{2011}co.example.com")),
        ("/signingDetailsFormData/signingDate", Some(json!("\u{200e}2026\u{200e}-12\u{2010}01"))),
        ("/signingDetailsFormData/specificTime", Some(json!("14\u{200e}:30\u{200e}"))),
        ("/signingDetailsFormData/zipcode", Some(json!("75\u{200b}20\u{ff11}"))),
        ("/signingDetailsFormData/signerName", Some(json!("Jane\u{200b}\tDoe"))),
        ("/utcTimeDate", sent("2026-12-01T20:30:00\u{200b}Z")),
    ]);
    assert_eq!(inside.contacts.order_contact_email.as_str(), "escrow@title-co.example.com");
    assert_eq!(inside.appointment, expected.order.appointment);
    assert_eq!(inside.signing.property.zipcode, "75201");
    assert_eq!(inside.signing.signer.name, "Jane Doe");
}

#[test]
fn text_without_a_visible_character_is_blank() {
    let invisible = || json!("\u{200b} \u{202a}\u{feff}\u{200d}");
    let absent = order(&[]);
    for name in optional_texts() {
        let pointer = format!("/signingDetailsFormData/{name}");
        assert_eq!(order(&[(&pointer, Some(invisible()))]), absent, "{name}");
    }
    for pointer in REQUIRED.into_iter().filter(|pointer| *pointer != "/requestedBy/userId") {
        assert_eq!(fault(pointer, invisible()), Some(ViolationCode::Blank), "{pointer}");
    }
}

#[test]
fn other_line_ends_of_instructions_become_line_feeds() {
    let sent = "a\u{b}b\u{c}c\u{85}d\u{2028}e\u{2029}f\r\ng\n\th";
    let order = order(&[("/signingDetailsFormData/specialInstructions", Some(json!(sent)))]);
    let stored = order.signing.special_instructions.as_deref();
    assert_eq!(stored, Some("a\nb\nc\nd\ne\nf\r\ng\n\th"));
}

#[test]
fn numbers_with_a_zero_fraction_are_integers() {
    for (number, expected) in [
        ("42.0", Ok(42)),
        ("4.2e1", Ok(42)),
        ("4200E-2", Ok(42)),
        ("9223372036854775807.00", Ok(i64::MAX)),
        ("0.0", Err(ViolationCode::OutOfRange)),
        ("-42.0", Err(ViolationCode::OutOfRange)),
        ("42.5", Err(ViolationCode::WrongType)),
        ("42.00000000000000000001", Err(ViolationCode::WrongType)),
        ("9223372036854775808.0", Err(ViolationCode::WrongType)),
        ("1e300", Err(ViolationCode::WrongType)),
        ("1e-300", Err(ViolationCode::WrongType)),
    ] {
        let text = minimal_request().to_string().replace("42", number);
        let parsed = serde_json::from_str::<OrderRequest>(&text).unwrap().parse();
        let parsed = parsed.map(|parsed| parsed.order.signing_service_id.0);
        assert_eq!(parsed.map_err(|violations| violations[0].code), expected, "{number}");
    }
}

#[test]
fn each_recipient_is_listed_once() {
    let contacts = json!({
        "orderContactEmail": "a@example.com", "observer": "A@Example.com",
        "inHouseContact": { "contact_email": "b@example.com" },
        "inHouseContact2": { "contact_email": "b@example.com" }
    });
    let recipients = order(&[("/signingContactsFormData", Some(contacts))]).contacts.recipients();
    assert_eq!(
        recipients.iter().map(EmailAddress::as_str).collect::<Vec<_>>(),
        ["a@example.com", "b@example.com"]
    );
}

#[path = "parse_time_tests.rs"]
mod time_rules;

#[test]
fn object_in_place_of_text_is_wrong_type() {
    let mistyped = json!({ "first": "Jane", "last": ["Doe"] });
    let text = with(&[
        ("/signingDetailsFormData/city", Some(mistyped)),
        ("/signingDetailsFormData/zipcode", Some(json!("7520"))),
    ])
    .to_string();
    let found = serde_json::from_str::<OrderRequest>(&text).unwrap().parse().unwrap_err();
    let found: Vec<_> = found
        .into_iter()
        .map(|violation| (violation.pointer.into_owned(), violation.code))
        .collect();
    let expected = [
        ("/signingDetailsFormData/city", ViolationCode::WrongType),
        ("/signingDetailsFormData/zipcode", ViolationCode::InvalidFormat),
    ];
    assert_eq!(found, expected.map(|(pointer, code)| (pointer.to_owned(), code)));
}
