//! An object of a request, with the members that its type does not know.

use std::{borrow::Cow, fmt, iter, ops};

use garde::Validate;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{
        DeserializeOwned, DeserializeSeed, IntoDeserializer as _, MapAccess, Visitor,
        value::{self, MapDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::{Map, Value, value::RawValue};

use super::{
    characters::is_blank,
    sent::{Member, Sent},
};

/// An object of a request. Only its known members are written.
#[derive(Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Object<T> {
    /// The members that the API knows.
    pub members: T,
    /// The first members that it does not know, in the order of the request.
    #[serde(skip)]
    pub unknown: Vec<Unknown>,
}

/// A member that the API does not know.
#[derive(Clone, PartialEq, Eq)]
pub struct Unknown {
    /// Its name.
    pub name: String,
    json: String,
}

/// Maximum number of unknown members of an object that are looked at. More would only cost time.
const MAX_UNKNOWN: usize = 100;
/// The longest text that is read as an object, in bytes.
const MAX_TEXT_OBJECT: usize = 4096;
/// How many characters of another text are kept.
const MAX_BEGINNING: usize = 64;

impl Unknown {
    /// Returns the unknown member of a text, which is JSON if it is an object. Keeps only the beginning of
    /// other texts: a form may have many, and is held while its documents arrive.
    pub(crate) fn of_text(name: &str, text: &str) -> Self {
        let is_object = text.len() <= MAX_TEXT_OBJECT
            && serde_json::from_str::<Map<String, Value>>(text).is_ok();
        let beginning = || Value::from(text.trim().chars().take(MAX_BEGINNING).collect::<String>());
        let json = if is_object { text.to_owned() } else { beginning().to_string() };
        Self { name: name.to_owned(), json }
    }

    /// Returns how many bytes it holds.
    pub fn size(&self) -> usize {
        self.name.len() + self.json.len()
    }

    /// Returns its value. One that is nested too deep to be read is `null`.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_str(&self.json).unwrap_or_default()
    }
}

/// Returns the JSON Pointer to a member of the object at `object`.
pub(crate) fn pointer(object: &str, name: &str) -> String {
    // RFC 6901, section 3.
    format!("{object}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Returns whether a value says something: it is not `null`, a blank text, or a list or object of such.
pub(crate) fn says(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !is_blank(text),
        Value::Array(items) => items.iter().any(says),
        Value::Object(members) => members.values().any(says),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

impl<T> ops::Deref for Object<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.members
    }
}

impl<T> ops::DerefMut for Object<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.members
    }
}

impl<T> From<T> for Object<T> {
    fn from(members: T) -> Self {
        Self { members, unknown: Vec::new() }
    }
}

/// Shows no value: requests are personal data.
impl<T> fmt::Debug for Object<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Object(…)")
    }
}

impl<T: DeserializeOwned> Member for Object<T> {
    const EXPECTED: &'static str = "must be an object";

    fn of_object(json: &str) -> serde_json::Result<Sent<Self>> {
        serde_json::from_str(json).map(Sent::Value)
    }
}

impl<T: Validate> Validate for Object<T> {
    type Context = T::Context;

    fn validate_into(
        &self,
        context: &T::Context,
        parent: &mut dyn FnMut() -> garde::Path,
        report: &mut garde::Report,
    ) {
        self.members.validate_into(context, parent, report);
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut seen = Seen::default();
        let members = T::deserialize(Struct { deserializer, seen: &mut seen })?;
        Ok(Self { members, unknown: seen.unknown })
    }
}

/// Returns the names of the members that a type knows.
pub(crate) fn names<T: DeserializeOwned>() -> &'static [&'static str] {
    let empty = MapDeserializer::<_, value::Error>::new(iter::empty::<(&str, &str)>());
    let mut seen = Seen::default();
    let _ = T::deserialize(Struct { deserializer: empty, seen: &mut seen });
    seen.known
}

/// The members that the type of an object knows, and those of the object that it does not know.
#[derive(Default)]
struct Seen {
    known: &'static [&'static str],
    unknown: Vec<Unknown>,
}

/// The deserializer of a struct. It hands over the known members and collects the others.
struct Struct<'a, D> {
    deserializer: D,
    seen: &'a mut Seen,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Struct<'_, D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.seen.known = known;
        self.deserializer.deserialize_map(Members { inner: visitor, seen: self.seen })
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.deserializer.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The visitor of the object, and then the access to its members.
struct Members<'a, I> {
    inner: I,
    seen: &'a mut Seen,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Members<'_, V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Members { inner: object, seen: self.seen })
    }
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Members<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(Name(name)) = self.inner.next_key()? {
            if self.seen.known.contains(&&*name) {
                return seed.deserialize(name.into_deserializer()).map(Some);
            }
            let json: Box<RawValue> = self.inner.next_value()?;
            if self.seen.unknown.len() < MAX_UNKNOWN {
                let json = json.get().to_owned();
                self.seen.unknown.push(Unknown { name: name.into_owned(), json });
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.inner.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Known {
        known: Sent<bool>,
    }

    #[test]
    fn unknown_text_is_an_object_or_its_beginning() {
        let value = |text: &str| Unknown::of_text("a", text).value();
        assert_eq!(value(r#" {"b":1} "#), serde_json::json!({ "b": 1 }));
        assert_eq!(value(" en "), "en");
        let long = format!("{{\"b\":\"{}\"}}", "x".repeat(MAX_TEXT_OBJECT));
        assert_eq!(value(&long), long[..MAX_BEGINNING]);
    }

    #[test]
    fn unknown_members_are_collected() {
        let json = r#"{"a":" \t\u200b","known":true,"b":[ ],"c":{"d":1},"a":0,"e":[null],"f":{ },"g":"x"}"#;
        let object: Object<Known> = serde_json::from_str(json).unwrap();
        assert_eq!(object.known.value(), Some(&true));
        let with_content = object.unknown.iter().filter(|member| says(&member.value()));
        let found: Vec<_> = with_content.map(|member| &*member.name).collect();
        assert_eq!((found, object.unknown.len()), (vec!["c", "a", "g"], 7));
        assert!(serde_json::from_str::<Object<Known>>("[true]").is_err());
        assert_eq!(names::<Known>(), ["known"]);
        let many = format!("{{{}\"known\":true}}", "\"a\":1,".repeat(1_000));
        let object: Object<Known> = serde_json::from_str(&many).unwrap();
        assert_eq!((object.known.value(), object.unknown.len()), (Some(&true), MAX_UNKNOWN));
    }
}
