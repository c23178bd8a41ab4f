//! The operations on webhooks.

use domain::webhook::MAX_ENDPOINTS;
use serde_json::Value;
use utoipa::openapi::{
    Content, HttpMethod, Ref, example::ExampleBuilder, request_body::RequestBody,
};

use super::{
    description::{Description, body},
    parameters,
    problems::Operation::{
        ChangeWebhook, CreateWebhook, DeleteWebhook, ListDeliveries, ListWebhooks, ReadWebhook,
        ReplayDeliveries, ReplayDelivery, RotateSecret, TestWebhook,
    },
    webhook_examples,
};
use crate::webhooks::path;

/// Returns every operation on webhooks.
pub(super) fn all() -> impl Iterator<Item = Description> {
    reads().into_iter().chain(changes()).chain(deliveries())
}

fn reads() -> [Description; 3] {
    let webhook_id = parameters::webhook_id;
    let [if_none_match, ..] = parameters::conditions();
    let of_page = [webhook_id()].into_iter().chain(parameters::of_deliveries());
    [
        Description::read(
            ListWebhooks,
            path::WEBHOOKS,
            "List webhooks",
            "Returns all webhooks of the client, the oldest first. Test keys have webhooks of \
             their own.",
            vec![if_none_match.clone()],
        ),
        Description::read(
            ReadWebhook,
            path::WEBHOOK,
            "Read a webhook",
            "Returns a webhook of the client.",
            vec![webhook_id(), if_none_match.clone()],
        ),
        Description::read(
            ListDeliveries,
            path::DELIVERIES,
            "List the deliveries of a webhook",
            "Returns a page of the deliveries of the last 30 days, newest first, with their \
             attempts.",
            of_page.chain([if_none_match]).collect(),
        ),
    ]
}

fn changes() -> [Description; 4] {
    [
        Description {
            operation: CreateWebhook,
            path: path::WEBHOOKS,
            method: HttpMethod::Post,
            summary: "Create a webhook",
            text: format!(
                "Creates a webhook and answers with its secret, this once. A client has at most \
                 {MAX_ENDPOINTS}."
            ),
            parameters: Vec::new(),
            body: Some(json("The webhook.", "WebhookRequest", webhook_examples::request())),
        },
        Description {
            operation: ChangeWebhook,
            path: path::WEBHOOK,
            method: HttpMethod::Patch,
            summary: "Change a webhook",
            text: "Changes the members that are sent. The events of a disabled webhook wait, and \
                   are sent when it is enabled again."
                .to_owned(),
            parameters: vec![parameters::webhook_id()],
            body: Some(json("The change.", "WebhookChange", webhook_examples::change())),
        },
        Description {
            operation: DeleteWebhook,
            path: path::WEBHOOK,
            method: HttpMethod::Delete,
            summary: "Delete a webhook",
            text: "Deletes a webhook and its deliveries. Nothing is sent to it any more."
                .to_owned(),
            parameters: vec![parameters::webhook_id()],
            body: None,
        },
        Description {
            operation: RotateSecret,
            path: path::ROTATE_SECRET,
            method: HttpMethod::Post,
            summary: "Replace the secret of a webhook",
            text: "Answers with a new secret, this once. For 24 hours the old secret signs along."
                .to_owned(),
            parameters: vec![parameters::webhook_id()],
            body: None,
        },
    ]
}

fn deliveries() -> [Description; 3] {
    let post = |operation, path, summary, text: &str, parameters, body| Description {
        operation,
        path,
        method: HttpMethod::Post,
        summary,
        text: text.to_owned(),
        parameters,
        body,
    };
    let webhook_id = parameters::webhook_id;
    let times = json("The time.", "ReplayRange", webhook_examples::range());
    [
        post(
            TestWebhook,
            path::TEST,
            "Test a webhook",
            "Sends an event of the type `webhook.test`.",
            vec![webhook_id()],
            None,
        ),
        post(
            ReplayDelivery,
            path::REPLAY_DELIVERY,
            "Send a delivery again",
            "Sends a delivery again, whether it was delivered or failed, with the same \
             `webhook-id`. One that is pending is sent now.",
            vec![webhook_id(), parameters::delivery_id()],
            None,
        ),
        post(
            ReplayDeliveries,
            path::REPLAY,
            "Send the deliveries of a time again",
            "Sends the events of a time again that were delivered or failed.",
            vec![webhook_id()],
            Some(times),
        ),
    ]
}

fn json(description: &str, schema: &str, example: Value) -> RequestBody {
    let mut content = Content::new(Some(Ref::from_schema_name(schema)));
    let example = ExampleBuilder::new().summary(description).value(Some(example));
    content.examples.insert("request".to_owned(), example.into());
    body(description, "application/json", content)
}
