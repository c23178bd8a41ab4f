//! The schemas of webhooks: requests, answers and events.

use domain::{
    document::MAX_DOCUMENTS_PER_ORDER,
    endpoint_request::{MAX_DESCRIPTION, MAX_URL},
    order::text_rule,
    webhook::{DisabledBy, EventType, KEPT_ATTEMPTS, MAX_ENDPOINTS},
};
use serde_json::{Value, json};
use utoipa::openapi::{
    Array, Components, KnownFormat, Object, Ref, RefOr, Schema, SchemaFormat, Type,
    schema::SchemaType,
};

use super::{
    requests::BLANK,
    schemas::{self, add_examples, add_property, as_object, object},
    webhook_examples,
};
use crate::{
    paging::MAX_LIMIT,
    webhooks::record::{DISABLED, ENABLED},
};

/// Characters of a URL. The service decides which URLs it may call.
const URL: &str = "https?://[!-~]+";
/// Characters of one line.
const LINE: &str = r"[^\x00-\x1F\x7F-\x9F]*";

/// The events, and the schemas of their bodies.
pub(super) const EVENTS: [(EventType, &str); 3] = [
    (EventType::OrderCreated, "OrderCreatedEvent"),
    (EventType::DocumentsAdded, "DocumentsAddedEvent"),
    (EventType::Test, "WebhookTestEvent"),
];

/// Adds the schemas of requests, lists and events, and completes those of records.
pub(super) fn add(components: &mut Components) {
    complete_records(components);
    let mut created = object(components, "Webhook").cloned().unwrap_or_default();
    created.description = Some("A new webhook, with its secret.".to_owned());
    let secret = property(components, "WebhookSecret", "secret").cloned();
    add_property(&mut created, "secret", secret.unwrap_or_default());
    let deliveries = schemas::list("WebhookDelivery", MAX_LIMIT, "/api/webhooks/3/deliveries");
    let added = [
        ("WebhookRequest", request()),
        ("WebhookChange", change()),
        ("ReplayRange", range()),
        ("NewWebhook", created),
        ("WebhookList", schemas::list("Webhook", MAX_ENDPOINTS, "/api/webhooks")),
        ("WebhookDeliveryList", deliveries),
    ];
    for (name, schema) in added.into_iter().chain(events(components)) {
        components.schemas.insert(name.to_owned(), Schema::Object(schema).into());
    }
    components.schemas.retain(|name, _| !name.starts_with("WebhookPayload"));
    for (schema, example) in [
        ("WebhookRequest", webhook_examples::request()),
        ("WebhookChange", webhook_examples::change()),
        ("ReplayRange", webhook_examples::range()),
        ("Webhook", webhook_examples::webhook()),
        ("NewWebhook", webhook_examples::created()),
        ("WebhookSecret", webhook_examples::secret()),
        ("WebhookDelivery", webhook_examples::delivery()),
        ("DeliveryAttempt", webhook_examples::attempt()),
        ("AcceptedDelivery", webhook_examples::accepted()),
        ("OrderCreatedEvent", webhook_examples::order_event("order.created", 0)),
        ("DocumentsAddedEvent", webhook_examples::order_event("order.documents_added", 2)),
        ("OrderEventData", webhook_examples::order_event("order.created", 0)["data"].take()),
        ("WebhookTestEvent", webhook_examples::test_event()),
        ("TestEventData", webhook_examples::test_event()["data"].take()),
    ] {
        add_examples(components, schema, &example);
    }
}

/// States the limits and the possible values of what answers have.
fn complete_records(components: &mut Components) {
    let reasons = [DisabledBy::Request, DisabledBy::Gone, DisabledBy::Failures];
    let reasons = reasons.map(DisabledBy::as_str).map(Value::from).into_iter();
    let names = |event: EventType| event.as_str().into();
    for (schema, name, values) in [
        ("Webhook", "status", vec![ENABLED.into(), DISABLED.into()]),
        ("Webhook", "disabled_by", reasons.chain([Value::Null]).collect()),
        ("WebhookDelivery", "event", EVENTS.map(|(event, _)| names(event)).into()),
        ("WebhookDelivery", "status", vec!["pending".into(), "delivered".into(), "failed".into()]),
    ] {
        if let Some(property) = property(components, schema, name) {
            property.enum_values = Some(values);
        }
    }
    let file_number = text_rule("SigningDetailsRequest", "fileNumber").max_length;
    for (schema, name, max_length) in [
        ("Webhook", "url", MAX_URL),
        ("Webhook", "description", MAX_DESCRIPTION),
        ("OrderEventData", "file_number", file_number),
        ("OrderEventData", "order_status", 50),
    ] {
        if let Some(property) = property(components, schema, name) {
            property.max_length = Some(max_length);
        }
    }
    if let Some(count) = property(components, "OrderEventData", "documents_uploaded") {
        count.maximum = Some(MAX_DOCUMENTS_PER_ORDER.into());
    }
    if let Some(webhook) = object(components, "Webhook") {
        let description = "The events that it gets.";
        webhook.properties.insert("events".to_owned(), event_names(description, false).into());
    }
    let attempts = object(components, "WebhookDelivery")
        .and_then(|delivery| delivery.properties.get_mut("attempts"));
    if let Some(RefOr::T(Schema::Array(attempts))) = attempts {
        attempts.max_items = Some(KEPT_ATTEMPTS);
    }
}

fn property<'a>(
    components: &'a mut Components,
    schema: &str,
    name: &str,
) -> Option<&'a mut Object> {
    as_object(object(components, schema)?.properties.get_mut(name)?)
}

/// Returns the schemas of the bodies of events.
fn events(components: &mut Components) -> Vec<(&'static str, Object)> {
    let event = |(event, name): (EventType, &'static str)| {
        let data = if event == EventType::Test { "TestEventData" } else { "OrderEventData" };
        let mut body =
            object(components, &format!("WebhookPayload_{data}")).cloned().unwrap_or_default();
        body.description = Some(format!("The body of the event `{}`.", event.as_str()));
        if let Some(kind) = body.properties.get_mut("type").and_then(as_object) {
            kind.enum_values = Some(vec![event.as_str().into()]);
        }
        let data = Ref::builder()
            .ref_location_from_schema_name(data)
            .description(Some("What it happened to."))
            .build();
        body.properties.insert("data".to_owned(), data.into());
        (name, body)
    };
    EVENTS.map(event).into()
}

fn request() -> Object {
    let mut request = Object::new();
    request.description = Some("A webhook to create.".to_owned());
    add_property(&mut request, "url", url(false));
    let events = event_names("The events that it gets; all of them by default.", true);
    request.properties.insert("events".to_owned(), events.into());
    request.properties.insert("description".to_owned(), note().into());
    request
}

fn change() -> Object {
    let mut change = Object::new();
    change.description =
        Some("A change of a webhook. What is not sent, or null, stays as it is.".to_owned());
    let mut status = described("`disabled` makes its events wait, `enabled` sends them.", true);
    status.enum_values = Some(vec![ENABLED.into(), DISABLED.into(), Value::Null]);
    let events = event_names("The events that it gets.", true);
    for (name, schema) in [("url", url(true).into()), ("events", events), ("status", status.into())]
    {
        change.properties.insert(name.to_owned(), RefOr::T(schema));
    }
    change.properties.insert("description".to_owned(), note().into());
    change
}

fn range() -> Object {
    let instant = |text: &str, optional| {
        let mut instant = described(text, optional);
        instant.format = Some(SchemaFormat::KnownFormat(KnownFormat::DateTime));
        instant
    };
    let mut range = Object::new();
    range.description = Some("The time whose events are sent again.".to_owned());
    add_property(&mut range, "since", instant("Events from this instant on.", false));
    let until = instant("Events before this instant; now by default.", true);
    range.properties.insert("until".to_owned(), Schema::Object(until).into());
    range
}

fn url(optional: bool) -> Object {
    let mut url = described(
        "Where its events are sent: `https`, port 443 or above 1023, no credentials, and a host \
         with public addresses only. The operator can open other networks.",
        optional,
    );
    url.max_length = Some(MAX_URL);
    url.pattern = Some(format!("^{BLANK}{URL}{BLANK}$"));
    url
}

fn note() -> Object {
    let mut note = described("What the client notes about it. Blank or null removes it.", true);
    note.max_length = Some(MAX_DESCRIPTION);
    note.pattern = Some(format!("^{BLANK}{LINE}{BLANK}$"));
    note
}

fn described(description: &str, optional: bool) -> Object {
    let mut text = Object::with_type(Type::String);
    text.description = Some(description.to_owned());
    if optional {
        text.schema_type = SchemaType::from_iter([Type::String, Type::Null]);
    }
    text
}

fn event_names(description: &str, optional: bool) -> Schema {
    let mut name = Object::with_type(Type::String);
    name.enum_values = Some(EventType::OF_ORDERS.map(|event| event.as_str().into()).into());
    let mut names = Array::new(name);
    names.description = Some(description.to_owned());
    (names.min_items, names.max_items) = (Some(1), Some(EventType::OF_ORDERS.len()));
    names.unique_items = true;
    names.example = Some(json!(["order.created"]));
    if optional {
        names.schema_type = SchemaType::from_iter([Type::Array, Type::Null]);
    }
    Schema::Array(names)
}
