//! The responses of the operations, with their headers.

use serde_json::{Value, json};
use utoipa::openapi::{
    Components, Content, Object, Ref, RefOr, Response, Responses, Schema, Type,
    example::ExampleBuilder,
    header::{Header, HeaderBuilder},
};

use super::problems::{self, Shown};

const ORDER: &str = "The order was created.";
const ORDER_WITH_DOCUMENTS: &str = "The order was created and its documents are stored.";

/// Problems that both operations answer alike: name among the shared responses, status,
/// description, examples.
const SHARED: [(&str, &str, &str, &[Shown]); 8] = [
    (
        "Unauthorized",
        "401",
        "Credentials are missing, malformed or not good: check the key.",
        &[problems::UNAUTHORIZED],
    ),
    (
        "Forbidden",
        "403",
        "The key is bound to another signing service: use the right one.",
        &[problems::FORBIDDEN],
    ),
    (
        "Conflict",
        "409",
        "The file number was used less than a minute ago, or the first request with this `Idempotency-Key` is still being answered.",
        &[problems::DUPLICATE, problems::IN_FLIGHT],
    ),
    (
        "UnsupportedMediaType",
        "415",
        "The content type is not the operation's, or the body has a content coding.",
        &[problems::MEDIA_TYPE],
    ),
    (
        "IdempotencyKeyReused",
        "422",
        "The `Idempotency-Key` was used with another payload: use a new one.",
        &[problems::KEY_REUSED],
    ),
    (
        "TooManyRequests",
        "429",
        "Too many requests of this key, or too many failed authentications of this address: wait.",
        &[problems::RATE_LIMITED, problems::TOO_MANY_FAILURES],
    ),
    ("InternalServerError", "500", "A bug: report the `request_id`.", &[problems::INTERNAL]),
    (
        "ServiceUnavailable",
        "503",
        "A part that the service depends on does not answer, or more orders arrive than the service can take: retry.",
        &[problems::UNAVAILABLE],
    ),
];

pub(super) fn of_orders() -> Responses {
    let bad = problem(
        "400",
        "The request cannot be read, or fields are missing or invalid: mend it.",
        &[problems::MALFORMED, problems::INVALID],
    );
    let large = problem("413", "The body is larger than 256 KiB.", &[problems::TOO_LARGE]);
    with_shared(created(ORDER, None), bad, large)
}

pub(super) fn of_orders_with_documents() -> Responses {
    let bad = problem(
        "400",
        "The request cannot be read, fields are missing or invalid, or documents are not acceptable: mend it.",
        &[
            problems::MALFORMED,
            problems::INVALID,
            problems::UNSUPPORTED,
            problems::TOO_MANY,
            problems::NONE,
        ],
    );
    let large = problem(
        "413",
        "A document, a text part or the whole form is too large: send less.",
        &[problems::DOCUMENT_TOO_LARGE, problems::TOO_LARGE],
    );
    with_shared(created(ORDER_WITH_DOCUMENTS, Some(1)), bad, large)
}

/// Adds what the operations' responses refer to.
pub(super) fn add_shared(components: &mut Components) {
    for (name, status, description, shown) in SHARED {
        components.responses.insert(name.to_owned(), problem(status, description, shown).into());
    }
    components.headers.extend(headers().map(|(name, header)| (name.to_owned(), header.into())));
}

fn with_shared(created: Response, bad: Response, large: Response) -> Responses {
    let mut responses = Responses::new();
    for (status, response) in [("201", created), ("400", bad), ("413", large)] {
        responses.responses.insert(status.to_owned(), response.into());
    }
    for (name, status, _, _) in SHARED {
        responses.responses.insert(status.to_owned(), Ref::from_response_name(name).into());
    }
    responses
}

fn created(description: &str, documents: Option<u32>) -> Response {
    let mut record = json!({
        "order_id": 1, "file_number": "REFI-2026-001", "order_status": "NEW", "signer_name": "Jane Doe", "signing_date": "2026-12-01",
        "property_address": "123 Main St, Dallas, TX 75201", "signing_service_id": 42, "client_company_id": 7, "notary_id": null, "invoice_fee": 150.5,
        "notary_pay": 100, "created_at": "2026-11-21T12:00:00.000000Z", "updated_at": "2026-11-21T12:00:00.000000Z"
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
                "Identifier of the request; quote it when you ask for help.",
                text("^[0-9a-f]{24}$", "5a1c0e9d7b3f4a2286c0d1e5"),
            ),
        ),
        (
            "RateLimit-Policy",
            header(
                "The key's quota (draft-ietf-httpapi-ratelimit-headers-10): `q` requests at once, and `w` seconds until an empty quota is full again. The \
                 policy is `orders`, or `orders-with-documents` for the operation with documents. Absent if the operator set no limit.",
                text(r#"^"[a-z-]+";q=[0-9]+;w=[0-9]+$"#, r#""orders";q=100;w=2"#),
            ),
        ),
        (
            "RateLimit",
            header(
                "What is left of the quota: `r` requests now, and more in `t` seconds. Absent if the operator set no limit.",
                text(r#"^"[a-z-]+";r=[0-9]+;t=[0-9]+$"#, r#""orders";r=99;t=1"#),
            ),
        ),
        ("Retry-After", header("Seconds to wait before the request is sent again.", seconds())),
        (
            "WWW-Authenticate",
            header(
                "What is wrong with the credentials (RFC 6750).",
                text("^Bearer ", r#"Bearer realm="notary-orders", error="invalid_token""#),
            ),
        ),
        (
            "Idempotency-Replayed",
            header(
                "`true` when this is the answer to an earlier request with the same `Idempotency-Key`; absent otherwise.",
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
