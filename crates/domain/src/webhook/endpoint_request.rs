//! What a client sends to create or change a webhook endpoint.

use std::{borrow::Cow, collections::BTreeSet};

use serde_json::{Map, Value};

use crate::{
    order::{Fault, Violation, ViolationCode},
    webhook::EventType,
};

/// Maximum length of a URL in characters.
pub const MAX_URL: usize = 2_000;

/// Maximum length of a description in characters.
pub const MAX_DESCRIPTION: usize = 200;

/// The endpoint, or the change of one, that a client asks for. `None` leaves a member as it is.
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

impl EndpointChange {
    /// Reads the members of a JSON object. `null` leaves a member as it is, but removes a
    /// description. A new endpoint has a URL, and no status. Unknown members are ignored.
    ///
    /// # Errors
    /// All violations.
    pub fn parse(object: &Map<String, Value>, is_new: bool) -> Result<Self, Vec<Violation>> {
        let mut fields = Fields { object, violations: Vec::new() };
        let url = fields.url();
        if is_new && object.get("url").is_none_or(Value::is_null) {
            fields.report("/url", (ViolationCode::Required, "is required".into()));
        }
        let events = fields.events();
        let description = fields.description();
        let is_enabled = if is_new { None } else { fields.member("status", status) };
        let change = Self { url, events, description, is_enabled };
        if fields.violations.is_empty() { Ok(change) } else { Err(fields.violations) }
    }
}

struct Fields<'a> {
    object: &'a Map<String, Value>,
    violations: Vec<Violation>,
}

impl Fields<'_> {
    fn report(&mut self, pointer: impl Into<Cow<'static, str>>, (code, detail): Fault) {
        self.violations.push(Violation { pointer: pointer.into(), code, detail });
    }

    /// Returns a member; `None` if it is absent, `null`, or violates a rule.
    fn member<T>(
        &mut self,
        name: &str,
        check: impl FnOnce(&Value) -> Result<T, Fault>,
    ) -> Option<T> {
        let value = self.object.get(name).filter(|value| !value.is_null())?;
        check(value).map_err(|fault| self.report(format!("/{name}"), fault)).ok()
    }

    fn url(&mut self) -> Option<String> {
        let blank = (ViolationCode::Blank, "must not be blank".into());
        let url = |value: &Value| text(value, MAX_URL);
        self.member("url", |value| url(value).and_then(|url| reject_if(url.is_empty(), blank, url)))
    }

    /// `Some(None)` if it is blank or `null`.
    #[expect(clippy::option_option, reason = "the member may be absent, blank, or a text")]
    fn description(&mut self) -> Option<Option<String>> {
        self.object.get("description")?;
        let description = self.member("description", |value| text(value, MAX_DESCRIPTION));
        Some(description.filter(|text| !text.is_empty()))
    }

    fn events(&mut self) -> Option<BTreeSet<EventType>> {
        let names = self.member("events", |value| match value.as_array() {
            None => Err((ViolationCode::WrongType, "must be an array of strings".into())),
            Some(names) => {
                let empty = (ViolationCode::Blank, "must have at least one event".into());
                reject_if(names.is_empty(), empty, names.clone())
            }
        })?;
        let mut events = BTreeSet::new();
        for (position, name) in names.iter().enumerate() {
            let event = match name.as_str().map(EventType::from_name) {
                None => Err((ViolationCode::WrongType, "must be a string".into())),
                Some(Some(event)) if EventType::OF_ORDERS.contains(&event) => {
                    let twice = (ViolationCode::NotAllowed, "must be there once only".into());
                    reject_if(!events.insert(event), twice, ())
                }
                Some(_) => {
                    let known = EventType::OF_ORDERS.map(EventType::as_str).join(" or ");
                    Err((ViolationCode::NotAllowed, format!("must be {known}").into()))
                }
            };
            if let Err(fault) = event {
                self.report(format!("/events/{position}"), fault);
            }
        }
        Some(events)
    }
}

fn reject_if<T>(is_wrong: bool, fault: Fault, value: T) -> Result<T, Fault> {
    if is_wrong { Err(fault) } else { Ok(value) }
}

/// Returns a text without white space around it.
fn text(value: &Value, max_length: usize) -> Result<String, Fault> {
    let Some(text) = value.as_str().map(str::trim) else {
        return Err((ViolationCode::WrongType, "must be a string".into()));
    };
    if text.chars().count() > max_length {
        let detail = format!("must have at most {max_length} characters");
        return Err((ViolationCode::TooLong, detail.into()));
    }
    let control = (ViolationCode::InvalidCharacters, "must not have control characters".into());
    reject_if(text.contains(char::is_control), control, text.to_owned())
}

fn status(value: &Value) -> Result<bool, Fault> {
    match value.as_str() {
        Some("enabled") => Ok(true),
        Some("disabled") => Ok(false),
        Some(_) => Err((ViolationCode::NotAllowed, "must be enabled or disabled".into())),
        None => Err((ViolationCode::WrongType, "must be a string".into())),
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
    fn new_endpoint_needs_only_a_url() {
        let all = json!(EventType::OF_ORDERS.map(EventType::as_str));
        for events in [json!(null), all] {
            let body = json!({ "url": " https://a.example/hook ", "events": events, "more": 1 });
            let request = EndpointChange::parse(&object(&body), true).unwrap();
            assert_eq!(request.url.as_deref(), Some("https://a.example/hook"));
            let chosen = events.is_array().then(|| EventType::OF_ORDERS.into());
            assert_eq!((request.events, request.description), (chosen, None));
        }
    }

    #[test]
    fn all_violations_are_reported_at_once() {
        let body = json!({
            "events": ["order.created", "order.deleted", 1, "webhook.test", "order.created"],
            "description": "two\nlines",
        });
        let violations = EndpointChange::parse(&object(&body), true).unwrap_err();
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
            assert_eq!(faults(&EndpointChange::parse(&object(&body), true).unwrap_err()), [fault]);
        }
    }

    #[test]
    fn absent_members_of_a_change_stay_as_they_are() {
        for body in [json!({}), json!({ "url": null, "events": null, "status": null })] {
            assert_eq!(EndpointChange::parse(&object(&body), false), Ok(EndpointChange::default()));
        }
        let body = json!({ "description": null, "status": "disabled" });
        let change = EndpointChange {
            description: Some(None),
            is_enabled: Some(false),
            ..EndpointChange::default()
        };
        assert_eq!(EndpointChange::parse(&object(&body), false), Ok(change));
        for status in [json!("paused"), json!(true)] {
            let change = EndpointChange::parse(&object(&json!({ "status": status })), false);
            assert_eq!(change.unwrap_err()[0].pointer, "/status");
        }
    }
}
