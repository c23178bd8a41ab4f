//! What a client would notice between two OpenAPI documents.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::schemas::{Direction, Documents, members, resolved, texts};

/// Every change between a released document and the current one that would break a client, each
/// with its place.
pub fn breaking_changes(released: &Value, current: &Value) -> Vec<String> {
    let documents = Documents { released, current };
    let mut found = security_schemes(documents);
    for (path, item) in members(&released["paths"]) {
        let current_item = resolved(current, &current["paths"][path]);
        let item = resolved(released, item);
        for method in ["get", "put", "post", "delete", "options", "head", "patch", "trace"] {
            if item[method].is_null() {
                continue;
            }
            let place = format!("{} {path}", method.to_uppercase());
            if current_item[method].is_null() {
                found.push(format!("{place}: gone"));
            } else {
                let operations = Operations {
                    documents,
                    place: &place,
                    released: &item[method],
                    current: &current_item[method],
                };
                found.extend(operations.changes(&item["parameters"], &current_item["parameters"]));
            }
        }
    }
    found
}

fn security_schemes(Documents { released, current }: Documents) -> Vec<String> {
    let mut found = Vec::new();
    for (name, scheme) in members(&released["components"]["securitySchemes"]) {
        let (scheme, now) = (
            resolved(released, scheme),
            resolved(current, &current["components"]["securitySchemes"][name]),
        );
        if now.is_null() {
            found.push(format!("security scheme {name}: gone"));
        } else if ["type", "scheme", "in", "name"]
            .iter()
            .any(|member| scheme[member] != now[member])
        {
            found.push(format!("security scheme {name}: another one"));
        }
    }
    found
}

/// The same operation in both documents.
struct Operations<'a> {
    documents: Documents<'a>,
    place: &'a str,
    released: &'a Value,
    current: &'a Value,
}

impl Operations<'_> {
    fn changes(&self, released_shared: &Value, current_shared: &Value) -> Vec<String> {
        let mut found = Vec::new();
        if self.released["operationId"] != self.current["operationId"] {
            found.push(format!(
                "{}: another operationId, which names the operation in generated code",
                self.place
            ));
        }
        found.extend(self.security());
        let parameters = |document, shared, operation: &Value| {
            by_name(document, &[shared, &operation["parameters"]])
        };
        let released = parameters(self.documents.released, released_shared, self.released);
        found.extend(self.parameters(
            &released,
            &parameters(self.documents.current, current_shared, self.current),
        ));
        found.extend(self.request_body());
        found.extend(self.answers());
        found
    }

    fn security(&self) -> Option<String> {
        let accepted = |document: &Value, operation: &Value| {
            let requirements = operation
                .get("security")
                .or(document.get("security"))
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            // No requirement at all is one that everybody meets.
            if requirements.is_empty() {
                vec![Value::Object(serde_json::Map::new())]
            } else {
                requirements
            }
        };
        let current = accepted(self.documents.current, self.current);
        let meets = |offered: &Value, asked: &Value| {
            members(asked).all(|(scheme, scopes)| {
                offered.get(scheme).is_some_and(|offered| texts(scopes).is_subset(&texts(offered)))
            })
        };
        let released = accepted(self.documents.released, self.released);
        let refused =
            released.iter().any(|offered| !current.iter().any(|asked| meets(offered, asked)));
        refused.then(|| format!("{}: asks for other credentials", self.place))
    }

    fn parameters(
        &self,
        released: &BTreeMap<String, Value>,
        current: &BTreeMap<String, Value>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        for (name, parameter) in released {
            let place = format!("{} {name}", self.place);
            match current.get(name) {
                None => found.push(format!("{place}: gone")),
                Some(now) => {
                    if now["required"] == true && parameter["required"] != true {
                        found.push(format!("{place}: now required"));
                    }
                    found.extend(self.documents.compare(
                        Direction::Request,
                        &place,
                        &parameter["schema"],
                        &now["schema"],
                    ));
                }
            }
        }
        let added = current.iter().filter(|(name, parameter)| {
            !released.contains_key(*name) && parameter["required"] == true
        });
        found.extend(added.map(|(name, _)| format!("{} {name}: new and required", self.place)));
        found
    }

    fn request_body(&self) -> Vec<String> {
        let Documents { released, current } = self.documents;
        let (before, now) = (
            resolved(released, &self.released["requestBody"]),
            resolved(current, &self.current["requestBody"]),
        );
        let place = format!("{} request", self.place);
        let mut found = Vec::new();
        if now["required"] == true && before["required"] != true {
            found.push(format!("{place}: now required"));
        }
        found.extend(self.content(Direction::Request, &place, &before, &now));
        found
    }

    fn answers(&self) -> Vec<String> {
        let Documents { released, current } = self.documents;
        let mut found = Vec::new();
        for (status, answer) in members(&self.released["responses"]) {
            let (answer, now) =
                (resolved(released, answer), resolved(current, &self.current["responses"][status]));
            let place = format!("{} {status}", self.place);
            let direction =
                if status.starts_with('2') { Direction::Answer } else { Direction::Problem };
            if now.is_null() {
                // A problem that does not come any more breaks nobody.
                found.extend((direction == Direction::Answer).then(|| format!("{place}: gone")));
                continue;
            }
            found.extend(self.headers(direction, &place, &answer["headers"], &now["headers"]));
            found.extend(self.content(direction, &place, &answer, &now));
        }
        found
    }

    fn headers(
        &self,
        direction: Direction,
        place: &str,
        released: &Value,
        current: &Value,
    ) -> Vec<String> {
        let mut found = Vec::new();
        for (name, header) in members(released) {
            let place = format!("{place} header {name}");
            let now = members(current).find(|(current, _)| current.eq_ignore_ascii_case(name));
            let Some((_, now)) = now else {
                found.push(format!("{place}: gone"));
                continue;
            };
            let (header, now) =
                (resolved(self.documents.released, header), resolved(self.documents.current, now));
            if header["required"] == true && now["required"] != true {
                found.push(format!("{place}: may be absent now"));
            }
            found.extend(self.documents.compare(
                direction,
                &place,
                &header["schema"],
                &now["schema"],
            ));
        }
        found
    }

    fn content(
        &self,
        direction: Direction,
        place: &str,
        released: &Value,
        current: &Value,
    ) -> Vec<String> {
        let mut found = Vec::new();
        for (media_type, content) in members(&released["content"]) {
            let place = format!("{place} {media_type}");
            match current["content"].get(media_type) {
                None => found.push(format!("{place}: gone")),
                Some(now) => found.extend(self.documents.compare(
                    direction,
                    &place,
                    &content["schema"],
                    &now["schema"],
                )),
            }
        }
        found
    }
}

/// Parameters by where they stand and how they are called, those of the operation over those of the
/// path.
fn by_name(document: &Value, lists: &[&Value]) -> BTreeMap<String, Value> {
    let all = lists
        .iter()
        .filter_map(|list| list.as_array())
        .flatten()
        .map(|parameter| resolved(document, parameter));
    let name = |parameter: &Value| {
        let (place, name) =
            (parameter["in"].as_str().unwrap(), parameter["name"].as_str().unwrap());
        format!(
            "{place} {}",
            if place == "header" { name.to_ascii_lowercase() } else { name.to_owned() }
        )
    };
    all.map(|parameter| (name(&parameter), parameter)).collect()
}
