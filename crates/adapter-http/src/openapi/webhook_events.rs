//! The webhooks: what the service sends to the URLs of clients.

use domain::webhook::EventType;
use serde_json::{Value, json};
use utoipa::openapi::{
    Content, HttpMethod, Object, Paths, Ref, Required, Response, Schema, Type,
    example::ExampleBuilder,
    path::{Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn},
};

use super::{description::body, webhook_examples, webhook_schemas::EVENTS};

/// Returns the webhooks, each under the type of its event.
pub(super) fn all() -> Paths {
    let mut events = Paths::new();
    for (event, schema) in EVENTS {
        let operation = operation(event, schema);
        events.add_path_operation(event.as_str(), vec![HttpMethod::Post], operation);
    }
    events
}

fn operation(event: EventType, schema: &str) -> Operation {
    let name = event.as_str();
    let (id, summary, example) = match event {
        EventType::OrderCreated => {
            ("onOrderCreated", "An order was created", webhook_examples::order_event(name, 0))
        }
        EventType::DocumentsAdded => (
            "onDocumentsAdded",
            "Documents were added to an order",
            webhook_examples::order_event(name, 2),
        ),
        EventType::Test => {
            ("onWebhookTest", "A test was asked for", webhook_examples::test_event())
        }
    };
    let mut content = Content::new(Some(Ref::from_schema_name(schema)));
    let example = ExampleBuilder::new().summary(summary).value(Some(example));
    content.examples.insert("event".to_owned(), example.into());
    OperationBuilder::new()
        .operation_id(Some(id))
        .summary(Some(summary))
        .description(Some(DESCRIPTION))
        .tag("webhooks")
        .parameters(Some(headers()))
        .request_body(Some(body("The event.", "application/json", content)))
        .response("2XX", Response::new("The event is delivered."))
        .response("410", Response::new("The service disables the webhook."))
        .response(
            "default",
            Response::new("The attempt failed. The service retries, and follows no redirect."),
        )
        .build()
}

const DESCRIPTION: &str = "Sent to the URL of a webhook by Standard Webhooks 1.0.0, at least once \
    and in any order. Verify the signature, handle each `webhook-id` once, and answer 2xx within 15 \
    seconds.";

fn headers() -> [Parameter; 3] {
    let mut seconds = Object::with_type(Type::Integer);
    seconds.minimum = Some(0.into());
    let mut signatures = Object::with_type(Type::String);
    signatures.pattern = Some("^v1,[A-Za-z0-9+/]{43}=( v1,[A-Za-z0-9+/]{43}=)?$".to_owned());
    [
        header(
            "webhook-id",
            "Identifies the event: equal in all attempts and replays.",
            Object::with_type(Type::String),
            json!("msg_9f86d081884c7d659a2feaa0c55ad015"),
        ),
        header(
            "webhook-timestamp",
            "When this attempt was made, in seconds since 1970.",
            seconds,
            json!(1_795_262_400),
        ),
        header(
            "webhook-signature",
            "`v1,` and the HMAC-SHA256 of `webhook-id.webhook-timestamp.body` in base64. There are \
             two, separated by a space, while the secret is being rotated.",
            signatures,
            json!("v1,MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="),
        ),
    ]
}

fn header(name: &str, description: &str, mut schema: Object, example: Value) -> Parameter {
    schema.examples = vec![example];
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(Required::True)
        .description(Some(description))
        .schema(Some(Schema::Object(schema)))
        .build()
}
