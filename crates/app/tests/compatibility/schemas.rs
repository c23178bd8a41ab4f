//! What a client would notice between two schemas.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Which way a value travels decides which change breaks: what clients send has to stay acceptable,
/// what they get has to stay what they expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Request,
    Answer,
    /// As an answer, but clients were told to expect codes that they do not know.
    Problem,
}

/// A released document and the current one. Neither has schemas that contain themselves.
#[derive(Debug, Clone, Copy)]
pub struct Documents<'a> {
    pub released: &'a Value,
    pub current: &'a Value,
}

const UPPER_LIMITS: [&str; 5] =
    ["maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties"];
const LOWER_LIMITS: [&str; 5] =
    ["minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties"];
/// What narrows a request wherever it is added or changed.
const FORMS: [&str; 6] =
    ["pattern", "format", "multipleOf", "uniqueItems", "contentMediaType", "contentEncoding"];

impl Documents<'_> {
    /// Every change between two schemas that breaks a client.
    pub fn compare(
        self,
        direction: Direction,
        place: &str,
        released: &Value,
        current: &Value,
    ) -> Vec<String> {
        let (released, current) =
            (normalized(self.released, released), normalized(self.current, current));
        let changes = match direction {
            Direction::Request => narrowed(&released, &current),
            Direction::Answer | Direction::Problem => widened(direction, &released, &current),
        };
        let mut found: Vec<String> =
            changes.into_iter().map(|change| format!("{place}: {change}")).collect();
        found.extend(self.properties(direction, place, &released, &current));
        for part in ["items", "contentSchema"] {
            if !released[part].is_null() || !current[part].is_null() {
                found.extend(self.compare(
                    direction,
                    &format!("{place}/{part}"),
                    &released[part],
                    &current[part],
                ));
            }
        }
        for choice in ["oneOf", "anyOf"] {
            found.extend(self.choice(
                direction,
                &format!("{place} {choice}"),
                &released[choice],
                &current[choice],
            ));
        }
        found
    }

    fn properties(
        self,
        direction: Direction,
        place: &str,
        released: &Value,
        current: &Value,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let (required, required_now) = (texts(&released["required"]), texts(&current["required"]));
        for (name, property) in members(&released["properties"]) {
            let place = format!("{place}/{name}");
            match current["properties"].get(name) {
                None => found.push(format!("{place}: gone")),
                Some(now) => found.extend(self.compare(direction, &place, property, now)),
            }
        }
        match direction {
            Direction::Request => found.extend(required_now.difference(&required).map(|name| {
                let change = if released["properties"].get(name).is_some() {
                    "now required"
                } else {
                    "new and required"
                };
                format!("{place}/{name}: {change}")
            })),
            Direction::Answer | Direction::Problem => {
                let absent = required
                    .difference(&required_now)
                    .filter(|name| current["properties"].get(*name).is_some());
                found.extend(absent.map(|name| format!("{place}/{name}: may be absent now")));
            }
        }
        found
    }

    /// Each variant that clients may send, or may get, has to fit one on the other side.
    fn choice(
        self,
        direction: Direction,
        place: &str,
        released: &Value,
        current: &Value,
    ) -> Option<String> {
        let (Some(before), Some(now)) = (released.as_array(), current.as_array()) else {
            return (released != current).then(|| format!("{place}: added or removed"));
        };
        let fits = |before, now| self.compare(direction, place, before, now).is_empty();
        match direction {
            Direction::Request
                if !before.iter().all(|before| now.iter().any(|now| fits(before, now))) =>
            {
                Some(format!("{place}: a variant is gone"))
            }
            Direction::Answer | Direction::Problem
                if !now.iter().all(|now| before.iter().any(|before| fits(before, now))) =>
            {
                Some(format!("{place}: a new variant"))
            }
            _ => None,
        }
    }
}

/// How a schema takes less than it took.
fn narrowed(released: &Value, current: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let lost = lost_types(released, current);
    if !lost.is_empty() {
        found.push(format!("no longer takes {}", lost.join(", ")));
    }
    if let Some(now) = values(current) {
        match values(released) {
            None => found.push("takes only certain values now".to_owned()),
            Some(before) => found.extend(
                before
                    .iter()
                    .filter(|value| !now.contains(value))
                    .map(|value| format!("no longer takes {value}")),
            ),
        }
    }
    for (limits, tighter) in
        [(UPPER_LIMITS, f64::lt as fn(&f64, &f64) -> bool), (LOWER_LIMITS, f64::gt)]
    {
        for limit in limits {
            if let Some(now) = current[limit].as_f64()
                && released[limit].as_f64().is_none_or(|before| tighter(&now, &before))
            {
                found.push(format!("{limit} is tighter"));
            }
        }
    }
    let changed = FORMS.iter().filter(|form| {
        !current[form].is_null() && current[form] != false && current[form] != released[form]
    });
    found.extend(changed.map(|form| format!("{form} is added or changed")));
    let conditions = |schema: &Value| schema["allOf"].as_array().cloned().unwrap_or_default();
    if conditions(current).iter().any(|condition| !conditions(released).contains(condition)) {
        found.push("a condition is added or changed".to_owned());
    }
    if current["additionalProperties"] == false && released["additionalProperties"] != false {
        found.push("no longer takes other properties".to_owned());
    }
    found
}

/// How a schema gives what it did not give.
fn widened(direction: Direction, released: &Value, current: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let new = lost_types(current, released);
    if !new.is_empty() {
        found.push(format!("may be {} now", new.join(", ")));
    }
    let (before, now) = (values(released), values(current));
    let may_grow = direction == Direction::Problem
        && before
            .as_ref()
            .zip(now.as_ref())
            .is_some_and(|(before, now)| before.iter().all(|value| now.contains(value)));
    if !may_grow && before.map(sorted) != now.map(sorted) {
        found.push("the enum changed".to_owned());
    }
    for form in ["format", "contentMediaType", "contentEncoding"] {
        if released[form] != current[form] {
            found.push(format!("{form} changed"));
        }
    }
    found
}

/// Types of values that the first schema has and the second has not.
fn lost_types(first: &Value, second: &Value) -> Vec<String> {
    let (first, second) = (types(first), types(second));
    if second.is_empty() {
        return Vec::new();
    }
    if first.is_empty() {
        return vec!["a value of any type".to_owned()];
    }
    let covered =
        |kind: &str| second.contains(kind) || kind == "integer" && second.contains("number");
    first.into_iter().filter(|kind| !covered(kind)).collect()
}

/// The types of a schema; none if it takes any.
fn types(schema: &Value) -> BTreeSet<String> {
    schema["type"]
        .as_str()
        .map_or_else(|| texts(&schema["type"]), |one| BTreeSet::from([one.to_owned()]))
}

/// The values that a schema is restricted to.
fn values(schema: &Value) -> Option<Vec<Value>> {
    schema.get("const").map(|one| vec![one.clone()]).or_else(|| schema["enum"].as_array().cloned())
}

fn sorted(mut values: Vec<Value>) -> Vec<Value> {
    values.sort_by_key(Value::to_string);
    values
}

/// A schema without references, with no more in `allOf` than its conditions, and with null among
/// its types rather than as a variant.
fn normalized(document: &Value, schema: &Value) -> Value {
    let mut schema = resolved(document, schema);
    if let Some(parts) = schema.as_object_mut().and_then(|schema| schema.remove("allOf")) {
        let (conditions, others): (Vec<_>, Vec<_>) =
            parts.as_array().into_iter().flatten().cloned().partition(is_condition);
        for other in others {
            merge(&mut schema, normalized(document, &other));
        }
        schema["allOf"] = conditions.into();
    }
    for choice in ["oneOf", "anyOf"] {
        let (nulls, others): (Vec<_>, Vec<_>) = schema[choice]
            .as_array()
            .into_iter()
            .flatten()
            .cloned()
            .partition(|variant| variant["type"] == "null");
        if let ([_], [other]) = (&nulls[..], &others[..]) {
            schema.as_object_mut().unwrap().remove(choice);
            let mut other = normalized(document, other);
            let types = types(&other);
            if !types.is_empty() {
                other["type"] =
                    json!(types.into_iter().chain(["null".to_owned()]).collect::<BTreeSet<_>>());
            }
            if let Some(values) = values(&other) {
                other.as_object_mut().unwrap().remove("const");
                other["enum"] = values.into_iter().chain([Value::Null]).collect();
            }
            merge(&mut schema, other);
        }
    }
    schema
}

fn is_condition(schema: &Value) -> bool {
    ["if", "not"].iter().any(|keyword| !schema[keyword].is_null())
}

/// Adds what another schema says: its properties and what it requires to those that are there, all
/// else in their place.
fn merge(schema: &mut Value, other: Value) {
    let Value::Object(other) = other else { return };
    for (keyword, value) in other {
        match (&mut schema[&keyword], value) {
            (Value::Object(own), Value::Object(more)) => own.extend(more),
            (Value::Array(own), Value::Array(more)) if keyword == "required" => own.extend(more),
            (own, value) => *own = value,
        }
    }
}

/// Follows references; what stands beside one is kept.
pub fn resolved(document: &Value, node: &Value) -> Value {
    let mut node = node.clone();
    while let Some(Value::String(reference)) =
        node.as_object_mut().and_then(|node| node.remove("$ref"))
    {
        let target = reference.strip_prefix('#').and_then(|pointer| document.pointer(pointer));
        let mut target = target.unwrap_or_else(|| panic!("{reference} leads nowhere")).clone();
        merge(&mut target, node);
        node = target;
    }
    node
}

pub fn members(node: &Value) -> impl Iterator<Item = (&String, &Value)> {
    node.as_object().into_iter().flat_map(Map::iter)
}

pub fn texts(node: &Value) -> BTreeSet<String> {
    node.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
