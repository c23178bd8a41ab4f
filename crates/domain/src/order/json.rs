//! The fields of a request before their rules are checked.

use std::{borrow::Cow, collections::BTreeMap, ops::Range};

use serde::{
    Deserialize, Deserializer as _, Serialize, Serializer,
    de::{Error as _, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    money::scaled,
    text::{Kind, TextRule, kind},
};

/// The value of a field that the API knows.
#[derive(Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Json {
    /// Not sent, or `null`.
    Null,
    /// Sent with another JSON type.
    Mistyped,
    /// Blank text, where the type is another.
    Blank,
    Bool(bool),
    Integer(i64),
    /// Clean, as its rule says.
    Text(String),
    /// A number as its digits. A float in between would round it.
    #[serde(serialize_with = "super::money::serialize_number")]
    Number(String),
    Object(Fields),
}

/// The fields of an object that the API knows, sorted, so that equal requests are equal in any order.
///
/// Reading never fails on well-formed JSON: a value of the wrong type becomes [`Json::Mistyped`], so
/// that all violations are reported at once.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Fields(BTreeMap<String, Json>);

/// A request to create a notarial signing order. Its fields and their rules: `text::kind`.
#[derive(Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct OrderRequest(pub(super) Fields);

impl Fields {
    /// Removes and returns the value of a field.
    pub(super) fn take(&mut self, name: &str) -> Json {
        self.0.remove(name).unwrap_or(Json::Null)
    }

    fn read(schema: &'static str, json: &str) -> serde_json::Result<Self> {
        serde_json::Deserializer::from_str(json).deserialize_map(Schema(schema))
    }
}

impl OrderRequest {
    /// Adds a text part of a form: JSON for an object, plain text for the rest. Blank means absent.
    ///
    /// # Errors
    /// The part is not valid JSON.
    pub fn add_part(&mut self, name: &'static str, text: String) -> serde_json::Result<()> {
        let trimmed = text.trim();
        let json = match kind("OrderRequest", name) {
            Some(Kind::Text(rule)) => Json::Text(rule.clean(text)),
            Some(Kind::Integer) => match TextRule::CODE.clean(text) {
                text if text.is_empty() => Json::Null,
                // `parse` also accepts a plus sign.
                text if text.starts_with('+') => Json::Mistyped,
                text => text.parse().map_or(Json::Mistyped, Json::Integer),
            },
            Some(kind) if !trimmed.is_empty() => {
                let text = whole_characters(trimmed);
                let json: &RawValue = serde_json::from_str(&text)?;
                Json::read(kind, json.get())?
            }
            _ => Json::Null,
        };
        if json != Json::Null {
            self.0.0.insert(name.to_owned(), json);
        }
        Ok(())
    }

    /// Returns the identifier of the signing service, if the request has one.
    pub(crate) fn signing_service_id(&self) -> Option<i64> {
        match self.0.0.get("signingServiceId") {
            Some(Json::Integer(id)) => Some(*id),
            _ => None,
        }
    }
}

impl Json {
    /// Reads the value of a field.
    fn read(kind: Kind, json: &str) -> serde_json::Result<Self> {
        Ok(match kind {
            _ if json == "null" => Self::Null,
            Kind::Text(rule) if json.starts_with('"') => {
                Self::Text(rule.clean(serde_json::from_str(json)?))
            }
            _ if json.starts_with('"') => {
                let text = TextRule::CODE.clean(serde_json::from_str(json)?);
                if text.is_empty() { Self::Blank } else { Self::Mistyped }
            }
            Kind::Bool if matches!(json, "true" | "false") => Self::Bool(json == "true"),
            Kind::Integer if is_number(json) => integer(json).map_or(Self::Mistyped, Self::Integer),
            Kind::Amount if is_number(json) => Self::Number(json.to_owned()),
            Kind::Object(schema) if json.starts_with('{') => {
                Self::Object(Fields::read(schema, json)?)
            }
            _ => Self::Mistyped,
        })
    }

    /// Returns whether the value is blank text.
    pub(super) fn is_blank(&self) -> bool {
        *self == Self::Blank || matches!(self, Self::Text(text) if text.is_empty())
    }

    /// Returns the text in the field `name` of an object.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let Self::Object(Fields(fields)) = self else { return None };
        match fields.get(name) {
            Some(Self::Text(text)) => Some(text),
            _ => None,
        }
    }
}

/// Returns JSON in which each escape of half a surrogate pair is one of U+FFFD, as browsers read it.
/// Clients that cut texts after a number of UTF-16 units send such halves.
pub fn whole_characters(json: &str) -> Cow<'_, str> {
    if !json.contains("\\ud") && !json.contains("\\uD") {
        return json.into();
    }
    let mut whole = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        whole.push_str(&rest[..at]);
        let escape = &rest[at..];
        let is_pair = is_escape_of(escape, 0xd800..0xdc00)
            && escape.get(6..).is_some_and(|second| is_escape_of(second, 0xdc00..0xe000));
        let escaped = escape.chars().nth(1).map_or(0, char::len_utf8);
        let end = if is_pair {
            12
        } else if is_escape_of(escape, 0xd800..0xe000) {
            whole.push_str("\\ufffd");
            rest = &escape[6..];
            continue;
        } else {
            1 + escaped
        };
        whole.push_str(&escape[..end]);
        rest = &escape[end..];
    }
    whole.push_str(rest);
    whole.into()
}

fn is_escape_of(text: &str, units: Range<u16>) -> bool {
    let digits = text.strip_prefix("\\u").and_then(|text| text.get(..4));
    let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
    unit.is_some_and(|unit| units.contains(&unit))
}

/// Returns whether a JSON value is a number.
pub(super) fn is_number(json: &str) -> bool {
    json.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

/// Reads a JSON number with a zero fraction.
pub(super) fn integer(number: &str) -> Option<i64> {
    scaled(number, 0).filter(|(_, is_cut)| !is_cut).map(|(integer, _)| integer)
}

impl<'de> Deserialize<'de> for OrderRequest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Schema("OrderRequest")).map(Self)
    }
}

/// Leaves out absent, blank and mistyped fields.
impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let has_value =
            |json: &Json| !matches!(json, Json::Null | Json::Mistyped) && !json.is_blank();
        let sent = self.0.iter().filter(|(_, json)| has_value(json));
        serializer.collect_map(sent)
    }
}

/// Reads the object with this schema in the API. Skips unknown members.
struct Schema(&'static str);

impl<'de> Visitor<'de> for Schema {
    type Value = Fields;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Fields, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some(name) = object.next_key::<String>()? {
            let Some(kind) = kind(self.0, &name) else {
                object.next_value::<IgnoredAny>()?;
                continue;
            };
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format!("duplicate field `{name}`")));
            }
            let json = Json::read(kind, object.next_value::<Box<RawValue>>()?.get());
            // The position inside the value would mislead.
            let fault = |error: serde_json::Error| {
                A::Error::custom(error.to_string().split(" at line ").next().unwrap_or_default())
            };
            fields.insert(name, json.map_err(fault)?);
        }
        fields.retain(|_, json| *json != Json::Null);
        Ok(Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn half_a_surrogate_pair_is_the_replacement_character() {
        for (json, text) in [
            (r#""X\ud83d""#, "X\u{fffd}"),
            (r#""\uDE00X""#, "\u{fffd}X"),
            (r#""\ud83d\ud83d\uDE00\ud83d\n""#, "\u{fffd}\u{1f600}\u{fffd}\n"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\\ud83d é \"\ud83dx""#, "\\ud83d é \"\u{fffd}x"),
            (r#""\ud7ff\ue000""#, "\u{d7ff}\u{e000}"),
        ] {
            let read: Value = serde_json::from_str(&whole_characters(json)).unwrap();
            assert_eq!(read, text, "{json}");
        }
        for broken in [r#""\ud83"#, r#""\ud8é""#, "\\", r#""\ud"#] {
            assert_eq!(whole_characters(broken), broken);
        }
    }

    #[test]
    fn parts_of_a_form_take_half_a_surrogate_pair() {
        let mut request = OrderRequest::default();
        let part = r#"{"userRole":"X\ud83d"}"#.to_owned();
        request.add_part("requestedBy", part).unwrap();
        let sent = serde_json::to_value(&request).unwrap();
        assert_eq!(sent["requestedBy"]["userRole"], "X\u{fffd}");
    }
}
