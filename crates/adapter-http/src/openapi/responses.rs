//! The responses of the operations, with their headers.

use serde_json::{Value, json};
use utoipa::openapi::{
    Components, Content, Object, Ref, RefOr, Response, Responses, Schema, Type,
    example::ExampleBuilder,
    header::{Header, HeaderBuilder},
};

use super::{
    problems::{self, Shown},
    settings::OpenApiSettings,
    units,
};
use crate::orders::create_json;

/// Problems that both operations answer alike: name of the shared response, status, description,
/// examples.
fn shared(settings: &OpenApiSettings) -> [(&'static str, &'static str, String, Vec<Shown>); 8] {
    let conflict = format!(
        "The file number was used less than {} ago, or the first request with this \
         `Idempotency-Key` is still in progress.",
        units::duration(settings.duplicate_window.0)
    );
    [
        (
            "Unauthorized",
            "401",
            "The credentials are missing or malformed, or the key is unknown, expired or revoked."
                .to_owned(),
            vec![problems::unauthorized()],
        ),
        (
            "Forbidden",
            "403",
            "The key is bound to another signing service.".to_owned(),
            vec![problems::forbidden()],
        ),
        ("Conflict", "409", conflict, vec![problems::duplicate(), problems::in_progress()]),
        (
            "UnsupportedMediaType",
            "415",
            "The operation does not accept this content type, or the body has a content coding."
                .to_owned(),
            vec![problems::media_type()],
        ),
        (
            "IdempotencyKeyReused",
            "422",
            "The `Idempotency-Key` was used with another body. Use a new key.".to_owned(),
            vec![problems::key_reused()],
        ),
        (
            "TooManyRequests",
            "429",
            "Too many requests with this key, or too many failed authentications from this \
             address."
                .to_owned(),
            vec![problems::rate_limited(), problems::failed_authentications()],
        ),
        (
            "InternalServerError",
            "500",
            "The service failed. Report the `request_id`.".to_owned(),
            vec![problems::internal()],
        ),
        (
            "ServiceUnavailable",
            "503",
            "A dependency of the service does not respond, or the service is at its concurrency \
             limit."
                .to_owned(),
            vec![problems::unavailable()],
        ),
    ]
}

/// Returns the responses to an order without documents.
pub(super) fn of_json_orders(settings: &OpenApiSettings) -> Responses {
    let bad = problem(
        "400",
        "The request cannot be read, or fields are missing or invalid.",
        &[problems::malformed(), problems::invalid()],
    );
    let too_large = format!("The body is larger than {}.", units::size(create_json::MAX_BODY));
    let too_large = problem("413", &too_large, &[problems::payload_too_large()]);
    with_shared(settings, created("The order was created.", None), bad, too_large)
}

/// Returns the responses to an order with documents.
pub(super) fn of_form_orders(settings: &OpenApiSettings) -> Responses {
    let bad = problem(
        "400",
        "The request cannot be read, fields are missing or invalid, or documents are not \
         supported.",
        &[
            problems::malformed(),
            problems::invalid(),
            problems::unsupported_document(),
            problems::too_many_documents(settings.limits),
            problems::no_documents(),
        ],
    );
    let too_large = problem(
        "413",
        "A document, a text part or the whole form is too large.",
        &[problems::document_too_large(settings.limits), problems::payload_too_large()],
    );
    let created = created("The order was created and its documents are stored.", Some(1));
    with_shared(settings, created, bad, too_large)
}

/// Adds the responses and headers that the operations refer to.
pub(super) fn add_shared(components: &mut Components, settings: &OpenApiSettings) {
    for (name, status, description, shown) in shared(settings) {
        components.responses.insert(name.to_owned(), problem(status, &description, &shown).into());
    }
    components.headers.extend(headers().map(|(name, header)| (name.to_owned(), header.into())));
}

fn with_shared(
    settings: &OpenApiSettings,
    created: Response,
    bad: Response,
    too_large: Response,
) -> Responses {
    let mut responses = Responses::new();
    for (status, response) in [("201", created), ("400", bad), ("413", too_large)] {
        responses.responses.insert(status.to_owned(), response.into());
    }
    for (name, status, _, _) in shared(settings) {
        responses.responses.insert(status.to_owned(), Ref::from_response_name(name).into());
    }
    responses
}

fn created(description: &str, documents: Option<u32>) -> Response {
    let mut record = json!({
        "order_id": 1,
        "file_number": "REFI-2026-001",
        "order_status": "NEW",
        "signer_name": "Jane Doe",
        "signing_date": "2026-12-01",
        "property_address": "123 Main St, Dallas, TX 75201",
        "signing_service_id": 42,
        "client_company_id": 7,
        "notary_id": null,
        "invoice_fee": 150.5,
        "notary_pay": 100,
        "created_at": "2026-11-21T12:00:00.000000Z",
        "updated_at": "2026-11-21T12:00:00.000000Z"
    });
    if let Some(documents) = documents {
        record["documents_uploaded"] = documents.into();
    }
    let mut body = Content::new(Some(Ref::from_schema_name("OrderRecord")));
    body.examples.insert(
        "created".to_owned(),
        ExampleBuilder::new().summary("A new order").value(Some(record)).into(),
    );
    let mut response = Response::new(description);
    response.content.insert("application/json".to_owned(), body.into());
    response.headers.insert("Idempotency-Replayed".to_owned(), header_ref("Idempotency-Replayed"));
    with_headers(response, "201")
}

fn problem(status: &str, description: &str, shown: &[Shown]) -> Response {
    let mut response = Response::new(description);
    response.content.insert("application/problem+json".to_owned(), problems::body(shown).into());
    with_headers(response, status)
}

fn with_headers(mut response: Response, status: &str) -> Response {
    let rates: &[&str] = if status == "401" { &[] } else { &["RateLimit-Policy", "RateLimit"] };
    let own: &[&str] = match status {
        "401" | "403" => &["WWW-Authenticate"],
        "409" | "429" | "503" => &["Retry-After"],
        _ => &[],
    };
    for name in ["X-Request-Id"].iter().chain(rates).chain(own) {
        response.headers.insert((*name).to_owned(), header_ref(name));
    }
    response
}

fn header_ref(name: &str) -> RefOr<Header> {
    RefOr::Ref(Ref::new(format!("#/components/headers/{name}")))
}

fn headers() -> [(&'static str, Header); 6] {
    [
        (
            "X-Request-Id",
            header(
                "Identifier of the request. Quote it when you ask for help.",
                text("^[0-9a-f]{24}$", "5a1c0e9d7b3f4a2286c0d1e5"),
            ),
        ),
        (
            "RateLimit-Policy",
            header(
                "The quota of the key (draft-ietf-httpapi-ratelimit-headers-10): `q` requests at \
                 once, and `w` seconds until an empty quota is full again. The policy is `orders`, \
                 or `orders-with-documents` for the operation with documents. Absent if the key \
                 has no limit.",
                text(r#"^"[a-z-]+";q=[0-9]+;w=[0-9]+$"#, r#""orders";q=100;w=2"#),
            ),
        ),
        (
            "RateLimit",
            header(
                "The remaining quota: `r` requests now, and more in `t` seconds. Absent if the key \
                 has no limit.",
                text(r#"^"[a-z-]+";r=[0-9]+;t=[0-9]+$"#, r#""orders";r=99;t=1"#),
            ),
        ),
        ("Retry-After", header("Seconds to wait before a retry.", seconds())),
        (
            "WWW-Authenticate",
            header(
                "Why the credentials were rejected (RFC 6750).",
                text("^Bearer ", r#"Bearer realm="notary-orders", error="invalid_token""#),
            ),
        ),
        (
            "Idempotency-Replayed",
            header(
                "`true` if this repeats the answer to an earlier request with the same \
                 `Idempotency-Key`; absent otherwise.",
                text("^true$", "true"),
            ),
        ),
    ]
}

fn header(description: &str, (schema, example): (Object, Value)) -> Header {
    HeaderBuilder::new()
        .description(Some(description))
        .schema(Some(Schema::Object(schema)))
        .example(Some(example))
        .build()
}

fn text(pattern: &str, example: &str) -> (Object, Value) {
    let mut schema = Object::with_type(Type::String);
    schema.pattern = Some(pattern.to_owned());
    (schema, example.into())
}

fn seconds() -> (Object, Value) {
    let mut schema = Object::with_type(Type::Integer);
    schema.minimum = Some(1.into());
    (schema, 1.into())
}
