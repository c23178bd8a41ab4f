//! A member of an object, as the client sent it.

use std::fmt;

use garde::Validate;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::value::RawValue;

use super::{characters::is_blank, json::integer};

/// A member of an object.
///
/// Reading well-formed JSON never fails, so that all violations are reported at once.
#[derive(Clone, Default, PartialEq)]
pub enum Sent<T> {
    /// Not sent.
    #[default]
    Absent,
    /// `null`.
    Null,
    /// Text without a visible character.
    Blank,
    /// A value of another JSON type.
    Mistyped,
    /// A value of the type.
    Value(T),
}

impl<T> Sent<T> {
    /// Returns whether the member has no value of its type.
    pub fn is_unset(&self) -> bool {
        !matches!(self, Self::Value(_))
    }

    /// Returns whether the client left the member out, or said nothing with it.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent | Self::Null | Self::Blank)
    }

    /// Returns the value, if there is one.
    pub fn value(&self) -> Option<&T> {
        if let Self::Value(value) = self { Some(value) } else { None }
    }

    /// Returns the value, if there is one.
    pub fn into_value(self) -> Option<T> {
        if let Self::Value(value) = self { Some(value) } else { None }
    }
}

impl<T> From<Option<T>> for Sent<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Self::Value)
    }
}

/// Shows no value: requests are personal data.
impl<T> fmt::Debug for Sent<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Sent(…)")
    }
}

/// A type of a member. Each method reads one JSON type; by default, the value is [`Sent::Mistyped`].
pub trait Member: Sized {
    /// The detail of a violation for other types.
    const EXPECTED: &'static str;
    /// Whether a blank value of a required member is `blank`, not `wrong_type`.
    const IS_TEXT: bool = false;

    /// Reads a text.
    fn of_text(text: String) -> Sent<Self> {
        if is_blank(&text) { Sent::Blank } else { Sent::Mistyped }
    }

    /// Reads the digits of a number. A float would round them.
    fn of_number(_digits: &str) -> Sent<Self> {
        Sent::Mistyped
    }

    /// Reads `true` or `false`.
    fn of_bool(_value: bool) -> Sent<Self> {
        Sent::Mistyped
    }

    /// Reads an array.
    fn of_array(_json: &str) -> serde_json::Result<Sent<Self>> {
        Ok(Sent::Mistyped)
    }

    /// Reads an object.
    fn of_object(_json: &str) -> serde_json::Result<Sent<Self>> {
        Ok(Sent::Mistyped)
    }
}

impl<T: Member> Sent<T> {
    /// Reads JSON without white space around it.
    pub(crate) fn of_json(json: &str) -> serde_json::Result<Self> {
        Ok(match json.as_bytes() {
            b"null" => Self::Null,
            b"true" => T::of_bool(true),
            b"false" => T::of_bool(false),
            [b'"', ..] => T::of_text(serde_json::from_str(json)?),
            [b'[', ..] => T::of_array(json)?,
            [b'{', ..] => T::of_object(json)?,
            _ => T::of_number(json),
        })
    }
}

impl<'de, T: Member> Deserialize<'de> for Sent<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        Self::of_json(json.get()).map_err(|error| {
            // The position inside the value would mislead.
            D::Error::custom(error.to_string().split(" at line ").next().unwrap_or_default())
        })
    }
}

impl<T: Serialize> Serialize for Sent<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

impl<T: Validate> Validate for Sent<T> {
    type Context = T::Context;

    fn validate_into(
        &self,
        context: &T::Context,
        parent: &mut dyn FnMut() -> garde::Path,
        report: &mut garde::Report,
    ) {
        if let Self::Value(value) = self {
            value.validate_into(context, parent, report);
        }
    }
}

impl Member for bool {
    const EXPECTED: &'static str = "must be true or false";

    fn of_bool(value: bool) -> Sent<Self> {
        Sent::Value(value)
    }
}

/// An identifier.
impl Member for i64 {
    const EXPECTED: &'static str = "must be a positive integer of at most 64 bits";

    fn of_number(digits: &str) -> Sent<Self> {
        integer(digits).map_or(Sent::Mistyped, Sent::Value)
    }
}
