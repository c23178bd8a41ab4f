//! Rules of members, for `garde` attributes.
//!
//! [`required`] and [`optional`] say whether a member must be there. The rule inside checks its value.

use std::borrow::Cow;

use garde::rules::email::parse_email;

use super::{
    object::{Object, pointer},
    phone::phone_parts,
    sent::{Member, Sent},
    text::{Code, Text},
    violation::{Violation, ViolationCode},
};
use crate::appointment::{Zone, parse_date, parse_time, parse_utc};

/// The code and the detail of a violation.
pub type Fault = (ViolationCode, Cow<'static, str>);

/// Whether a value follows a rule.
pub type Checked = Result<(), Fault>;

/// Returns a rule for a member that must be there.
pub fn required<T: Member>(
    rule: impl FnOnce(&T) -> Checked,
) -> impl FnOnce(&Sent<T>, &()) -> garde::Result {
    move |sent, ()| match sent {
        Sent::Absent | Sent::Null => fail(ViolationCode::Required, "is required"),
        sent => value(sent, rule),
    }
}

/// Returns a rule for a member that may be absent, `null` or blank.
pub fn optional<T: Member>(
    rule: impl FnOnce(&T) -> Checked,
) -> impl FnOnce(&Sent<T>, &()) -> garde::Result {
    move |sent, ()| if sent.is_absent() { Ok(()) } else { value(sent, rule) }
}

/// Returns a rule for a member that may be absent or `null`, but not blank.
pub fn nullable<T: Member>(
    rule: impl FnOnce(&T) -> Checked,
) -> impl FnOnce(&Sent<T>, &()) -> garde::Result {
    move |sent, ()| match sent {
        Sent::Absent | Sent::Null => Ok(()),
        sent => value(sent, rule),
    }
}

/// Returns a rule for a member that may be absent, but not `null`.
pub(crate) fn given<T: Member>(
    rule: impl FnOnce(&T) -> Checked,
) -> impl FnOnce(&Sent<T>, &()) -> garde::Result {
    move |sent, ()| if matches!(sent, Sent::Absent) { Ok(()) } else { value(sent, rule) }
}

fn value<T: Member>(sent: &Sent<T>, rule: impl FnOnce(&T) -> Checked) -> garde::Result {
    match sent {
        Sent::Value(value) => rule(value).map_err(error),
        Sent::Blank if T::IS_TEXT => fail(ViolationCode::Blank, "must not be blank"),
        _ => fail(ViolationCode::WrongType, T::EXPECTED),
    }
}

fn fail(code: ViolationCode, detail: &'static str) -> garde::Result {
    Err(error((code, detail.into())))
}

/// Returns a fault as the result of a rule.
pub fn fault(code: ViolationCode, detail: impl Into<Cow<'static, str>>) -> Checked {
    Err((code, detail.into()))
}

/// Ends the code in the message of an error. No text of a rule has this character.
const CODE_END: char = '\u{1f}';

/// Carries the code in the message, before the detail: an error of `garde` has no other place.
fn error((code, detail): Fault) -> garde::Error {
    garde::Error::new(format!("{}{CODE_END}{detail}", code.as_str()))
}

/// Returns all violations of the rules of a request. An error without a code is one, too.
pub fn violations(request: &impl garde::Validate<Context = ()>) -> Vec<Violation> {
    let report = request.validate().err().map(garde::Report::into_inner).unwrap_or_default();
    let violation = |(path, error): (garde::Path, garde::Error)| {
        let message = error.message();
        let coded = message.split_once(CODE_END);
        let coded = coded.and_then(|(code, detail)| Some((ViolationCode::named(code)?, detail)));
        let (code, detail) = coded.unwrap_or((ViolationCode::InvalidFormat, message));
        // `a.b[0]` becomes `/a/b/0`.
        let pointer = format!("/{path}").replace(['.', '['], "/").replace(']', "").into();
        Violation { pointer, code, detail: detail.to_owned().into() }
    };
    report.into_iter().map(violation).collect()
}

/// Checks a request that must not have unknown members.
///
/// # Errors
/// All violations.
pub fn closed<T: garde::Validate<Context = ()>>(request: &Object<T>) -> Result<(), Vec<Violation>> {
    let mut violations = violations(request);
    violations.extend(unknown_members(request, ""));
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

/// Returns the violations of an object at a JSON Pointer that must not have unknown members.
pub fn unknown_members<T>(object: &Object<T>, at: &str) -> impl Iterator<Item = Violation> {
    object.unknown.iter().map(move |member| Violation {
        pointer: pointer(at, &member.name).into(),
        code: ViolationCode::UnknownMember,
        detail: "is not a member of this request".into(),
    })
}

fn check(follows: bool, code: ViolationCode, detail: &'static str) -> Checked {
    if follows { Ok(()) } else { fault(code, detail) }
}

/// Accepts any value of the type.
pub fn any<T>(_: &T) -> Checked {
    Ok(())
}

/// Returns the rule of a text of at most `max` characters (Unicode scalar values).
pub fn text<T: Text>(max: usize) -> impl Fn(&T) -> Checked {
    move |text| {
        if let Some(detail) = text.forbidden_character() {
            return fault(ViolationCode::InvalidCharacters, detail);
        }
        // A text has no more characters than bytes, and only characters must be counted.
        if text.len() > max && text.chars().count() > max {
            let detail = format!("must have at most {max} characters");
            return fault(ViolationCode::TooLong, detail);
        }
        Ok(())
    }
}

/// Returns the rule of a text in a format.
fn format<T: Text>(
    value: &T,
    max: usize,
    has_format: impl FnOnce(&str) -> bool,
    detail: &'static str,
) -> Checked {
    text(max)(value)?;
    check(has_format(value), ViolationCode::InvalidFormat, detail)
}

/// Maximum length of a text in a format that has no maximum of its own, in characters.
const MAX_CODE: usize = 100;

/// An e-mail address.
pub(crate) fn email(text: &Code) -> Checked {
    format(text, MAX_EMAIL, is_email, "must be an e-mail address")
}

/// Maximum length of an e-mail address in characters (RFC 5321 section 4.5.3.1.3).
const MAX_EMAIL: usize = 254;

/// Returns whether a text is an e-mail address: printable ASCII, one `@`, no white space, no address
/// literal, at most 254 characters.
pub(crate) fn is_email(text: &str) -> bool {
    // Address literals of SMTP are no mailboxes in practice, and programs parse them differently.
    let literal = text.contains(['[', ']']);
    let dots_in_place = text.split_once('@').is_some_and(|(user, _)| {
        !user.starts_with('.') && !user.ends_with('.') && !user.contains("..")
    });
    text.len() <= MAX_EMAIL && !literal && dots_in_place && parse_email(text).is_ok()
}

/// A phone number.
pub(crate) fn phone(text: &Code) -> Checked {
    let detail = "must be a phone number of 7 to 15 digits, with the usual punctuation and an \
                  optional extension";
    format(text, 50, |text| phone_parts(text).is_some(), detail)
}

/// A state code of the United States.
pub(crate) fn state_code(text: &Code) -> Checked {
    let is_state =
        |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_alphabetic());
    format(text, MAX_CODE, is_state, "must be a state code of two letters")
}

/// A ZIP code.
pub(crate) fn zip_code(text: &Code) -> Checked {
    let is_zipcode = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    format(text, MAX_CODE, is_zipcode, "must be a ZIP code of five digits")
}

/// The first year of a signing. An earlier one is a typing error, such as `0026` or `0206`.
const FIRST_YEAR: i32 = 1900;

/// The date of a signing.
pub(crate) fn signing_date(text: &Code) -> Checked {
    let is_date = |text: &str| parse_date(text).is_some();
    format(text, MAX_CODE, is_date, "must be a date of the form YYYY-MM-DD")?;
    let is_early = parse_date(text).is_some_and(|date| date.year() < FIRST_YEAR);
    let detail = "must not be before the year 1900; check the year";
    check(!is_early, ViolationCode::OutOfRange, detail)
}

/// A time on the clock.
pub(crate) fn time(text: &Code) -> Checked {
    let is_time = |text: &str| parse_time(text).is_some();
    format(text, MAX_CODE, is_time, "must be a time of the form HH:MM, from 00:00 to 23:59")
}

/// An instant in UTC.
pub(crate) fn instant(text: &Code) -> Checked {
    let detail = "must be an ISO 8601 datetime in UTC, such as 2026-12-01T19:30:00Z";
    format(text, MAX_CODE, |text| parse_utc(text).is_some(), detail)
}

/// A time zone.
pub(crate) fn time_zone(value: &Code) -> Checked {
    text(MAX_CODE)(value)?;
    let detail = "must be an IANA time zone identifier, such as America/Chicago";
    check(Zone::named(value).is_some(), ViolationCode::UnknownTimeZone, detail)
}

/// An identifier.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature of a rule")]
pub(crate) fn positive(id: &i64) -> Checked {
    check(*id > 0, ViolationCode::OutOfRange, "must be a positive integer")
}

/// Returns the rule of a text that is one of a few.
pub(crate) fn one_of(allowed: &'static [&'static str]) -> impl Fn(&Code) -> Checked {
    move |value| {
        text(MAX_CODE)(value)?;
        let detail = || format!("must be one of {}", allowed.join(", "));
        if allowed.contains(&&**value) {
            Ok(())
        } else {
            fault(ViolationCode::NotAllowed, detail())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(garde::Validate)]
    struct Request {
        #[garde(custom(without_code))]
        plain: u8,
        #[garde(range(min = 1))]
        of_garde: u8,
        #[garde(custom(with_code))]
        coded: u8,
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature of a rule")]
    fn without_code(_: &u8, (): &()) -> garde::Result {
        Err(garde::Error::new("required some text"))
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature of a rule")]
    fn with_code(_: &u8, (): &()) -> garde::Result {
        fail(ViolationCode::OutOfRange, "must be a positive integer")
    }

    #[test]
    fn error_without_a_code_is_a_violation() {
        let found = violations(&Request { plain: 0, of_garde: 0, coded: 0 });
        let found = found.iter().map(|it| (&*it.pointer, it.code, &*it.detail));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [
                ("/coded", ViolationCode::OutOfRange, "must be a positive integer"),
                ("/of_garde", ViolationCode::InvalidFormat, "lower than 1"),
                ("/plain", ViolationCode::InvalidFormat, "required some text"),
            ]
        );
    }

    #[test]
    fn addresses_that_break_mail_headers_are_rejected() {
        for valid in [
            "a@b",
            "jane.doe+tag@title.example.com",
            "o'hara@example.com",
            "x_y-z@sub-domain.example.org",
        ] {
            assert!(is_email(valid), "{valid}");
        }
        let long = format!("{}@example.com", "a".repeat(65));
        for invalid in [
            "",
            "a",
            "@b",
            "a@",
            "a@@b",
            "a b@c",
            "a@b c",
            "a@b\r\nBcc: c@d",
            "a\n@b",
            "\"a\"@b",
            "a@-b",
            "a@b.",
            "é@b",
            "a@é",
            "a,b@c",
            "<a@b>",
            ".a@b",
            "a.@b",
            "a..b@c",
            &long,
        ] {
            assert!(!is_email(invalid), "{invalid}");
        }
    }
}
