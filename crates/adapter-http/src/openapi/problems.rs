//! The problems that the operations answer, each with an example.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::openapi::{
    Content, Ref, RefOr,
    example::{Example, ExampleBuilder},
};

/// A kind of problem as the document shows it.
pub(super) struct Kind {
    /// Name of its example.
    pub(super) name: &'static str,
    pub(super) status: u16,
    pub(super) code: &'static str,
    pub(super) title: &'static str,
    pub(super) detail: &'static str,
    /// Member beside those that every problem has.
    pub(super) extra: Option<fn() -> (&'static str, Value)>,
}

const fn kind(status: u16, code: &'static str, title: &'static str, detail: &'static str) -> Kind {
    Kind { name: code, status, code, title, detail, extra: None }
}

pub(super) const MALFORMED: Kind =
    kind(400, "malformed_request", "The request cannot be read", "The body is not valid JSON: expected value at line 1 column 1.");
pub(super) const INVALID: Kind = Kind {
    extra: Some(|| {
        (
            "errors",
            json!([
                { "pointer": "/signingDetailsFormData/state", "code": "invalid_format", "detail": "must be a state code of two letters" },
                { "pointer": "/requestedBy/userId", "code": "required", "detail": "is required" }
            ]),
        )
    }),
    ..kind(400, "validation_failed", "Fields are missing or invalid", "2 things to mend; see errors.")
};
pub(super) const UNSUPPORTED: Kind = Kind {
    extra: Some(|| ("errors", json!([{ "pointer": "/documents/0", "code": "content_mismatch", "detail": "must be what its extension says" }]))),
    ..kind(400, "unsupported_document", "A document is not acceptable", "1 thing to mend; see errors.")
};
pub(super) const TOO_MANY: Kind = kind(400, "too_many_documents", "Too many documents", "At most 20 documents can be sent with an order.");
pub(super) const NONE: Kind = Kind {
    extra: Some(|| ("errors", json!([{ "pointer": "/documents", "code": "no_documents", "detail": "must have at least one document" }]))),
    ..kind(400, "no_documents", "No documents", "1 thing to mend; see errors.")
};
pub(super) const UNAUTHORIZED: Kind = kind(401, "unauthorized", "A valid API key is required", "The API key is unknown, expired or revoked.");
pub(super) const FORBIDDEN: Kind = kind(403, "forbidden", "The API key may not do this", "The API key may not create orders for this signing service.");
pub(super) const DUPLICATE: Kind = kind(
    409,
    "duplicate_order",
    "The file number was used a moment ago",
    "An order with this fileNumber was created a moment ago. It can be used again in 43 s.",
);
pub(super) const IN_FLIGHT: Kind = kind(
    409,
    "idempotency_in_flight",
    "The first request with this idempotency key is not answered yet",
    "A request with this Idempotency-Key is being answered. Try again in 1 s.",
);
pub(super) const DOCUMENT_TOO_LARGE: Kind =
    kind(413, "document_too_large", "A document is too large", "The document \u{201c}deed-of-trust.pdf\u{201d} is larger than 10485760 bytes.");
pub(super) const TOO_LARGE: Kind = kind(413, "payload_too_large", "The request is too large", "The body is larger than 262144 bytes.");
pub(super) const MEDIA_TYPE: Kind =
    kind(415, "unsupported_media_type", "The content type is not the operation's", "The content type must be application/json.");
pub(super) const KEY_REUSED: Kind = kind(
    422,
    "idempotency_key_reused",
    "The idempotency key belongs to another request",
    "The Idempotency-Key was used with another payload. Use a new one for each order.",
);
pub(super) const RATE_LIMITED: Kind =
    Kind { extra: Some(|| ("violated-policies", json!(["orders"]))), ..kind(429, "rate_limited", "Too many requests", "Too many requests. Try again in 1 s.") };
pub(super) const TOO_MANY_FAILURES: Kind = Kind {
    name: "failed_authentications",
    extra: Some(|| ("violated-policies", json!(["failed-authentications"]))),
    ..kind(429, "rate_limited", "Too many requests", "Too many requests. Try again in 1 s.")
};
pub(super) const INTERNAL: Kind = kind(500, "internal", "Something went wrong", "The failure was recorded. Quote the request id when you report it.");
pub(super) const UNAVAILABLE: Kind =
    kind(503, "unavailable", "The service is not available", "A part that the service depends on does not answer. Try again later.");

/// A problem body, with an example of each kind that it may be.
pub(super) fn body(kinds: &[&Kind]) -> Content {
    let mut content = Content::new(Some(Ref::from_schema_name("Problem")));
    content.examples = kinds.iter().map(|kind| (kind.name.to_owned(), example(kind))).collect::<BTreeMap<_, _>>();
    content
}

fn example(kind: &Kind) -> RefOr<Example> {
    let r#type = match kind.code {
        "rate_limited" => "https://iana.org/assignments/http-problem-types#quota-exceeded".to_owned(),
        code => format!("urn:problem-type:notary-orders:{code}"),
    };
    let mut problem = json!({
        "type": r#type, "title": kind.title, "status": kind.status, "detail": kind.detail, "code": kind.code, "request_id": "5a1c0e9d7b3f4a2286c0d1e5"
    });
    if let Some((name, value)) = kind.extra.map(|extra| extra()) {
        problem[name] = value;
    }
    ExampleBuilder::new().summary(kind.name).value(Some(problem)).into()
}
