//! The bodies that create or change a webhook endpoint.
//!
//! Unknown members are violations: a client must not believe that it has changed them.

use std::collections::BTreeSet;

use garde::Validate;
use serde::Deserialize;

use crate::{
    request::{
        Member, Object, Sent, Violation, ViolationCode, Word,
        rules::{Checked, closed, fault, given, nullable, optional, required, text},
    },
    webhook::EventType,
};

/// Maximum length of a URL in characters.
pub const MAX_URL: usize = 2_000;

/// Maximum length of a description in characters.
pub const MAX_DESCRIPTION: usize = 200;

/// Maximum number of names that are looked at. More are wrong in any case.
const MAX_EVENTS: usize = 20;

/// The body that creates an endpoint.
pub type NewEndpointBody = Object<NewEndpointMembers>;

/// The members of a new endpoint.
#[derive(Clone, Default, Deserialize, Validate)]
#[serde(default)]
pub struct NewEndpointMembers {
    #[garde(custom(required(text(MAX_URL))))]
    pub(crate) url: Sent<Word>,
    #[garde(dive, custom(nullable(some_events)))]
    events: Sent<Events>,
    #[garde(custom(optional(text(MAX_DESCRIPTION))))]
    description: Sent<Word>,
}

/// The body that changes an endpoint.
pub type EndpointChangeBody = Object<EndpointChangeMembers>;

/// The members of a change. Those that are absent or `null` stay as they are, but `null` removes the
/// description.
#[derive(Clone, Default, Deserialize, Validate)]
#[serde(default)]
pub struct EndpointChangeMembers {
    #[garde(custom(nullable(text(MAX_URL))))]
    pub(crate) url: Sent<Word>,
    #[garde(dive, custom(nullable(some_events)))]
    events: Sent<Events>,
    #[garde(custom(optional(text(MAX_DESCRIPTION))))]
    description: Sent<Word>,
    #[garde(custom(nullable(on_or_off)))]
    status: Sent<Word>,
}

/// The names of events.
#[derive(Clone)]
struct Events(Vec<Sent<Word>>);

impl Member for Events {
    const EXPECTED: &'static str = "must be an array of strings";

    fn of_array(json: &str) -> serde_json::Result<Sent<Self>> {
        Ok(Sent::Value(Self(serde_json::from_str(json)?)))
    }
}

impl Validate for Events {
    type Context = ();

    fn validate_into(
        &self,
        context: &(),
        parent: &mut dyn FnMut() -> garde::Path,
        report: &mut garde::Report,
    ) {
        for (position, name) in self.0.iter().enumerate().take(MAX_EVENTS) {
            let checked = given(event(&self.0[..position]))(name, context);
            if let Err(error) = checked {
                report.append(parent().join(position), error);
            }
        }
    }
}

fn some_events(Events(names): &Events) -> Checked {
    if names.is_empty() {
        return fault(ViolationCode::Blank, "must have at least one event");
    }
    if names.len() > MAX_EVENTS {
        return fault(ViolationCode::TooLong, format!("must have at most {MAX_EVENTS} events"));
    }
    Ok(())
}

fn event(earlier: &[Sent<Word>]) -> impl FnOnce(&Word) -> Checked {
    move |name| {
        if order_event(name).is_none() {
            let known = EventType::OF_ORDERS.map(EventType::as_str).join(" or ");
            return fault(ViolationCode::NotAllowed, format!("must be {known}"));
        }
        if earlier.iter().any(|other| other.value() == Some(name)) {
            return fault(ViolationCode::NotAllowed, "must be there once only");
        }
        Ok(())
    }
}

fn order_event(name: &str) -> Option<EventType> {
    EventType::from_name(name).filter(|event| EventType::OF_ORDERS.contains(event))
}

fn on_or_off(name: &Word) -> Checked {
    if matches!(&**name, "enabled" | "disabled") {
        return Ok(());
    }
    fault(ViolationCode::NotAllowed, "must be enabled or disabled")
}

/// The endpoint, or the change of one, that a client asks for. `None` leaves a member as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EndpointChange {
    /// Where its events are sent.
    pub url: Option<String>,
    /// The events that it gets.
    pub events: Option<BTreeSet<EventType>>,
    /// The client's note about it; `Some(None)` removes it.
    pub description: Option<Option<String>>,
    /// Whether it is enabled.
    pub is_enabled: Option<bool>,
}

impl EndpointChange {
    /// Reads the body of a new endpoint.
    ///
    /// # Errors
    /// All violations.
    pub fn create(body: &NewEndpointBody) -> Result<Self, Vec<Violation>> {
        closed(body)?;
        let NewEndpointMembers { url, events, description } = &body.members;
        Ok(Self::of(url, events, description, None))
    }

    /// Reads the body of a change.
    ///
    /// # Errors
    /// All violations.
    pub fn change(body: &EndpointChangeBody) -> Result<Self, Vec<Violation>> {
        closed(body)?;
        let EndpointChangeMembers { url, events, description, status } = &body.members;
        let is_enabled = status.value().map(|status| **status == *"enabled");
        Ok(Self::of(url, events, description, is_enabled))
    }

    fn of(
        url: &Sent<Word>,
        events: &Sent<Events>,
        description: &Sent<Word>,
        is_enabled: Option<bool>,
    ) -> Self {
        let text = |sent: &Sent<Word>| sent.value().map(|text| text.to_string());
        let names = |Events(names): &Events| {
            names.iter().filter_map(|name| order_event(name.value()?)).collect()
        };
        Self {
            url: text(url),
            events: events.value().map(names),
            description: (*description != Sent::Absent).then(|| text(description)),
            is_enabled,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn create(json: &Value) -> Result<EndpointChange, Vec<Violation>> {
        EndpointChange::create(&serde_json::from_value(json.clone()).unwrap())
    }

    fn change(json: &Value) -> Result<EndpointChange, Vec<Violation>> {
        EndpointChange::change(&serde_json::from_value(json.clone()).unwrap())
    }

    fn faults(violations: &[Violation]) -> Vec<(&str, &str)> {
        violations.iter().map(|fault| (&*fault.pointer, fault.code.as_str())).collect()
    }

    #[test]
    fn new_endpoint_needs_only_a_url() {
        let all = json!(EventType::OF_ORDERS.map(EventType::as_str));
        for events in [json!(null), all] {
            let body = json!({ "url": " https://a.example/hook ", "events": events });
            let request = create(&body).unwrap();
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
        let violations = create(&body).unwrap_err();
        assert_eq!(
            faults(&violations),
            [
                ("/description", "invalid_characters"),
                ("/events/1", "not_allowed"),
                ("/events/2", "wrong_type"),
                ("/events/3", "not_allowed"),
                ("/events/4", "not_allowed"),
                ("/url", "required"),
            ]
        );
        for (body, fault) in [
            (json!({ "url": 1 }), ("/url", "wrong_type")),
            (json!({ "url": " " }), ("/url", "blank")),
            (json!({ "url": "h".repeat(2_001) }), ("/url", "too_long")),
            (json!({ "url": "https://a.example", "events": [] }), ("/events", "blank")),
            (json!({ "url": "https://a.example", "events": "*" }), ("/events", "wrong_type")),
            (json!({ "url": "https://a.example", "event": [] }), ("/event", "unknown_member")),
        ] {
            assert_eq!(faults(&create(&body).unwrap_err()), [fault]);
        }
    }

    #[test]
    fn absent_members_of_a_change_stay_as_they_are() {
        for body in [json!({}), json!({ "url": null, "events": null, "status": null })] {
            assert_eq!(change(&body), Ok(EndpointChange::default()));
        }
        let body = json!({ "description": null, "status": "disabled" });
        let expected = EndpointChange {
            description: Some(None),
            is_enabled: Some(false),
            ..EndpointChange::default()
        };
        assert_eq!(change(&body), Ok(expected));
        let unknown = change(&json!({ "enabled": false }));
        assert_eq!(faults(&unknown.unwrap_err()), [("/enabled", "unknown_member")]);
        for status in [json!("paused"), json!(true)] {
            let change = change(&json!({ "status": status }));
            assert_eq!(change.unwrap_err()[0].pointer, "/status");
        }
    }
}
