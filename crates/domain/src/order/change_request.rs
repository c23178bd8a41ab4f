//! The bodies that change or cancel an order, or add a note to it.
//!
//! Unknown members are violations: a client must not believe that it has changed them.

use garde::Validate;
use serde::Deserialize;

use super::{EmailAddress, MAX_NOTE, MAX_REASON, MAX_STATUS, Notary, OrderStatus};
use crate::request::{
    Code,
    Fault,
    Line,
    Lines,
    Member,
    Object,
    Sent,
    Violation,
    ViolationCode,
    Word,
    integer,
    // `garde` has a variable of the name of each field.
    rules::{
        self, Checked, any, closed, fault, given, nullable, optional, required, text,
        unknown_members, violations,
    },
};

/// The body of a change.
pub type ChangeBody = Object<ChangeMembers>;

/// The members of a change.
#[derive(Clone, Default, Deserialize, Validate)]
#[serde(default)]
pub struct ChangeMembers {
    #[garde(custom(given(text(MAX_STATUS))))]
    order_status: Sent<Word>,
    #[garde(custom(nullable(notary_number)))]
    notary_id: Sent<NotaryId>,
    #[garde(dive, custom(nullable(any)))]
    notary: Sent<Object<NotaryMembers>>,
    #[garde(custom(optional(text(MAX_REASON))))]
    reason: Sent<Word>,
}

/// Maximum length of the name of a notary in characters: as for the other persons of an order.
const MAX_NAME: usize = 200;

/// The members of the notary of a change, with the rules of the contacts of an order.
#[derive(Clone, Default, Deserialize, Validate)]
#[serde(default)]
struct NotaryMembers {
    #[garde(custom(required(text(MAX_NAME))))]
    name: Sent<Line>,
    #[garde(custom(optional(rules::phone)))]
    phone: Sent<Code>,
    #[garde(custom(optional(rules::email)))]
    email: Sent<Code>,
}

/// The body of a note.
pub type NoteBody = Object<NoteMembers>;

/// The members of a note.
#[derive(Clone, Default, Deserialize, Validate)]
#[serde(default)]
pub struct NoteMembers {
    #[garde(custom(required(rules::text(MAX_NOTE))))]
    text: Sent<Lines>,
}

/// The body of a cancellation.
pub type CancelBody = Object<CancelMembers>;

/// The members of a cancellation.
#[derive(Clone, Default, Deserialize, Validate)]
#[serde(default)]
pub struct CancelMembers {
    #[garde(custom(optional(text(MAX_REASON))))]
    reason: Sent<Word>,
}

/// A number that should be the identifier of a notary; `None` if it is no integer of 64 bits.
#[derive(Clone)]
struct NotaryId(Option<i64>);

impl Member for NotaryId {
    const EXPECTED: &'static str = "must be a positive integer or null";

    fn of_number(digits: &str) -> Sent<Self> {
        Sent::Value(Self(integer(digits)))
    }
}

fn notary_number(NotaryId(id): &NotaryId) -> Checked {
    if id.is_some_and(|id| id > 0) {
        Ok(())
    } else {
        fault(ViolationCode::OutOfRange, NotaryId::EXPECTED)
    }
}

/// The change that a request asks for. `None` leaves a member as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeRequest {
    /// The status.
    pub status: Option<OrderStatus>,
    /// The notary; `Some(None)` unassigns.
    pub notary_id: Option<Option<i64>>,
    /// Who the notary is; `Some(None)` forgets it.
    pub notary: Option<Option<Notary>>,
    /// The reason why the documents are not signed, for the history and the mails.
    pub reason: Option<String>,
}

/// A note.
#[derive(Clone, PartialEq, Eq)]
pub struct NoteRequest {
    /// Its text.
    pub text: String,
}

conceal!(NoteRequest);

/// A cancellation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CancelRequest {
    /// The reason, for the history and the mails.
    pub reason: Option<String>,
}

impl ChangeRequest {
    /// Reads the body of a change. `notary_id: null` unassigns, and `order_status: null` is a
    /// violation, because an order always has a status. Only a change to `DID_NOT_SIGN` has a reason. A blank one
    /// is none.
    ///
    /// # Errors
    /// All violations.
    pub fn parse(body: ChangeBody) -> Result<Self, Vec<Violation>> {
        let mut violations = violations(&body);
        violations.extend(unknown_members(&body, ""));
        violations
            .extend(body.notary.value().into_iter().flat_map(|it| unknown_members(it, "/notary")));
        let ChangeMembers { order_status, notary_id, notary, reason } = body.members;
        let status = order_status.into_value().and_then(|text| OrderStatus::named(text.into()));
        if !matches!(reason, Sent::Absent) && status != Some(OrderStatus::DID_NOT_SIGN) {
            violations.retain(|violation| violation.pointer != "/reason");
            violations.push(Violation {
                pointer: "/reason".into(),
                code: ViolationCode::UnknownMember,
                detail: "is a member of this request only beside DID_NOT_SIGN".into(),
            });
        }
        if !violations.is_empty() {
            return Err(violations);
        }
        Ok(Self {
            status,
            notary_id: match notary_id {
                Sent::Null => Some(None),
                sent => sent.into_value().map(|NotaryId(id)| id),
            },
            notary: match notary {
                Sent::Null => Some(None),
                sent => sent.into_value().map(|notary| notary.members.into_notary()),
            },
            reason: reason.into_value().map(Into::into),
        })
    }
}

impl NotaryMembers {
    /// Returns the notary; `None` without a name.
    fn into_notary(self) -> Option<Notary> {
        Some(Notary {
            name: self.name.into_value()?.into(),
            phone: self.phone.into_value().map(Into::into),
            email: self.email.into_value().map(|email| EmailAddress::from_stored(email.into())),
        })
    }
}

impl NoteRequest {
    /// Reads the body of a note.
    ///
    /// # Errors
    /// All violations.
    pub fn parse(body: NoteBody) -> Result<Self, Vec<Violation>> {
        closed(&body)?;
        Ok(Self { text: body.members.text.into_value().map(Into::into).unwrap_or_default() })
    }

    /// Reads a note: 1 to 5,000 characters without control characters other than line ends and tabs.
    ///
    /// # Errors
    /// The fault of the text.
    pub fn read(sent: &str) -> Result<Self, Fault> {
        let blank = || (ViolationCode::Blank, "must not be blank".into());
        let note = Lines::of_text(sent.to_owned()).into_value().ok_or_else(blank)?;
        text(MAX_NOTE)(&note)?;
        Ok(Self { text: note.into() })
    }
}

impl CancelRequest {
    /// Reads the body of a cancellation. A blank reason is none.
    ///
    /// # Errors
    /// All violations.
    pub fn parse(body: CancelBody) -> Result<Self, Vec<Violation>> {
        closed(&body)?;
        Ok(Self { reason: body.members.reason.into_value().map(Into::into) })
    }
}

/// Reads a status: 1 to 50 characters without control characters. A near spelling of a usual status is
/// that status.
///
/// # Errors
/// The fault of the text.
pub fn read_status(sent: &str) -> Result<OrderStatus, Fault> {
    let blank = || (ViolationCode::Blank, "must not be blank".into());
    let status = Word::of_text(sent.to_owned()).into_value().ok_or_else(blank)?;
    text(MAX_STATUS)(&status)?;
    OrderStatus::named(status.into()).ok_or_else(blank)
}

/// Reads a reason: at most 500 characters without control characters. A blank one is none.
///
/// # Errors
/// The fault of the text.
pub fn read_reason(sent: &str) -> Result<Option<String>, Fault> {
    let reason = Word::of_text(sent.to_owned()).into_value();
    reason.map(|reason| text(MAX_REASON)(&reason).map(|()| reason.into())).transpose()
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn faults<T>(parsed: Result<T, Vec<Violation>>) -> Vec<(String, &'static str)> {
        let violations = parsed.err().unwrap_or_default().into_iter();
        violations.map(|fault| (fault.pointer.into_owned(), fault.code.as_str())).collect()
    }

    fn body<T: DeserializeOwned>(json: &Value) -> Object<T> {
        serde_json::from_str(&json.to_string()).unwrap()
    }

    #[test]
    fn every_member_is_read() {
        let status = OrderStatus::from_stored("EN ROUTE".to_owned());
        for (sent, status, notary_id) in [
            (json!({}), None, None),
            (
                json!({ "order_status": " EN\u{200b} ROUTE ", "notary_id": 7 }),
                status,
                Some(Some(7)),
            ),
            (json!({ "notary_id": 7.0 }), None, Some(Some(7))),
            (json!({ "notary_id": null }), None, Some(None)),
        ] {
            let change = ChangeRequest::parse(body(&sent));
            let expected = ChangeRequest { status, notary_id, ..ChangeRequest::default() };
            assert_eq!(change, Ok(expected), "{sent}");
        }
        for (sent, reason) in [
            (json!({}), None),
            (json!({ "reason": null }), None),
            (json!({ "reason": " " }), None),
            (json!({ "reason": " ill " }), Some("ill".to_owned())),
        ] {
            assert_eq!(CancelRequest::parse(body(&sent)), Ok(CancelRequest { reason }), "{sent}");
        }
    }

    /// As for a cancellation.
    #[test]
    fn order_that_is_not_signed_has_a_reason() {
        for (reason, expected) in [
            (json!(" ill "), Ok(Some("ill".to_owned()))),
            (json!(" "), Ok(None)),
            (json!(null), Ok(None)),
            (json!("é".repeat(501)), Err("too_long")),
            (json!("a\u{0}b"), Err("invalid_characters")),
            (json!(7), Err("wrong_type")),
        ] {
            let sent = json!({ "order_status": "did not sign", "reason": reason });
            let parsed = ChangeRequest::parse(body(&sent));
            match expected {
                Ok(expected) => assert_eq!(parsed.map(|it| it.reason), Ok(expected), "{sent}"),
                Err(code) => assert_eq!(faults(parsed), [("/reason".to_owned(), code)], "{sent}"),
            }
        }
    }

    #[test]
    fn no_other_change_has_a_reason() {
        for mut sent in [
            json!({ "order_status": "SIGNED" }),
            json!({ "order_status": "CANCELLED" }),
            json!({ "notary_id": 7 }),
            json!({}),
        ] {
            for reason in [json!("ill"), json!(7), json!(null)] {
                sent["reason"] = reason;
                let found = faults(ChangeRequest::parse(body(&sent)));
                assert_eq!(found, [("/reason".to_owned(), "unknown_member")], "{sent}");
            }
        }
    }

    #[test]
    fn notary_follows_the_rules_of_contacts() {
        let notary = |name: &str, phone: Option<&str>, email: Option<&str>| Notary {
            name: name.to_owned(),
            phone: phone.map(str::to_owned),
            email: email.map(|email| EmailAddress::from_stored(email.to_owned())),
        };
        let (phone, email) = ("+1 555 010 0100", "pat@example.com");
        let whole = json!({ "name": " Pat\u{200b} Lee\n", "phone": phone, "email": email });
        for (sent, expected) in [
            (json!(null), None),
            (whole, Some(notary("Pat Lee", Some(phone), Some(email)))),
            (json!({ "name": "é" }), Some(notary("é", None, None))),
            (json!({ "name": "P", "phone": null, "email": "" }), Some(notary("P", None, None))),
        ] {
            let change = ChangeRequest::parse(body(&json!({ "notary": sent }))).unwrap();
            assert_eq!(change, ChangeRequest { notary: Some(expected), ..Default::default() });
        }
        for (sent, expected) in [
            (json!({}), vec![("/notary/name", "required")]),
            (json!({ "name": null }), vec![("/notary/name", "required")]),
            (json!({ "name": " " }), vec![("/notary/name", "blank")]),
            (json!({ "name": "é".repeat(201) }), vec![("/notary/name", "too_long")]),
            (json!({ "name": "P", "phone": "call me" }), vec![("/notary/phone", "invalid_format")]),
            (json!({ "name": "P", "email": "pat" }), vec![("/notary/email", "invalid_format")]),
            (
                json!({ "name": 1, "a/b": 1 }),
                vec![("/notary/name", "wrong_type"), ("/notary/a~1b", "unknown_member")],
            ),
            (json!("Pat"), vec![("/notary", "wrong_type")]),
            (json!([]), vec![("/notary", "wrong_type")]),
        ] {
            let found = faults(ChangeRequest::parse(body(&json!({ "notary": sent }))));
            let expected: Vec<_> =
                expected.into_iter().map(|(pointer, code)| (pointer.to_owned(), code)).collect();
            assert_eq!(found, expected, "{sent}");
        }
    }

    #[test]
    fn note_is_cleaned_like_instructions() {
        for (sent, expected) in [
            (json!("  Ring.\r\n\tTwice. \n"), Ok("Ring.\r\n\tTwice.")),
            (json!("a\u{2028}b"), Ok("a\nb")),
            (json!(" \n "), Err("blank")),
            (json!("\u{200b}"), Err("blank")),
            (json!(null), Err("required")),
            (json!(7), Err("wrong_type")),
            (json!("a\u{0}b"), Err("invalid_characters")),
            (json!("é".repeat(5_001)), Err("too_long")),
        ] {
            let parsed = NoteRequest::parse(body(&json!({ "text": sent })));
            let text = parsed.as_ref().map(|note| note.text.as_str());
            assert_eq!(text.ok(), expected.ok(), "{sent}");
            let code = expected.err().map(|code| vec![("/text".to_owned(), code)]);
            assert_eq!(faults(parsed), code.unwrap_or_default(), "{sent}");
            if let Some(text) = sent.as_str() {
                let read = NoteRequest::read(text);
                assert_eq!(read.as_ref().map(|note| note.text.as_str()).ok(), expected.ok());
                assert_eq!(read.err().map(|(code, _)| code.as_str()), expected.err());
            }
        }
        assert!(NoteRequest::read(&"é".repeat(5_000)).is_ok());
        let sent = json!({ "text": "a", "author": "client" });
        let expected = [("/author".to_owned(), "unknown_member")];
        assert_eq!(faults(NoteRequest::parse(body(&sent))), expected);
    }

    #[test]
    fn all_violations_are_reported_at_once() {
        let sent = json!({ "order_status": "", "notary_id": 0, "a/b~": 1, "status": "NEW" });
        let expected = [
            ("/notary_id", "out_of_range"),
            ("/order_status", "blank"),
            ("/a~1b~0", "unknown_member"),
            ("/status", "unknown_member"),
        ];
        let expected = expected.map(|(pointer, code)| (pointer.to_owned(), code));
        assert_eq!(faults(ChangeRequest::parse(body(&sent))), expected);
        let sent = json!({ "reason": 1, "notary_id": 5 });
        let expected = [("/reason", "wrong_type"), ("/notary_id", "unknown_member")];
        let expected = expected.map(|(pointer, code)| (pointer.to_owned(), code));
        assert_eq!(faults(CancelRequest::parse(body(&sent))), expected);
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
            let body = body(&json!({ "order_status": status }));
            assert_eq!(faults(ChangeRequest::parse(body)), [("/order_status".to_owned(), code)]);
        }
        for (notary, code) in [
            (json!(-1), "out_of_range"),
            (json!(1.5), "out_of_range"),
            (json!(9_223_372_036_854_775_808_u64), "out_of_range"),
            (json!("7"), "wrong_type"),
            (json!([7]), "wrong_type"),
        ] {
            let body = body(&json!({ "notary_id": notary }));
            assert_eq!(faults(ChangeRequest::parse(body)), [("/notary_id".to_owned(), code)]);
        }
        for (number, expected) in [
            ("9007199254740993.0", Some(9_007_199_254_740_993)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("1e400", None),
        ] {
            let body = serde_json::from_str(&format!(r#"{{"notary_id":{number}}}"#)).unwrap();
            let notary_id = ChangeRequest::parse(body).ok().and_then(|change| change.notary_id);
            assert_eq!(notary_id, expected.map(Some), "{number}");
        }
    }
}
