//! What a client sends to create or change a webhook endpoint.

use std::{borrow::Cow, collections::BTreeSet};

use serde_json::{Map, Value};

use crate::{
    order::{Violation, ViolationCode},
    webhook::EventType,
};

/// Maximum length of a URL in characters.
pub const MAX_URL: usize = 2_000;

/// Maximum length of a description in characters.
pub const MAX_DESCRIPTION: usize = 200;

/// The endpoint that a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointRequest {
    /// Where its events are sent.
    pub url: String,
    /// The events that it gets.
    pub events: BTreeSet<EventType>,
    /// What the client notes about it.
    pub description: Option<String>,
}

/// The change that a client asks for. `None` leaves a member as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EndpointChange {
    /// Where its events are sent.
    pub url: Option<String>,
    /// The events that it gets.
    pub events: Option<BTreeSet<EventType>>,
    /// What the client notes about it; `Some(None)` removes it.
    pub description: Option<Option<String>>,
    /// Whether it is enabled.
    pub is_enabled: Option<bool>,
}

impl EndpointRequest {
    /// Reads the members of a JSON object. Without `events`, the endpoint gets every event of
    /// orders. Unknown members are ignored.
    ///
    /// # Errors
    /// All violations.
    pub fn parse(object: &Map<String, Value>) -> Result<Self, Vec<Violation>> {
        let mut fields = Fields { object, violations: Vec::new() };
        let url = fields.url();
        if object.get("url").is_none_or(Value::is_null) {
            fields.report("/url", ViolationCode::Required, "is required");
        }
        let events = fields.events().unwrap_or_else(|| EventType::OF_ORDERS.into());
        let description = fields.description().flatten();
        fields.finish(Self { url: url.unwrap_or_default(), events, description })
    }
}

impl EndpointChange {
    /// Reads the members of a JSON object. `null` leaves a member as it is, but removes a
    /// description. Unknown members are ignored.
    ///
    /// # Errors
    /// All violations.
    pub fn parse(object: &Map<String, Value>) -> Result<Self, Vec<Violation>> {
        let mut fields = Fields { object, violations: Vec::new() };
        let change = Self {
            url: fields.url(),
            events: fields.events(),
            description: fields.description(),
            is_enabled: fields.status(),
        };
        fields.finish(change)
    }
}

struct Fields<'a> {
    object: &'a Map<String, Value>,
    violations: Vec<Violation>,
}

impl Fields<'_> {
    fn finish<T>(self, parsed: T) -> Result<T, Vec<Violation>> {
        if self.violations.is_empty() { Ok(parsed) } else { Err(self.violations) }
    }

    fn report(
        &mut self,
        pointer: impl Into<Cow<'static, str>>,
        code: ViolationCode,
        detail: impl Into<Cow<'static, str>>,
    ) {
        let (pointer, detail) = (pointer.into(), detail.into());
        self.violations.push(Violation { pointer, code, detail });
    }

    /// Returns a text without white space around it; `None` if it is absent or violates a rule.
    fn text(&mut self, name: &str, max_length: usize) -> Option<String> {
        let pointer = format!("/{name}");
        let text = match self.object.get(name)? {
            Value::Null => return None,
            Value::String(text) => text.trim(),
            _ => {
                self.report(pointer, ViolationCode::WrongType, "must be a string");
                return None;
            }
        };
        if text.chars().count() > max_length {
            let detail = format!("must have at most {max_length} characters");
            self.report(pointer, ViolationCode::TooLong, detail);
            return None;
        }
        if text.contains(char::is_control) {
            let detail = "must not have control characters";
            self.report(pointer, ViolationCode::InvalidCharacters, detail);
            return None;
        }
        Some(text.to_owned())
    }

    fn url(&mut self) -> Option<String> {
        let url = self.text("url", MAX_URL)?;
        if url.is_empty() {
            self.report("/url", ViolationCode::Blank, "must not be blank");
        }
        Some(url)
    }

    /// `Some(None)` if it is blank or `null`.
    #[expect(clippy::option_option, reason = "the member may be absent, blank, or a text")]
    fn description(&mut self) -> Option<Option<String>> {
        self.object.get("description")?;
        Some(self.text("description", MAX_DESCRIPTION).filter(|text| !text.is_empty()))
    }

    fn events(&mut self) -> Option<BTreeSet<EventType>> {
        let names = match self.object.get("events")? {
            Value::Null => return None,
            Value::Array(names) => names,
            _ => {
                self.report("/events", ViolationCode::WrongType, "must be an array of strings");
                return None;
            }
        };
        if names.is_empty() {
            self.report("/events", ViolationCode::Blank, "must have at least one event");
        }
        let mut events = BTreeSet::new();
        for (position, name) in names.iter().enumerate() {
            let pointer = format!("/events/{position}");
            let Value::String(name) = name else {
                self.report(pointer, ViolationCode::WrongType, "must be a string");
                continue;
            };
            match EventType::OF_ORDERS.into_iter().find(|event| event.as_str() == name) {
                Some(event) if events.insert(event) => {}
                Some(_) => {
                    let detail = "must be there once only";
                    self.report(pointer, ViolationCode::NotAllowed, detail);
                }
                None => {
                    let known = EventType::OF_ORDERS.map(EventType::as_str).join(" or ");
                    self.report(pointer, ViolationCode::NotAllowed, format!("must be {known}"));
                }
            }
        }
        Some(events)
    }

    fn status(&mut self) -> Option<bool> {
        match self.object.get("status")? {
            Value::Null => None,
            Value::String(status) if status == "enabled" => Some(true),
            Value::String(status) if status == "disabled" => Some(false),
            Value::String(_) => {
                let detail = "must be enabled or disabled";
                self.report("/status", ViolationCode::NotAllowed, detail);
                None
            }
            _ => {
                self.report("/status", ViolationCode::WrongType, "must be a string");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(json: &Value) -> Map<String, Value> {
        json.as_object().cloned().unwrap()
    }

    fn faults(violations: &[Violation]) -> Vec<(&str, &str)> {
        violations.iter().map(|fault| (&*fault.pointer, fault.code.as_str())).collect()
    }

    #[test]
    fn endpoint_gets_all_events_of_orders_by_default() {
        for events in [json!(null), json!(["order.documents_added", "order.created"])] {
            let body = json!({ "url": " https://a.example/hook ", "events": events, "more": 1 });
            let request = EndpointRequest::parse(&object(&body)).unwrap();
            assert_eq!(request.url, "https://a.example/hook");
            assert_eq!(request.events, EventType::OF_ORDERS.into());
            assert_eq!(request.description, None);
        }
    }

    #[test]
    fn all_violations_are_reported_at_once() {
        let body = json!({
            "events": ["order.created", "order.deleted", 1, "webhook.test", "order.created"],
            "description": "two\nlines",
        });
        let violations = EndpointRequest::parse(&object(&body)).unwrap_err();
        assert_eq!(
            faults(&violations),
            [
                ("/url", "required"),
                ("/events/1", "not_allowed"),
                ("/events/2", "wrong_type"),
                ("/events/3", "not_allowed"),
                ("/events/4", "not_allowed"),
                ("/description", "invalid_characters"),
            ]
        );
        for (body, fault) in [
            (json!({ "url": 1 }), ("/url", "wrong_type")),
            (json!({ "url": " " }), ("/url", "blank")),
            (json!({ "url": "h".repeat(2_001) }), ("/url", "too_long")),
            (json!({ "url": "https://a.example", "events": [] }), ("/events", "blank")),
            (json!({ "url": "https://a.example", "events": "*" }), ("/events", "wrong_type")),
        ] {
            assert_eq!(faults(&EndpointRequest::parse(&object(&body)).unwrap_err()), [fault]);
        }
    }

    #[test]
    fn absent_members_of_a_change_stay_as_they_are() {
        for body in [json!({}), json!({ "url": null, "events": null, "status": null })] {
            assert_eq!(EndpointChange::parse(&object(&body)), Ok(EndpointChange::default()));
        }
        let body = json!({ "description": null, "status": "disabled" });
        let change = EndpointChange {
            description: Some(None),
            is_enabled: Some(false),
            ..EndpointChange::default()
        };
        assert_eq!(EndpointChange::parse(&object(&body)), Ok(change));
        for status in [json!("paused"), json!(true)] {
            let change = EndpointChange::parse(&object(&json!({ "status": status })));
            assert_eq!(change.unwrap_err()[0].pointer, "/status");
        }
    }
}
