//! A field of a request before its type is checked.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// A field of a request.
///
/// Reading never fails on well-formed JSON: a value of the wrong type becomes [`Field::Mistyped`],
/// so that all violations are reported at once.
#[derive(Clone, PartialEq, Default)]
pub enum Field<T> {
    /// Not sent, or `null`.
    #[default]
    Absent,
    /// Sent with another JSON type.
    Mistyped,
    /// Sent.
    Value(T),
}

/// Requests hold personal data, so `Debug` hides the value.
impl<T> fmt::Debug for Field<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Absent => "Absent",
            Self::Mistyped => "Mistyped",
            Self::Value(_) => "Value(…)",
        })
    }
}

impl<T> Field<T> {
    /// Returns whether the field has no value of its type.
    pub(super) fn is_absent(&self) -> bool {
        !matches!(self, Self::Value(_))
    }
}

impl Field<i64> {
    /// Reads an identifier in decimal digits, as a form sends it. Blank means absent.
    pub fn from_decimal(text: &str) -> Self {
        let text = text.trim();
        if text.is_empty() {
            Self::Absent
        } else {
            let digits =
                text.strip_prefix('-').unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| digits).map_or(Self::Mistyped, Self::Value)
        }
    }
}

/// A type that a field may have. Each method returns `None` for a value of another type.
pub trait JsonType<'de>: Sized {
    /// Name of the expected type in a violation, such as "a string".
    const EXPECTED: &'static str;

    /// Returns whether the value is blank text.
    fn is_blank(&self) -> bool {
        false
    }
    /// Converts a JSON string.
    fn from_text(_: String) -> Option<Self> {
        None
    }
    /// Converts a JSON boolean.
    fn from_bool(_: bool) -> Option<Self> {
        None
    }
    /// Converts an integral JSON number.
    fn from_integer(_: i64) -> Option<Self> {
        None
    }
    /// Reads a field of this type.
    fn deserialize_field<D: Deserializer<'de>>(deserializer: D) -> Result<Field<Self>, D::Error> {
        // As an option, because serde calls `visit_none` for a field that was not sent.
        deserializer.deserialize_option(FieldVisitor(PhantomData))
    }
    /// Reads a JSON object. Fails on a syntax error only.
    fn from_object<A: MapAccess<'de>>(mut object: A) -> Result<Option<Self>, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

impl JsonType<'_> for String {
    const EXPECTED: &'static str = "a string";
    fn is_blank(&self) -> bool {
        self.trim_start().is_empty()
    }
    fn from_text(text: String) -> Option<Self> {
        Some(text)
    }
}

impl JsonType<'_> for bool {
    const EXPECTED: &'static str = "true or false";
    fn from_bool(value: bool) -> Option<Self> {
        Some(value)
    }
}

impl JsonType<'_> for i64 {
    const EXPECTED: &'static str = "a positive integer of at most 64 bits";
    fn from_integer(value: i64) -> Option<Self> {
        Some(value)
    }
}

impl<'de, T: JsonType<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize_field(deserializer)
    }
}

impl<T: Serialize> Serialize for Field<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(serializer),
            Self::Absent | Self::Mistyped => serializer.serialize_none(),
        }
    }
}

struct FieldVisitor<T>(PhantomData<T>);

impl<T> From<Option<T>> for Field<T> {
    /// Converts `None`, which stands for a value of another type, to `Mistyped`.
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Mistyped, Self::Value)
    }
}

impl<'de, T: JsonType<'de>> Visitor<'de> for FieldVisitor<T> {
    type Value = Field<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(T::EXPECTED)
    }
    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Field::Absent)
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(T::from_bool(value).into())
    }
    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(T::from_integer(value).into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(i64::try_from(value).ok().and_then(T::from_integer).into())
    }
    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Field::Mistyped)
    }
    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(T::from_text(value.to_owned()).into())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        while sequence.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Field::Mistyped)
    }
    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
        T::from_object(object).map(Field::from)
    }
}
