//! The responses of the operations, with their headers.

use std::borrow::Cow;

use serde_json::{Value, json};
use utoipa::openapi::{
    Components, Content, Object, Ref, RefOr, Response, Responses, Schema, Type,
    example::ExampleBuilder,
    header::{Header, HeaderBuilder},
};

use super::{problems, settings::OpenApiSettings, units};
use crate::{orders::create_json, rate_limit::FAILED_AUTHENTICATIONS};

/// Returns the responses that both operations share: status, name, description.
fn shared(settings: &OpenApiSettings) -> [(u16, &'static str, Cow<'static, str>); 9] {
    let conflict = format!(
        "The file number was used less than {} ago, or the first request with this \
         `Idempotency-Key` is still in progress.",
        units::duration(settings.duplicate_window.0)
    );
    [
        (
            401,
            "Unauthorized",
            "The credentials are missing or malformed, or the key is unknown, expired or revoked."
                .into(),
        ),
        (403, "Forbidden", "The key is bound to another signing service.".into()),
        (408, "RequestTimeout", "The body did not arrive in time.".into()),
        (409, "Conflict", conflict.into()),
        (
            415,
            "UnsupportedMediaType",
            "The operation does not accept this content type, or the body has a content coding."
                .into(),
        ),
        (
            422,
            "IdempotencyKeyReused",
            "The `Idempotency-Key` was used with another body. Use a new key.".into(),
        ),
        (
            429,
            "TooManyRequests",
            "Too many requests with this key, or too many failed authentications from this \
             address."
                .into(),
        ),
        (500, "InternalServerError", "The service failed. Report the `request_id`.".into()),
        (
            503,
            "ServiceUnavailable",
            "A dependency of the service does not respond, or the service is at a limit.".into(),
        ),
    ]
}

/// Returns the responses to an order.
pub(super) fn of_orders(settings: &OpenApiSettings, with_documents: bool) -> Responses {
    let body_limit = units::size(create_json::MAX_BODY);
    let (created, bad, too_large) = if with_documents {
        (
            "The order was created and its documents are stored.",
            "The request cannot be read, fields are missing or invalid, or documents are encrypted \
             or not supported.",
            "A document, a text part or the whole form is too large.".to_owned(),
        )
    } else {
        (
            "The order was created.",
            "The request cannot be read, or fields are missing or invalid.",
            format!("The body is larger than {body_limit}."),
        )
    };
    let mut responses = Responses::new();
    let mut add = |status: u16, response: RefOr<Response>| {
        responses.responses.insert(status.to_string(), response);
    };
    add(201, self::created(created, with_documents).into());
    add(400, problem(settings, 400, bad, with_documents).into());
    add(413, problem(settings, 413, &too_large, with_documents).into());
    for (status, name, _) in shared(settings) {
        add(status, Ref::from_response_name(name).into());
    }
    responses
}

/// Adds the responses and headers that the operations refer to.
pub(super) fn add_shared(components: &mut Components, settings: &OpenApiSettings) {
    for (status, name, description) in shared(settings) {
        let response = problem(settings, status, &description, true);
        components.responses.insert(name.to_owned(), response.into());
    }
    components.headers.extend(headers().map(|(name, header)| (name.to_owned(), header.into())));
}

/// Returns the record of an order with documents.
pub(super) fn record() -> Value {
    json!({
        "order_id": 1,
        "file_number": "REFI-1",
        "order_status": "NEW",
        "signer_name": "Jane Doe",
        "signing_date": "2026-12-01",
        "property_address": "123 Main St, Dallas, TX 75201",
        "signing_service_id": 42,
        "client_company_id": 7,
        "notary_id": null,
        "invoice_fee": 150.5,
        "notary_pay": 100,
        "documents_uploaded": 1,
        "created_at": "2026-11-21T12:00:00.000000Z",
        "updated_at": "2026-11-21T12:00:00.000000Z"
    })
}

fn created(description: &str, with_documents: bool) -> Response {
    let mut record = record();
    if let Some(members) = record.as_object_mut().filter(|_| !with_documents) {
        members.remove("documents_uploaded");
    }
    let example = ExampleBuilder::new().summary("A new order").value(Some(record));
    let mut body = Content::new(Some(Ref::from_schema_name("OrderRecord")));
    body.examples.insert("created".to_owned(), example.into());
    response(201, description, "application/json", body)
}

/// Returns the response of a status with examples of its problems.
fn problem(
    settings: &OpenApiSettings,
    status: u16,
    description: &str,
    with_documents: bool,
) -> Response {
    let mut body = Content::new(Some(Ref::from_schema_name("Problem")));
    for (_, problem) in problems::all(settings.limits)
        .into_iter()
        .filter(|(documents_only, _)| with_documents || !documents_only)
    {
        let value = problems::body_of(&problem);
        if value["status"] == status {
            let failures = value["violated-policies"][0] == FAILED_AUTHENTICATIONS;
            let name = if failures { "failed_authentications" } else { problem.code().as_str() };
            let example = ExampleBuilder::new().summary(name).value(Some(value));
            body.examples.insert(name.to_owned(), example.into());
        }
    }
    response(status, description, "application/problem+json", body)
}

fn response(status: u16, description: &str, media_type: &str, body: Content) -> Response {
    let rates: &[&str] = if status == 401 { &[] } else { &["RateLimit-Policy", "RateLimit"] };
    let own: &[&str] = match status {
        201 => &["Idempotency-Replayed"],
        401 | 403 => &["WWW-Authenticate"],
        409 | 429 | 503 => &["Retry-After"],
        _ => &[],
    };
    let mut response = Response::new(description);
    response.content.insert(media_type.to_owned(), body.into());
    for name in ["X-Request-Id"].iter().chain(rates).chain(own) {
        let header = Ref::new(format!("#/components/headers/{name}"));
        response.headers.insert((*name).to_owned(), RefOr::Ref(header));
    }
    response
}

fn headers() -> [(&'static str, Header); 6] {
    [
        (
            "X-Request-Id",
            header(
                "Identifier of the request. Quote it when you ask for help.",
                text("^[A-Za-z0-9._-]{1,128}$"),
                "5a1c0e9d7b3f4a2286c0d1e5".into(),
            ),
        ),
        (
            "RateLimit-Policy",
            header(
                "The quota of the key (draft-ietf-httpapi-ratelimit-headers-10): `q` requests at \
                 once, and `w` seconds until an empty quota is full again. The policy is `orders`, \
                 or `orders-with-documents` for the operation with documents. Absent if the key \
                 has no limit.",
                text(r#"^"[a-z-]+";q=[0-9]+;w=[0-9]+$"#),
                r#""orders";q=100;w=2"#.into(),
            ),
        ),
        (
            "RateLimit",
            header(
                "The remaining quota: `r` requests now, and more in `t` seconds. Absent if the key \
                 has no limit.",
                text(r#"^"[a-z-]+";r=[0-9]+;t=[0-9]+$"#),
                r#""orders";r=99;t=1"#.into(),
            ),
        ),
        ("Retry-After", header("Seconds to wait before a retry.", seconds(), 1.into())),
        (
            "WWW-Authenticate",
            header(
                "Why the credentials were rejected (RFC 6750).",
                text("^Bearer "),
                r#"Bearer realm="notary-orders", error="invalid_token""#.into(),
            ),
        ),
        (
            "Idempotency-Replayed",
            header(
                "`true` if this repeats the answer to an earlier request with the same \
                 `Idempotency-Key`; absent otherwise.",
                text("^true$"),
                "true".into(),
            ),
        ),
    ]
}

fn header(description: &str, schema: Object, example: Value) -> Header {
    HeaderBuilder::new()
        .description(Some(description))
        .schema(Some(Schema::Object(schema)))
        .example(Some(example))
        .build()
}

fn text(pattern: &str) -> Object {
    let mut schema = Object::with_type(Type::String);
    schema.pattern = Some(pattern.to_owned());
    schema
}

fn seconds() -> Object {
    let mut schema = Object::with_type(Type::Integer);
    schema.minimum = Some(1.into());
    schema
}
