//! The successful responses of the operations, with examples and links to what follows.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::openapi::{
    Content, KnownFormat, Object, Ref, RefOr, Response, Schema, SchemaFormat, Type,
    example::ExampleBuilder, link::Link,
};

use super::{
    examples, headers,
    problems::Operation::{
        self, AddDocuments, ChangeWebhook, Create, CreateWebhook, CreateWithDocuments,
        DeleteWebhook, ListDeliveries, ListDocuments, ListOrders, ListWebhooks, ReadDocument,
        ReadOrder, ReadWebhook, ReplayDeliveries, ReplayDelivery, RotateSecret, TestWebhook,
    },
    settings::OpenApiSettings,
    webhook_examples,
};

/// Media types of documents.
const DOCUMENTS: [&str; 5] = [
    "application/pdf",
    "application/msword",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "image/jpeg",
    "image/png",
];
const VALIDATORS: [&str; 2] = ["ETag", "Cache-Control"];

/// Returns the successful responses of an operation, by status.
pub(super) fn of(
    operation: Operation,
    settings: &OpenApiSettings,
) -> BTreeMap<String, RefOr<Response>> {
    let base_path = &settings.base_path;
    let responses: Vec<(u16, Response)> = match operation {
        Create | CreateWithDocuments => vec![(201, created(operation))],
        AddDocuments => vec![(201, added(base_path))],
        ListOrders => vec![(200, orders(base_path)), (304, not_modified())],
        ReadOrder => vec![(200, order(base_path)), (304, not_modified())],
        ListDocuments => vec![(200, documents(base_path)), (304, not_modified())],
        ReadDocument => vec![
            (200, document(200, "The whole document, byte for byte as it was sent.")),
            (206, document(206, "The requested part of the document.")),
            (304, not_modified()),
        ],
        CreateWebhook => vec![(201, created_webhook())],
        ListWebhooks => vec![(200, webhooks(base_path)), (304, not_modified())],
        ReadWebhook => vec![(200, webhook(&VALIDATORS)), (304, not_modified())],
        ChangeWebhook => vec![(200, webhook(&[]))],
        DeleteWebhook => vec![(204, empty(204, "The webhook is deleted."))],
        RotateSecret => vec![(200, secret())],
        TestWebhook => vec![(202, tested())],
        ListDeliveries => vec![(200, deliveries(base_path)), (304, not_modified())],
        ReplayDelivery => vec![(202, accepted("The delivery will be sent again."))],
        ReplayDeliveries => vec![(202, empty(202, "The deliveries will be sent again."))],
    };
    responses.into_iter().map(|(status, it)| (status.to_string(), it.into())).collect()
}

fn created(operation: Operation) -> Response {
    let order = || json!("$response.body#/order_id");
    let mut links = vec![
        to_order(),
        to_documents(),
        link("older", ListOrders, "The orders before it.", [("starting_after", order())]),
        link("newer", ListOrders, "The orders after it.", [("ending_before", order())]),
    ];
    let mut record = examples::record();
    let description = if operation == Create {
        record.as_object_mut().map(|members| members.remove("documents_uploaded"));
        "The order was created."
    } else {
        links.push(to_document(json!(0)));
        "The order was created and its documents are stored."
    };
    let response = json_response(201, description, "OrderRecord", record);
    linked(headers::add(response, 201, &["Idempotency-Replayed"]), links)
}

fn added(base_path: &str) -> Response {
    let example = examples::added(base_path);
    let response =
        json_response(201, "The documents were added to the order.", "AddedDocuments", example);
    let position = json!("$response.body#/documents/0/position");
    let links = vec![to_order(), to_documents(), to_document(position)];
    linked(headers::add(response, 201, &["Idempotency-Replayed"]), links)
}

fn order(base_path: &str) -> Response {
    let response =
        json_response(200, "The order with its documents.", "Order", examples::order(base_path));
    linked(headers::add(response, 200, &VALIDATORS), vec![to_documents()])
}

fn orders(base_path: &str) -> Response {
    let example = examples::list(&format!("{base_path}/api/order"), &examples::record());
    let response = json_response(200, "A page of orders, newest first.", "OrderList", example);
    let headers: Vec<&str> = VALIDATORS.into_iter().chain(["Link"]).collect();
    headers::add(response, 200, &headers)
}

fn documents(base_path: &str) -> Response {
    let url = format!("{base_path}/api/order/1/documents");
    let example = examples::list(&url, &examples::document(base_path));
    let response = json_response(200, "The documents of the order.", "DocumentList", example);
    headers::add(response, 200, &VALIDATORS)
}

fn created_webhook() -> Response {
    let description = "The webhook was created. No other answer has its secret.";
    let response = json_response(201, description, "NewWebhook", webhook_examples::created());
    let id = || json!("$response.body#/id");
    let links = [
        ("webhook", ReadWebhook, "The webhook."),
        ("deliveries", ListDeliveries, "Its deliveries."),
        ("test", TestWebhook, "A test of it."),
        ("change", ChangeWebhook, "Its change."),
        ("rotation", RotateSecret, "The rotation of its secret."),
        ("replay", ReplayDeliveries, "The replay of its deliveries."),
        ("deletion", DeleteWebhook, "Its deletion."),
    ];
    let links = links.map(|(name, operation, description)| {
        link(name, operation, description, [("webhook_id", id())])
    });
    linked(headers::add(response, 201, &["Location"]), links.into())
}

fn webhooks(base_path: &str) -> Response {
    let url = format!("{base_path}/api/webhooks");
    let example = examples::list(&url, &webhook_examples::webhook());
    let response = json_response(200, "All webhooks of the client.", "WebhookList", example);
    headers::add(response, 200, &VALIDATORS)
}

fn webhook(own_headers: &[&str]) -> Response {
    let response = json_response(200, "The webhook.", "Webhook", webhook_examples::webhook());
    headers::add(response, 200, own_headers)
}

fn secret() -> Response {
    let description = "The new secret. No other answer has it.";
    let response = json_response(200, description, "WebhookSecret", webhook_examples::secret());
    headers::add(response, 200, &[])
}

fn deliveries(base_path: &str) -> Response {
    let url = format!("{base_path}/api/webhooks/3/deliveries");
    let example = examples::list(&url, &webhook_examples::delivery());
    let description = "A page of deliveries, newest first.";
    let response = json_response(200, description, "WebhookDeliveryList", example);
    let headers: Vec<&str> = VALIDATORS.into_iter().chain(["Link"]).collect();
    headers::add(response, 200, &headers)
}

fn accepted(description: &str) -> Response {
    let example = webhook_examples::accepted();
    let response = json_response(202, description, "AcceptedDelivery", example);
    headers::add(response, 202, &[])
}

fn tested() -> Response {
    let parameters = [
        ("webhook_id", json!("$request.path.webhook_id")),
        ("delivery_id", json!("$response.body#/delivery_id")),
    ];
    let replay = link("replay", ReplayDelivery, "The replay of the delivery.", parameters);
    linked(accepted("The test will be sent."), vec![replay])
}

fn empty(status: u16, description: &str) -> Response {
    headers::add(Response::new(description), status, &[])
}

fn document(status: u16, description: &str) -> Response {
    let mut bytes = Object::with_type(Type::String);
    bytes.format = Some(SchemaFormat::KnownFormat(KnownFormat::Binary));
    let mut response = Response::new(description);
    for media_type in DOCUMENTS {
        let content = Content::new(Some(Schema::Object(bytes.clone())));
        response.content.insert(media_type.to_owned(), content.into());
    }
    let part: &[&str] = if status == 206 { &["Content-Range"] } else { &[] };
    let own = ["Content-Disposition", "Accept-Ranges", "Repr-Digest", "Content-Security-Policy"];
    let headers: Vec<&str> =
        VALIDATORS.into_iter().chain(own).chain(part.iter().copied()).collect();
    headers::add(response, status, &headers)
}

fn not_modified() -> Response {
    let description = "The client has this version: its tag is in `If-None-Match`.";
    headers::add(Response::new(description), 304, &VALIDATORS)
}

fn json_response(status: u16, description: &str, schema: &str, example: Value) -> Response {
    let mut body = Content::new(Some(Ref::from_schema_name(schema)));
    let summary = if status == 201 { "A new one" } else { "A found one" };
    let example = ExampleBuilder::new().summary(summary).value(Some(example));
    body.examples
        .insert(if status == 201 { "created" } else { "found" }.to_owned(), example.into());
    let mut response = Response::new(description);
    response.content.insert("application/json".to_owned(), body.into());
    response
}

fn to_order() -> (&'static str, Link) {
    link("order", ReadOrder, "The order.", [("order_id", json!("$response.body#/order_id"))])
}

fn to_documents() -> (&'static str, Link) {
    let order = json!("$response.body#/order_id");
    link("documents", ListDocuments, "The documents of the order.", [("order_id", order)])
}

fn to_document(position: Value) -> (&'static str, Link) {
    let order = json!("$response.body#/order_id");
    let parameters = [("order_id", order), ("position", position)];
    link("document", ReadDocument, "The first of the documents.", parameters)
}

fn link<const N: usize>(
    name: &'static str,
    operation: Operation,
    description: &str,
    parameters: [(&str, Value); N],
) -> (&'static str, Link) {
    let link = Link::builder().operation_id(operation.id()).description(description);
    let link = parameters.into_iter().fold(link, |link, (name, value)| link.parameter(name, value));
    (name, link.build())
}

fn linked(mut response: Response, links: Vec<(&'static str, Link)>) -> Response {
    let links = links.into_iter().map(|(name, link)| (name.to_owned(), link.into()));
    response.links.extend(links);
    response
}
