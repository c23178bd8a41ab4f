//! The fields of a request before their rules are checked.

use std::collections::BTreeMap;

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
                let json: &RawValue = serde_json::from_str(trimmed)?;
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
        matches!(self, Self::Text(text) if text.is_empty())
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
