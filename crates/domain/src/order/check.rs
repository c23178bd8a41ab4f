//! Reads the fields of a request one by one and collects every violation.

use std::borrow::Cow;

use time::{Date, OffsetDateTime, Time};

use super::{
    EmailAddress, Money, Violation, ViolationCode,
    json::{Fields, Json},
    text::{Kind, kind},
};
use crate::appointment::{Zone, parse_date, parse_time, parse_utc};

/// An object of the request. Reading its fields adds their violations.
pub(super) struct Object<'a> {
    fields: Fields,
    violations: &'a mut Vec<Violation>,
    /// JSON Pointer to the object.
    path: String,
    /// Name of its schema in the API.
    schema: &'static str,
}

/// A type of the aggregate that a field of the request gives.
pub(super) trait Read: Sized {
    /// Reads the value of the field `name`, which has the [`kind`] of the field. Returns `None` after
    /// a violation, and for an object without any value.
    fn read(json: Json, object: &mut Object<'_>, name: &str) -> Option<Self>;
}

impl<'a> Object<'a> {
    /// Returns the whole request.
    pub(super) fn root(fields: Fields, violations: &'a mut Vec<Violation>) -> Self {
        Self { fields, violations, path: String::new(), schema: "OrderRequest" }
    }

    /// Returns the object in the field `name`.
    pub(super) fn member(&mut self, name: &str, json: Json) -> Option<Object<'_>> {
        let (Json::Object(fields), Kind::Object(schema)) = (json, kind(self.schema, name)?) else {
            return None;
        };
        let path = format!("{}/{name}", self.path);
        Some(Object { fields, violations: self.violations, path, schema })
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
    pub(super) fn optional<T: Read>(&mut self, name: &str) -> Option<T> {
        match self.fields.take(name) {
            Json::Null => None,
            json if json.is_blank() => None,
            json => self.read(name, json),
        }
    }

    /// Reads a field that must be there and not blank.
    pub(super) fn required<T: Read>(&mut self, name: &str) -> Option<T> {
        let fault = match self.fields.take(name) {
            Json::Null => (ViolationCode::Required, "is required"),
            Json::Text(text) if text.is_empty() => (ViolationCode::Blank, "must not be blank"),
            json => return self.read(name, json),
        };
        self.check(name, Err(fault))
    }

    fn read<T: Read>(&mut self, name: &str, json: Json) -> Option<T> {
        if !matches!(json, Json::Mistyped | Json::Blank) {
            return T::read(json, self, name);
        }
        let expected = match kind(self.schema, name)? {
            Kind::Text(_) => "must be a string",
            Kind::Bool => "must be true or false",
            Kind::Integer => "must be a positive integer of at most 64 bits",
            Kind::Amount => "must be a number",
            Kind::Object(_) => "must be an object",
        };
        self.check(name, Err((ViolationCode::WrongType, expected)))
    }
}

impl Read for Json {
    fn read(json: Json, _: &mut Object<'_>, _: &str) -> Option<Self> {
        Some(json)
    }
}

impl Read for String {
    fn read(json: Json, object: &mut Object<'_>, name: &str) -> Option<Self> {
        let (Json::Text(text), Kind::Text(rule)) = (json, kind(object.schema, name)?) else {
            return None;
        };
        object.check(name, rule.check(&text).map(|()| text))
    }
}

/// Reads types that a text in a certain format gives.
macro_rules! read_text {
    ($($name:ty, $parse:expr, $code:ident, $detail:literal;)*) => {$(
        impl Read for $name {
            fn read(json: Json, object: &mut Object<'_>, name: &str) -> Option<Self> {
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
    fn read(json: Json, _: &mut Object<'_>, _: &str) -> Option<Self> {
        Some(json == Json::Bool(true))
    }
}

impl Read for i64 {
    fn read(json: Json, object: &mut Object<'_>, name: &str) -> Option<Self> {
        let Json::Integer(id) = json else { return None };
        let fault = (ViolationCode::OutOfRange, "must be a positive integer");
        object.check(name, (id > 0).then_some(id).ok_or(fault))
    }
}

impl Read for Money {
    fn read(json: Json, object: &mut Object<'_>, name: &str) -> Option<Self> {
        let Json::Number(number) = json else { return None };
        let money = Self::from_number(&number);
        object.check(name, money.map_err(|error| (ViolationCode::OutOfRange, error.to_string())))
    }
}
