//! The headers of responses.

use serde_json::Value;
use utoipa::openapi::{
    Object, Ref, RefOr, Response, Schema, Type,
    header::{Header, HeaderBuilder},
};

/// Returns every header with its name.
pub(super) fn all() -> impl Iterator<Item = (&'static str, Header)> {
    of_every_operation().into_iter().chain(of_some_operations())
}

/// Adds the headers of every response, and those of its own.
pub(super) fn add(mut response: Response, status: u16, own: &[&str]) -> Response {
    let rates: &[&str] = if status == 401 { &[] } else { &["RateLimit-Policy", "RateLimit"] };
    for name in ["X-Request-Id"].iter().chain(rates).chain(own) {
        let header = Ref::new(format!("#/components/headers/{name}"));
        response.headers.insert((*name).to_owned(), RefOr::Ref(header));
    }
    response
}

fn of_every_operation() -> [(&'static str, Header); 6] {
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
                 `orders-with-documents` for the operations with documents, `reads`, or `webhooks`. \
                 Absent if the key has no limit.",
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

fn of_some_operations() -> [(&'static str, Header); 9] {
    [
        (
            "ETag",
            header(
                "Identifies this version. The tag of a document is its SHA-256.",
                text(r#"^"[0-9a-f]+"$"#),
                r#""9f86d081884c7d659a2feaa0c55ad015""#.into(),
            ),
        ),
        (
            "Cache-Control",
            header(
                "A browser may keep the answer, and must ask before each use.",
                text("^private, no-cache$"),
                "private, no-cache".into(),
            ),
        ),
        (
            "Location",
            header(
                "Path of the new webhook.",
                text("/api/webhooks/[0-9]+$"),
                "/api/webhooks/3".into(),
            ),
        ),
        (
            "Link",
            header(
                "The next page, toward older items, and the previous one (RFC 8288). Absent if \
                 there is neither.",
                text("^<"),
                r#"</api/order?limit=20&starting_after=7>; rel="next""#.into(),
            ),
        ),
        (
            "Content-Disposition",
            header(
                "The file names (RFC 6266): sanitized, and as sent.",
                text("^attachment; "),
                r#"attachment; filename="deed.pdf"; filename*=UTF-8''deed.pdf"#.into(),
            ),
        ),
        ("Accept-Ranges", header("A part can be requested.", text("^bytes$"), "bytes".into())),
        (
            "Content-Range",
            header(
                "The part of the document, or its size after 416.",
                text(r"^bytes (?:[0-9]+-[0-9]+|\*)/[0-9]+$"),
                "bytes 0-1023/48213".into(),
            ),
        ),
        (
            "Repr-Digest",
            header(
                "SHA-256 of the whole document (RFC 9530).",
                text("^sha-256=:[A-Za-z0-9+/]+=*:$"),
                "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:".into(),
            ),
        ),
        (
            "Content-Security-Policy",
            header(
                "A browser that shows the document executes nothing in it.",
                text("^sandbox$"),
                "sandbox".into(),
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
