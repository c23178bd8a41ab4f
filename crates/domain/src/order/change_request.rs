//! What a client sends to change or cancel an order.

use serde_json::{Map, Value};

use crate::order::{OrderStatus, TextRule, Violation, ViolationCode, text::Fault};

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
    pub fn parse(object: &Map<String, Value>) -> Result<Self, Vec<Violation>> {
        let mut violations = Vec::new();
        let status = object.get("order_status").map(read_status);
        let notary_id = object.get("notary_id").map(read_notary);
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
    pub fn parse(object: &Map<String, Value>) -> Result<Self, Vec<Violation>> {
        let mut violations = Vec::new();
        let reason = object.get("reason").filter(|value| !value.is_null());
        let reason =
            kept(reason.map(|value| text(value, &TextRule::REASON)), "/reason", &mut violations);
        reject_unknown(object, &["reason"], &mut violations);
        let reason = reason.filter(|reason| !reason.is_empty());
        if violations.is_empty() { Ok(Self { reason }) } else { Err(violations) }
    }
}

/// The text of a status from a request or a command: 1 to 50 characters without control
/// characters.
///
/// # Errors
/// The violation at the member.
pub fn read_status(value: &Value) -> Result<OrderStatus, Fault> {
    let text = text(value, &TextRule::STATUS)?;
    OrderStatus::from_stored(text).ok_or_else(|| (ViolationCode::Blank, "must not be blank".into()))
}

fn read_notary(value: &Value) -> Result<Option<i64>, Fault> {
    if value.is_null() {
        return Ok(None);
    }
    // A number with a zero fraction is an integer in JSON Schema.
    let whole = value.as_i64().or_else(|| {
        let number = value.as_f64().filter(|number| number.fract() == 0.0)?;
        format!("{number:.0}").parse().ok()
    });
    match whole {
        Some(number) if number > 0 => Ok(Some(number)),
        _ if value.is_number() => {
            Err((ViolationCode::OutOfRange, "must be a positive integer or null".into()))
        }
        _ => Err((ViolationCode::WrongType, "must be a positive integer or null".into())),
    }
}

/// Returns a text of one line as it is stored. Control characters are a violation, even around it.
fn text(value: &Value, rule: &TextRule) -> Result<String, Fault> {
    let wrong_type = || (ViolationCode::WrongType, "must be a string".into());
    let sent = value.as_str().ok_or_else(wrong_type)?;
    if sent.contains(char::is_control) {
        let detail = "must be one line without control characters".into();
        return Err((ViolationCode::InvalidCharacters, detail));
    }
    let text = rule.clean(sent.to_owned());
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

fn reject_unknown(object: &Map<String, Value>, known: &[&str], violations: &mut Vec<Violation>) {
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
    use serde_json::json;

    use super::*;

    fn faults<T>(parsed: Result<T, Vec<Violation>>) -> Vec<(String, &'static str)> {
        let violations = parsed.err().unwrap_or_default().into_iter();
        violations.map(|fault| (fault.pointer.into_owned(), fault.code.as_str())).collect()
    }

    fn object(json: &Value) -> Map<String, Value> {
        json.as_object().cloned().unwrap()
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
        let body = json!({ "order_status": "", "notary_id": 0, "status": "NEW", "a/b~": 1 });
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
    fn status_and_notary_follow_their_rules() {
        for (status, code) in [
            (json!(null), "wrong_type"),
            (json!(1), "wrong_type"),
            (json!(" "), "blank"),
            (json!("\u{200b}"), "blank"),
            (json!("é".repeat(51)), "too_long"),
            (json!("SIGNED\n"), "invalid_characters"),
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
    }
}
