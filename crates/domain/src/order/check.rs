//! Reads the fields of a request one by one and collects every violation.

use std::borrow::Cow;

use time::{Date, OffsetDateTime, Time};

use super::{
    Contact, EmailAddress, Field, FileNumber, JsonNumber, JsonType, Money, SigningServiceId,
    Violation, ViolationCode, request::ContactRequest, text::text_rule,
};
use crate::appointment::{Zone, parse_date, parse_time, parse_utc};

/// An object of the request. Reading its fields adds their violations.
pub(super) struct Object<'a> {
    violations: &'a mut Vec<Violation>,
    /// JSON Pointer to the object.
    path: String,
    /// Name of its schema in the API, by which [`text_rule`] finds the rules of its fields.
    schema: &'static str,
}

/// A type of the aggregate that a field of the request gives.
pub(super) trait Read: Sized {
    /// The JSON type of the field.
    type Json: for<'de> JsonType<'de>;

    /// Reads the value of the field `name`. Returns `None` after a violation, and for an object
    /// without any value.
    fn read(json: Self::Json, object: &mut Object<'_>, name: &str) -> Option<Self>;
}

impl<'a> Object<'a> {
    /// Returns the whole request.
    pub(super) fn root(violations: &'a mut Vec<Violation>) -> Self {
        Self { violations, path: String::new(), schema: "OrderRequest" }
    }

    /// Returns the object in the field `name`.
    pub(super) fn member(&mut self, name: &str, schema: &'static str) -> Object<'_> {
        Object { path: format!("{}/{name}", self.path), violations: self.violations, schema }
    }

    pub(super) fn report(
        &mut self,
        name: &str,
        code: ViolationCode,
        detail: impl Into<Cow<'static, str>>,
    ) {
        let pointer = format!("{}/{name}", self.path).into();
        self.violations.push(Violation { pointer, code, detail: detail.into() });
    }

    /// Returns the value, or reports the fault.
    pub(super) fn check<T>(
        &mut self,
        name: &str,
        value: Result<T, (ViolationCode, impl Into<Cow<'static, str>>)>,
    ) -> Option<T> {
        value.map_err(|(code, detail)| self.report(name, code, detail)).ok()
    }

    /// Reads a field. Blank text means absent.
    pub(super) fn optional<T: Read>(&mut self, name: &str, field: Field<T::Json>) -> Option<T> {
        match field {
            Field::Absent => None,
            Field::Value(json) if json.is_blank() => None,
            field => self.read(name, field),
        }
    }

    /// Reads a field that must be there and not blank.
    pub(super) fn required<T: Read>(&mut self, name: &str, field: Field<T::Json>) -> Option<T> {
        let fault = match field {
            Field::Absent => (ViolationCode::Required, "is required"),
            Field::Value(json) if json.is_blank() => (ViolationCode::Blank, "must not be blank"),
            field => return self.read(name, field),
        };
        self.check(name, Err(fault))
    }

    /// Reads a field that is there and not blank.
    fn read<T: Read>(&mut self, name: &str, field: Field<T::Json>) -> Option<T> {
        if let Field::Value(json) = field {
            return T::read(json, self, name);
        }
        let detail = format!("must be {}", T::Json::EXPECTED);
        self.check(name, Err((ViolationCode::WrongType, detail)))
    }
}

impl Read for String {
    type Json = Self;
    fn read(json: Self, object: &mut Object<'_>, name: &str) -> Option<Self> {
        let text = json.trim();
        let checked = text_rule(object.schema, name).check(text);
        let is_trimmed = text.len() == json.len();
        let trimmed = if is_trimmed { json } else { text.to_owned() };
        object.check(name, checked.map(|()| trimmed))
    }
}

/// Reads types that a text in a certain format gives.
macro_rules! read_text {
    ($($name:ty, $parse:expr, $code:ident, $detail:literal;)*) => {$(
        impl Read for $name {
            type Json = String;
            fn read(json: String, object: &mut Object<'_>, name: &str) -> Option<Self> {
                let text = String::read(json, object, name)?;
                object.check(name, $parse(text).ok_or((ViolationCode::$code, $detail)))
            }
        }
    )*};
}
read_text! {
    EmailAddress, |text| Self::try_from(text).ok(),
        InvalidFormat, "must be an e-mail address";
    Date, |text: String| parse_date(&text),
        InvalidFormat, "must be a date of the form YYYY-MM-DD";
    Time, |text: String| parse_time(&text),
        InvalidFormat, "must be a time of the form HH:MM, from 00:00 to 23:59";
    OffsetDateTime, |text: String| parse_utc(&text),
        InvalidFormat, "must be an ISO 8601 datetime in UTC, such as 2026-12-01T19:30:00Z";
    Zone, |text: String| Self::named(&text),
        UnknownTimeZone, "must be an IANA time zone identifier, such as America/Chicago";
}

impl Read for bool {
    type Json = Self;
    fn read(json: Self, _: &mut Object<'_>, _: &str) -> Option<Self> {
        Some(json)
    }
}

/// Every integer of a request is an identifier.
impl Read for i64 {
    type Json = Self;
    fn read(json: Self, object: &mut Object<'_>, name: &str) -> Option<Self> {
        let fault = (ViolationCode::OutOfRange, "must be a positive integer");
        object.check(name, (json > 0).then_some(json).ok_or(fault))
    }
}

impl Read for FileNumber {
    type Json = String;
    fn read(json: String, object: &mut Object<'_>, name: &str) -> Option<Self> {
        String::read(json, object, name).and_then(Self::new)
    }
}

impl Read for SigningServiceId {
    type Json = i64;
    fn read(json: i64, object: &mut Object<'_>, name: &str) -> Option<Self> {
        i64::read(json, object, name).map(Self)
    }
}

impl Read for Money {
    type Json = JsonNumber;
    fn read(json: JsonNumber, object: &mut Object<'_>, name: &str) -> Option<Self> {
        let money = json.to_money();
        object.check(name, money.map_err(|error| (ViolationCode::OutOfRange, error.to_string())))
    }
}

impl Read for Contact {
    type Json = ContactRequest;
    fn read(json: ContactRequest, object: &mut Object<'_>, name: &str) -> Option<Self> {
        let mut object = object.member(name, "ContactRequest");
        let contact = Self {
            name: object.optional("contact_name", json.contact_name),
            phone: object.optional("contact_phone", json.contact_phone),
            email: object.optional("contact_email", json.contact_email),
        };
        (contact != Self::default()).then_some(contact)
    }
}
