//! Finds the changes between two OpenAPI documents that break clients. A change that is not known
//! to be harmless counts as breaking.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// The way that a value travels, which decides the changes that break. The service must still
/// accept what clients send. Clients must still understand what the service sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Response,
    /// As a response, but clients must expect new values of an enum.
    Problem,
}

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
/// Keywords that only describe.
const ANNOTATIONS: [&str; 7] =
    ["title", "description", "example", "examples", "default", "deprecated", "x-extensible-enum"];
const UPPER_LIMITS: [&str; 5] =
    ["maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties"];
const LOWER_LIMITS: [&str; 5] =
    ["minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties"];

/// Returns every breaking change from the released to the current document, each with its location.
pub fn breaking_changes(released: &Value, current: &Value) -> Vec<String> {
    let (released, current) = (inlined(released, released), inlined(current, current));
    let mut changes = Changes::default();
    for (name, scheme) in members(&released["components"]["securitySchemes"]) {
        let now = &current["components"]["securitySchemes"][name];
        if ["type", "scheme", "in", "name"].iter().any(|member| scheme[member] != now[member]) {
            changes.add(&format!("security scheme {name}"), "changed");
        }
    }
    if released["security"] != current["security"] {
        changes.add("document", "security changed");
    }
    for (path, item) in members(&released["paths"]) {
        let now = &current["paths"][path];
        for method in METHODS.into_iter().filter(|method| item.get(*method).is_some()) {
            let location = format!("{} {path}", method.to_uppercase());
            changes.operation(&location, &item[method], &now[method]);
        }
        if item["parameters"] != now["parameters"] {
            changes.add(path, "parameters outside of the operation changed");
        }
    }
    changes.0
}

#[derive(Default)]
struct Changes(Vec<String>);

impl Changes {
    fn add(&mut self, location: &str, change: &str) {
        self.0.push(format!("{location}: {change}"));
    }

    fn operation(&mut self, location: &str, released: &Value, current: &Value) {
        if current.is_null() {
            return self.add(location, "gone");
        }
        // Generated clients are named after it.
        if released["operationId"] != current["operationId"] {
            self.add(location, "operationId changed");
        }
        let accepted: Vec<_> = items(&current["security"]).collect();
        let mut schemes = items(&released["security"]).peekable();
        let was_open = schemes.peek().is_none();
        if was_open && !accepted.is_empty() || schemes.any(|scheme| !accepted.contains(&scheme)) {
            self.add(location, "security changed");
        }
        self.parameters(location, &released["parameters"], &current["parameters"]);
        let (before, now) = (&released["requestBody"], &current["requestBody"]);
        let body = format!("{location} request");
        self.required(Direction::Request, &body, before, now);
        self.content(Direction::Request, &body, before, now);
        for (status, response) in members(&released["responses"]) {
            let location = format!("{location} {status}");
            let success = status.starts_with('2');
            match current["responses"].get(status) {
                Some(now) if success => {
                    self.response(Direction::Response, &location, response, now);
                }
                Some(now) => self.response(Direction::Problem, &location, response, now),
                None if success => self.add(&location, "gone"),
                // Clients miss no problem.
                None => {}
            }
        }
    }

    fn parameters(&mut self, location: &str, released: &Value, current: &Value) {
        let by_name = |parameters| -> BTreeMap<String, Value> {
            let text = |parameter: &Value, member| parameter[member].as_str().unwrap().to_owned();
            let name = |parameter| text(parameter, "in") + " " + &text(parameter, "name");
            items(parameters).map(|parameter| (name(parameter), parameter.clone())).collect()
        };
        let (released, current) = (by_name(released), by_name(current));
        for (name, parameter) in &released {
            let location = format!("{location} {name}");
            match current.get(name) {
                None => self.add(&location, "gone"),
                Some(now) => self.value(Direction::Request, &location, parameter, now),
            }
        }
        for (name, parameter) in current {
            if !released.contains_key(&name) && parameter["required"] == true {
                self.add(&format!("{location} {name}"), "new and required");
            }
        }
    }

    fn response(
        &mut self,
        direction: Direction,
        location: &str,
        released: &Value,
        current: &Value,
    ) {
        for (name, header) in members(&released["headers"]) {
            let location = format!("{location} header {name}");
            match current["headers"].get(name) {
                None => self.add(&location, "gone"),
                Some(now) => self.value(direction, &location, header, now),
            }
        }
        self.content(direction, location, released, current);
    }

    fn content(&mut self, direction: Direction, location: &str, released: &Value, current: &Value) {
        for (media_type, content) in members(&released["content"]) {
            let location = format!("{location} {media_type}");
            match current["content"].get(media_type) {
                None => self.add(&location, "gone"),
                Some(now) => self.schema(direction, &location, &content["schema"], &now["schema"]),
            }
        }
    }

    /// Compares a parameter or a header.
    fn value(&mut self, direction: Direction, location: &str, released: &Value, current: &Value) {
        self.required(direction, location, released, current);
        self.schema(direction, location, &released["schema"], &current["schema"]);
    }

    fn required(
        &mut self,
        direction: Direction,
        location: &str,
        released: &Value,
        current: &Value,
    ) {
        let (before, now) = (released["required"] == true, current["required"] == true);
        match direction {
            Direction::Request if now && !before => self.add(location, "now required"),
            Direction::Response | Direction::Problem if before && !now => {
                self.add(location, "now optional");
            }
            _ => {}
        }
    }

    fn schema(&mut self, direction: Direction, location: &str, released: &Value, current: &Value) {
        let keywords: BTreeSet<&String> =
            members(released).chain(members(current)).map(|(keyword, _)| keyword).collect();
        for keyword in keywords {
            let (before, now) = (&released[keyword], &current[keyword]);
            match keyword.as_str() {
                "properties" => {
                    for (name, property) in members(before) {
                        let location = format!("{location}/{name}");
                        match now.get(name) {
                            None => self.add(&location, "gone"),
                            Some(now) => self.schema(direction, &location, property, now),
                        }
                    }
                }
                "items" if before.is_object() && now.is_object() => {
                    self.schema(direction, &format!("{location}/items"), before, now);
                }
                "oneOf" if items(before).count() == items(now).count() => {
                    for (before, now) in items(before).zip(items(now)) {
                        self.schema(direction, location, before, now);
                    }
                }
                keyword if before == now || is_harmless(direction, keyword, before, now) => {}
                keyword => self.add(location, &format!("{keyword} changed")),
            }
        }
    }
}

/// Returns whether a new, changed or removed keyword of a schema breaks no client.
fn is_harmless(direction: Direction, keyword: &str, before: &Value, now: &Value) -> bool {
    if ANNOTATIONS.contains(&keyword) {
        return true;
    }
    let (old, new) = (texts(before), texts(now));
    let is_limit = UPPER_LIMITS.contains(&keyword) || LOWER_LIMITS.contains(&keyword);
    match (direction, keyword) {
        (Direction::Request, "required") => new.is_subset(&old),
        (Direction::Request, _) if now.is_null() => true,
        (Direction::Request, "type" | "enum") | (Direction::Problem, "enum") => {
            !before.is_null() && old.is_subset(&new)
        }
        (Direction::Request, _) if is_limit => {
            before.as_f64().zip(now.as_f64()).is_some_and(|(old, new)| {
                if UPPER_LIMITS.contains(&keyword) { new > old } else { new < old }
            })
        }
        (Direction::Request, _) => false,
        (_, "required") => old.is_subset(&new),
        (_, "type") => !now.is_null() && new.is_subset(&old),
        (_, keyword) => is_limit || ["pattern", "multipleOf", "uniqueItems"].contains(&keyword),
    }
}

/// Replaces every reference by its definition. No definition contains itself.
fn inlined(document: &Value, node: &Value) -> Value {
    match node {
        Value::Array(items) => items.iter().map(|item| inlined(document, item)).collect(),
        Value::Object(node) => {
            let mut inline = Map::new();
            if let Some(Value::String(reference)) = node.get("$ref") {
                let target = document.pointer(reference.trim_start_matches('#'));
                let target = target.unwrap_or_else(|| panic!("{reference} leads nowhere"));
                inline.extend(inlined(document, target).as_object().unwrap().clone());
            }
            let siblings = node.iter().filter(|(name, _)| *name != "$ref");
            inline.extend(siblings.map(|(name, node)| (name.clone(), inlined(document, node))));
            Value::Object(inline)
        }
        other => other.clone(),
    }
}

fn members(node: &Value) -> impl Iterator<Item = (&String, &Value)> {
    node.as_object().into_iter().flatten()
}

fn items(node: &Value) -> impl Iterator<Item = &Value> {
    node.as_array().into_iter().flatten()
}

/// Returns the texts of a keyword that holds one or several.
fn texts(node: &Value) -> BTreeSet<&str> {
    let mut texts: BTreeSet<&str> = items(node).chain([node]).filter_map(Value::as_str).collect();
    // Every integer is a number.
    if texts.contains("number") {
        texts.insert("integer");
    }
    texts
}
