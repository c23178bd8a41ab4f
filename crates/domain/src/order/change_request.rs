//! What a client sends to change or cancel an order.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{
    Fault, OrderStatus, TextRule, Violation, ViolationCode,
    json::{integer, is_number},
    text::ONE_LINE,
};

/// The members of a JSON object. Their values are not read yet: a float would round a number.
pub type Members = BTreeMap<String, Box<RawValue>>;

/// The change that a request asks for. `None` leaves a member as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeRequest {
    /// The status.
    pub status: Option<OrderStatus>,
    /// The notary; `Some(None)` unassigns.
    pub notary_id: Option<Option<i64>>,
}

/// A cancellation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CancelRequest {
    /// The reason, for the history and the mails.
    pub reason: Option<String>,
}

impl ChangeRequest {
    /// Reads the members of a JSON object. `notary_id: null` unassigns, and `order_status: null` is a
    /// violation, because an order always has a status.
    ///
    /// # Errors
    /// All violations.
    pub fn parse(object: &Members) -> Result<Self, Vec<Violation>> {
        let mut violations = Vec::new();
        let status = object.get("order_status").map(|json| status(json));
        let notary_id = object.get("notary_id").map(|json| notary(json));
        let status = kept(status, "/order_status", &mut violations);
        let notary_id = kept(notary_id, "/notary_id", &mut violations);
        reject_unknown(object, &["order_status", "notary_id"], &mut violations);
        if violations.is_empty() { Ok(Self { status, notary_id }) } else { Err(violations) }
    }
}

impl CancelRequest {
    /// Reads the members of a JSON object. A blank reason is none.
    ///
    /// # Errors
    /// All violations.
    pub fn parse(object: &Members) -> Result<Self, Vec<Violation>> {
        let mut violations = Vec::new();
        let reason = object.get("reason").filter(|json| json.get() != "null");
        let reason = reason.map(|json| read_reason(&text(json)?));
        let reason = kept(reason, "/reason", &mut violations).flatten();
        reject_unknown(object, &["reason"], &mut violations);
        if violations.is_empty() { Ok(Self { reason }) } else { Err(violations) }
    }
}

/// Reads a status: 1 to 50 characters without control characters. A near spelling of a usual status is
/// that status.
///
/// # Errors
/// What is wrong with it.
pub fn read_status(text: &str) -> Result<OrderStatus, Fault> {
    let blank = || (ViolationCode::Blank, "must not be blank".into());
    OrderStatus::named(line(text, &TextRule::STATUS)?).ok_or_else(blank)
}

/// Reads a reason: at most 500 characters without control characters. A blank one is none.
///
/// # Errors
/// What is wrong with it.
pub fn read_reason(text: &str) -> Result<Option<String>, Fault> {
    Ok(Some(line(text, &TextRule::REASON)?).filter(|reason| !reason.is_empty()))
}

fn status(json: &RawValue) -> Result<OrderStatus, Fault> {
    read_status(&text(json)?)
}

fn notary(json: &RawValue) -> Result<Option<i64>, Fault> {
    let json = json.get();
    match integer(json) {
        _ if json == "null" => Ok(None),
        Some(number) if number > 0 => Ok(Some(number)),
        _ => {
            let code =
                if is_number(json) { ViolationCode::OutOfRange } else { ViolationCode::WrongType };
            Err((code, "must be a positive integer or null".into()))
        }
    }
}

fn text(json: &RawValue) -> Result<String, Fault> {
    serde_json::from_str(json.get())
        .map_err(|_| (ViolationCode::WrongType, "must be a string".into()))
}

/// Returns a text of one line as it is stored. White space around it is dropped first.
fn line(text: &str, rule: &TextRule) -> Result<String, Fault> {
    let text = text.trim();
    if text.contains(char::is_control) {
        return Err((ViolationCode::InvalidCharacters, ONE_LINE.into()));
    }
    let text = rule.clean(text.to_owned());
    rule.check(&text)?;
    Ok(text)
}

fn kept<T>(
    read: Option<Result<T, Fault>>,
    pointer: &'static str,
    violations: &mut Vec<Violation>,
) -> Option<T> {
    read?
        .map_err(|(code, detail)| {
            violations.push(Violation { pointer: pointer.into(), code, detail });
        })
        .ok()
}

fn reject_unknown(object: &Members, known: &[&str], violations: &mut Vec<Violation>) {
    let unknown = object.keys().filter(|name| !known.contains(&name.as_str()));
    violations.extend(unknown.map(|name| Violation {
        // RFC 6901, section 3.
        pointer: format!("/{}", name.replace('~', "~0").replace('/', "~1")).into(),
        code: ViolationCode::UnknownMember,
        detail: "is not a member of this request".into(),
    }));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn faults<T>(parsed: Result<T, Vec<Violation>>) -> Vec<(String, &'static str)> {
        let violations = parsed.err().unwrap_or_default().into_iter();
        violations.map(|fault| (fault.pointer.into_owned(), fault.code.as_str())).collect()
    }

    fn object(json: &Value) -> Members {
        serde_json::from_str(&json.to_string()).unwrap()
    }

    #[test]
    fn every_member_is_read() {
        let status = OrderStatus::from_stored("EN ROUTE".to_owned());
        for (body, status, notary_id) in [
            (json!({}), None, None),
            (
                json!({ "order_status": " EN\u{200b} ROUTE ", "notary_id": 7 }),
                status,
                Some(Some(7)),
            ),
            (json!({ "notary_id": 7.0 }), None, Some(Some(7))),
            (json!({ "notary_id": null }), None, Some(None)),
        ] {
            let change = ChangeRequest::parse(&object(&body));
            assert_eq!(change, Ok(ChangeRequest { status, notary_id }), "{body}");
        }
        for (body, reason) in [
            (json!({}), None),
            (json!({ "reason": null }), None),
            (json!({ "reason": " " }), None),
            (json!({ "reason": " ill " }), Some("ill".to_owned())),
        ] {
            assert_eq!(
                CancelRequest::parse(&object(&body)),
                Ok(CancelRequest { reason }),
                "{body}"
            );
        }
    }

    #[test]
    fn all_violations_are_reported_at_once() {
        let body = json!({ "order_status": "", "notary_id": 0, "a/b~": 1, "status": "NEW" });
        let expected = [
            ("/order_status", "blank"),
            ("/notary_id", "out_of_range"),
            ("/a~1b~0", "unknown_member"),
            ("/status", "unknown_member"),
        ];
        let expected = expected.map(|(pointer, code)| (pointer.to_owned(), code));
        assert_eq!(faults(ChangeRequest::parse(&object(&body))), expected);
        let body = json!({ "reason": 1, "notary_id": 5 });
        let expected = [("/reason", "wrong_type"), ("/notary_id", "unknown_member")];
        let expected = expected.map(|(pointer, code)| (pointer.to_owned(), code));
        assert_eq!(faults(CancelRequest::parse(&object(&body))), expected);
    }

    #[test]
    fn near_spellings_of_usual_statuses_are_those_statuses() {
        for (spelling, status) in [
            ("  SIGNED \t", "SIGNED"),
            ("\r\nSigned\n", "SIGNED"),
            ("CANCELED", "CANCELLED"),
            ("Cancelled", "CANCELLED"),
            ("can-celed", "CANCELLED"),
            ("on hold", "ON_HOLD"),
            ("On-Hold", "ON_HOLD"),
            ("didNotSign", "DID_NOT_SIGN"),
            ("DID\u{a0}NOT_SIGN", "DID_NOT_SIGN"),
            ("new", "NEW"),
            ("_Completed_", "COMPLETED"),
            ("Signed twice", "Signed twice"),
            ("en route", "en route"),
            ("-", "-"),
        ] {
            let read = read_status(spelling);
            assert_eq!(read.as_ref().map(OrderStatus::as_str), Ok(status), "{spelling:?}");
        }
        assert_eq!(read_reason(" ill\r\n"), Ok(Some("ill".to_owned())));
    }

    #[test]
    fn status_and_notary_follow_their_rules() {
        for (status, code) in [
            (json!(null), "wrong_type"),
            (json!(1), "wrong_type"),
            (json!(" "), "blank"),
            (json!("\u{200b}"), "blank"),
            (json!("é".repeat(51)), "too_long"),
            (json!("A\u{0}B"), "invalid_characters"),
            (json!("A\u{2028}B"), "invalid_characters"),
        ] {
            let body = object(&json!({ "order_status": status }));
            assert_eq!(faults(ChangeRequest::parse(&body)), [("/order_status".to_owned(), code)]);
        }
        for (notary, code) in [
            (json!(-1), "out_of_range"),
            (json!(1.5), "out_of_range"),
            (json!(9_223_372_036_854_775_808_u64), "out_of_range"),
            (json!("7"), "wrong_type"),
            (json!([7]), "wrong_type"),
        ] {
            let body = object(&json!({ "notary_id": notary }));
            assert_eq!(faults(ChangeRequest::parse(&body)), [("/notary_id".to_owned(), code)]);
        }
        for (number, expected) in [
            ("9007199254740993.0", Some(9_007_199_254_740_993)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("1e400", None),
        ] {
            let body = serde_json::from_str(&format!(r#"{{"notary_id":{number}}}"#)).unwrap();
            let notary_id = ChangeRequest::parse(&body).ok().and_then(|change| change.notary_id);
            assert_eq!(notary_id, expected.map(Some), "{number}");
        }
    }
}
