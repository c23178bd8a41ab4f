use std::{collections::BTreeSet, sync::LazyLock};

use adapter_http::{OpenApiSettings, internals::attempt, openapi_document};
use arbitrary::{Result, Unstructured};
use domain::{
    api_key::{ClientId, Owner},
    appointment::AppointmentTime,
    idempotency::{Claim, ClaimToken, Fingerprint, IdempotencyKey},
    order::{OrderRequest, ParsedOrder},
    request::{Violation, ViolationCode},
};
use serde_json::{Value, json};

/// Asserts that a JSON body is read, or rejected for its syntax. Formatting does not change the
/// request, and a request is a valid order or has violations.
pub fn order_json(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let read = serde_json::from_str::<OrderRequest>(text);
    let value = serde_json::from_str::<Value>(text);
    match (&read, &value) {
        (Ok(_), Ok(value)) => assert!(value.is_object()),
        (Err(error), Ok(Value::Object(_))) => {
            assert!(error.to_string().contains("duplicate field"), "{error}");
        }
        // Reading any value can fail in unknown members, which an order skips.
        (Err(_), Ok(_)) | (_, Err(_)) => {}
    }
    let Ok(request) = read else { return };
    let _ = check(&request);
    if let Ok(value) = value {
        // Changes the order of the members and the white space, and rounds amounts.
        let again: OrderRequest =
            serde_json::from_str(&serde_json::to_string_pretty(&value).unwrap()).unwrap();
        assert_eq!(without_amounts(&again), without_amounts(&request));
    }
}

fn without_amounts(request: &OrderRequest) -> Value {
    let mut fields = serde_json::to_value(request).unwrap();
    if let Some(details) = fields.get_mut("signingDetailsFormData").and_then(Value::as_object_mut) {
        details.retain(|name, _| !["invoiceFee", "notaryPay"].contains(&name.as_str()));
    }
    fields
}

/// Maximum number of changed fields.
const MAX_CHANGES: usize = 12;
/// Maximum length of a repeated text in bytes: beyond the limit of every field.
const MAX_REPEATED: usize = 5_100;

/// Asserts that in a valid order with some changed fields, only these fields and those that depend
/// on them have violations.
pub fn order_fields(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let mut order = minimal();
    let mut changed = BTreeSet::new();
    for _ in 0..MAX_CHANGES {
        if input.is_empty() {
            break;
        }
        let Ok((pointer, value)) = change(&mut input) else { break };
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let (section, object) = parent.rsplit_once('/').unwrap_or_default();
        if let Some(Value::Object(members)) = order.pointer_mut(section)
            && !object.is_empty()
        {
            members.entry(object).or_insert_with(|| json!({}));
        }
        // An earlier change may have replaced the object of the field.
        if let Some(Value::Object(members)) = order.pointer_mut(parent) {
            members.insert(name.to_owned(), value);
            changed.insert(pointer);
        }
    }
    let request: OrderRequest = serde_json::from_value(order).unwrap();
    for Violation { pointer, .. } in check(&request).err().unwrap_or_default() {
        let causes = causes(&pointer);
        // A field also changes with an object that contains it.
        let explains = |cause: &String| {
            changed.iter().any(|it| cause == it || cause.starts_with(&format!("{it}/")))
        };
        assert!(
            causes.iter().any(explains),
            "{pointer} has a violation, but {changed:?} were changed"
        );
    }
}

/// Returns a field, and those that decide whether it is required and whether its time exists.
fn causes(pointer: &str) -> Vec<String> {
    let others: &[&str] = match pointer.strip_prefix("/signingDetailsFormData/") {
        Some("specificTime" | "startTime") => &["signingTimeType", "signingDate", "timeZoneId"],
        Some("endTime") => &["signingTimeType", "signingDate", "timeZoneId", "startTime"],
        _ => &[],
    };
    let others = others.iter().map(|name| format!("/signingDetailsFormData/{name}"));
    others.chain([pointer.to_owned()]).collect()
}

/// Texts that have a meaning in some fields.
const TEXTS: [&str; 10] = [
    "at",
    "between",
    "anytime",
    "America/New_York",
    "Europe/Lisbon",
    "TX",
    "75201",
    "a@b",
    "2026-03-08",
    "2026-11-01",
];

fn change(input: &mut Unstructured<'_>) -> Result<(&'static str, Value)> {
    let pointer: &str = input.choose(&POINTERS)?;
    let text = |input: &mut Unstructured<'_>| Ok(input.arbitrary::<&str>()?.to_owned());
    let value = match input.int_in_range(0..=9)? {
        0 => Value::Null,
        1 => json!(input.arbitrary::<bool>()?),
        2 => json!(input.arbitrary::<i64>()?),
        3 => json!(input.arbitrary::<f64>()?),
        4 => json!([text(input)?]),
        5 => json!({}),
        6 => {
            let (hour, minute) = input.arbitrary::<(u8, u8)>()?;
            json!(format!("{:02}:{:02}", hour % 26, minute % 62))
        }
        7 => json!(input.choose(&TEXTS)?),
        8 => {
            let text = text(input)?;
            let most = MAX_REPEATED / text.len().max(1);
            json!(text.repeat(input.int_in_range(1..=600)?.min(most)))
        }
        _ => json!(text(input)?),
    };
    Ok((pointer, value))
}

/// Checks what must hold for every request.
fn check(request: &OrderRequest) -> std::result::Result<ParsedOrder, Vec<Violation>> {
    let parsed = request.clone().parse();
    assert_eq!(request.clone().parse(), parsed, "the same request is the same order");
    match &parsed {
        Ok(order) => valid(request, order),
        Err(violations) => {
            assert!(!violations.is_empty());
            for Violation { pointer, detail, .. } in violations {
                assert!(
                    POINTERS.iter().any(|field| field == pointer) && !detail.is_empty(),
                    "{pointer}: {detail}"
                );
            }
            // The end of a range may also be a time that does not exist.
            let fault =
                |it: &Violation| (it.pointer.clone(), it.code == ViolationCode::EndNotAfterStart);
            let faults: BTreeSet<_> = violations.iter().map(fault).collect();
            assert_eq!(faults.len(), violations.len(), "a field has two: {violations:?}");
        }
    }
    parsed
}

fn valid(request: &OrderRequest, parsed: &ParsedOrder) {
    // A valid order has no mistyped fields, so it can be written and read again.
    let written = serde_json::to_string(request).unwrap();
    let again: OrderRequest = serde_json::from_str(&written).unwrap();
    assert_eq!(fingerprint(request), fingerprint(&again));
    assert_eq!(again.parse().as_ref(), Ok(parsed));

    let order = &parsed.order;
    // What a client reads back creates an equal order.
    let mut read_back = serde_json::to_value(OrderRequest::of(order)).unwrap();
    read_back["signingServiceId"] = order.signing_service_id.0.into();
    let read_back: OrderRequest = serde_json::from_value(read_back).unwrap();
    assert_eq!(read_back.parse().map(|parsed| parsed.order).as_ref(), Ok(order));
    if let AppointmentTime::Between { start, end } = order.appointment.time {
        assert!(start.local < end.local && start.utc < end.utc);
    }
    let recipients = order.contacts.recipients();
    let distinct: BTreeSet<_> =
        recipients.iter().map(|recipient| recipient.as_str().to_ascii_lowercase()).collect();
    assert_eq!(distinct.len(), recipients.len());
    for recipient in recipients {
        let address = recipient.as_str();
        assert!(
            address.len() <= 254
                && address.bytes().all(|byte| byte.is_ascii_graphic())
                && address.matches('@').count() == 1,
            "{address}"
        );
    }
    for line in [
        order.file_number.as_str(),
        &order.signing.signer.name,
        &order.signing.property.address,
        &order.signing.property.city,
        &order.signing.language,
    ] {
        assert!(
            !line.is_empty()
                && line.trim() == line
                && !line.contains(char::is_control)
                && line.chars().count() <= 500,
            "{line:?}"
        );
    }
    if let Some(text) = &order.signing.special_instructions {
        assert!(!text.contains('\0') && text.chars().count() <= 5_000);
    }
}

fn fingerprint(request: &OrderRequest) -> Fingerprint {
    let claim = Claim {
        key: IdempotencyKey::new(Owner::client(ClientId(1), false), "key").unwrap(),
        token: ClaimToken([0; 16]),
    };
    attempt(claim, "json", request, &[]).unwrap().fingerprint
}

fn minimal() -> Value {
    let golden = include_str!("../../domain/golden/order-v1-minimal.json");
    serde_json::from_str::<Value>(golden).unwrap()["request"].take()
}

/// Pointers to every field of an order, read from the OpenAPI document.
static POINTERS: LazyLock<Vec<String>> = LazyLock::new(|| {
    fn add(schemas: &Value, schema: &Value, at: &str, found: &mut Vec<String>) {
        if let Some(name) = schema["$ref"].as_str() {
            return add(schemas, &schemas[name.rsplit('/').next().unwrap()], at, found);
        }
        for alternative in schema["oneOf"].as_array().into_iter().flatten() {
            add(schemas, alternative, at, found);
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let at = format!("{at}/{name}");
            found.push(at.clone());
            add(schemas, property, &at, found);
        }
    }
    let document = openapi_document(&OpenApiSettings::default());
    let document: Value = serde_json::from_str(&document).unwrap();
    let schemas = &document["components"]["schemas"];
    let mut found = Vec::new();
    add(schemas, &schemas["OrderRequest"], "", &mut found);
    assert!(found.len() > 60, "{found:?}");
    found
});
