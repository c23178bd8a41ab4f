//! The OpenAPI document. It is derived from the types that the code reads and writes, and quotes
//! the limits from their definitions and from the settings.

mod description;
mod examples;
mod headers;
mod operations;
mod parameters;
mod problems;
mod requests;
mod responses;
mod schemas;
mod settings;
mod successes;
mod units;
mod webhook_events;
mod webhook_examples;
mod webhook_operations;
mod webhook_schemas;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod webhook_tests;

use actix_web::{HttpResponse, web};
use domain::{
    order::{
        ContactRequest, InvoiceRecipientRequest, OrderRequest, RequestedByRequest,
        SigningContactsRequest, SigningDetailsRequest,
    },
    webhook::{OrderEventData, TestEventData, WebhookPayload},
};
use utoipa::{
    OpenApi,
    openapi::{
        self, Server,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

pub use self::settings::OpenApiSettings;
use crate::{
    orders::record::{DocumentRecord, OrderRecord},
    problem::{FieldProblem, ProblemBody},
    state::Api,
    webhooks::record::{AcceptedRecord, AttemptEntry, DeliveryRecord, SecretRecord, WebhookRecord},
};

/// Path of the document, below the base path.
pub(crate) const PATH: &str = "/openapi.json";

/// Answers with the document of this service.
pub(crate) async fn serve(api: web::Data<Api>) -> HttpResponse {
    HttpResponse::Ok().json(document(&OpenApiSettings {
        base_path: api.base_path.clone(),
        limits: api.limits,
        duplicate_window: api.create_order.window,
        idempotency_retention: api.create_order.intake.idempotency_retention,
    }))
}

/// Returns the OpenAPI document of a service with these settings.
pub fn document(settings: &OpenApiSettings) -> openapi::OpenApi {
    let mut document = Document::openapi();
    let base_path = if settings.base_path.is_empty() { "/" } else { &settings.base_path };
    document.servers = Some(vec![Server::new(base_path)]);
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(operations::API_KEY, bearer_scheme());
    requests::complete(components, settings.limits, &[examples::minimal(), examples::full()]);
    webhook_schemas::add(components);
    schemas::add_limits(components);
    schemas::add_examples(components, "OrderRecord", &examples::record());
    schemas::add_examples(components, "DocumentRecord", &examples::document(&settings.base_path));
    let problem = problems::body_of(&problems::invalid());
    schemas::add_examples(components, "Problem", &problem);
    schemas::add_examples(components, "FieldProblem", &problem["errors"][0]);
    schemas::add_composed(components, settings.limits);
    responses::add_shared(components, settings);
    operations::add(&mut document.paths, settings);
    document.webhooks = Some(webhook_events::all());
    document
}

/// The introduction for developers of clients.
const DESCRIPTION: &str = "\
Creates notarial signing orders, from JSON or from a form with documents. \
A 201 means that the order and all its documents are stored durably. \
A client reads its own orders and documents back, and sees nothing of other clients.

**Keys.** Every request carries `Authorization: Bearer <API key>`. The operator of the service \
issues keys (`notary-orders keys issue --name NAME`). To try the API, ask for a test key, which \
begins with `nok_test_`: its orders are validated and answered like all others, and no mail is \
sent.

**Retries.** Send an `Idempotency-Key` with each order, and repeat the request unchanged after a \
timeout: the order is created once. Wait at least `Retry-After` before you retry 409 \
`idempotency_in_flight`, 429 and 503.

**Webhooks.** The service tells the client of its orders by `POST` to its webhooks. Each event is \
signed.

**Problems.** Every error is `application/problem+json` (RFC 9457). Rely on `status` and `code`, \
which are stable. New codes may be added.";

#[derive(OpenApi)]
#[openapi(
    info(title = "notary-orders", description = DESCRIPTION),
    tags(
        (name = "orders", description = "Create and read notarial signing orders."),
        (name = "webhooks", description = "Learn of orders without asking for them.")
    ),
    components(schemas(
        OrderRequest,
        SigningContactsRequest,
        ContactRequest,
        SigningDetailsRequest,
        InvoiceRecipientRequest,
        RequestedByRequest,
        OrderRecord<'static>,
        DocumentRecord<'static>,
        ProblemBody<'static>,
        FieldProblem,
        WebhookRecord<'static>,
        SecretRecord,
        DeliveryRecord<'static>,
        AttemptEntry<'static>,
        AcceptedRecord,
        WebhookPayload<OrderEventData>,
        WebhookPayload<TestEventData>,
        OrderEventData,
        TestEventData
    ))
)]
struct Document;

fn bearer_scheme() -> SecurityScheme {
    let description = "An API key, issued by the operator of the service. Keys begin with `nok_`, \
        test keys with `nok_test_`.";
    SecurityScheme::Http(
        HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format("nok_…")
            .description(Some(description))
            .build(),
    )
}
