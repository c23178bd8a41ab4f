//! JSON bodies.

use actix_web::{HttpMessage as _, HttpRequest, http::header, web};
use bytes::Bytes;
use domain::{
    person::Caller,
    request::{
        Object, ViolationCode,
        rules::{closed, unknown_members},
        whole_characters,
    },
};
use encoding_rs::UTF_8;
use garde::Validate;
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};

use crate::{
    admission::limits::Shares,
    body,
    respond::problem::{FieldProblem, Problem, ProblemCode},
};

/// Size limit of a JSON body in bytes. An order with every text at its limit has a fifth of it.
pub(crate) const MAX_BODY: u64 = 256 * 1024;

/// Size limit of a body that anybody may send, in bytes. The answer of an authenticator has a fifth of it.
pub(crate) const MAX_SMALL_BODY: u64 = 16 * 1024;

/// Reads a body with the content type of JSON, when `limit` permits it.
pub(crate) async fn read(
    request: &HttpRequest,
    payload: web::Payload,
    limit: &Shares,
    caller: &Caller,
) -> Result<Bytes, Problem> {
    check_head(request)?;
    let _permit = limit.acquire(request, caller.party()).await?;
    body::read_all(request, payload, MAX_BODY).await
}

/// Reads a small body that is an object, and checks its rules. Nobody need be signed in: its size alone bounds what it
/// holds.
pub(crate) async fn read_small_object<T>(
    request: &HttpRequest,
    payload: web::Payload,
) -> Result<T, Problem>
where
    T: DeserializeOwned + Validate<Context = ()>,
{
    check_head(request)?;
    let object: Object<T> = object(&body::read_all(request, payload, MAX_SMALL_BODY).await?)?;
    closed(&object).map_err(Problem::violations)?;
    Ok(object.members)
}

/// Rejects a body by its headers if it is no JSON.
fn check_head(request: &HttpRequest) -> Result<(), Problem> {
    if request.headers().get_all(header::CONTENT_TYPE).count() > 1 {
        return Err(Problem::malformed("The request has more than one content type."));
    }
    if !request.content_type().eq_ignore_ascii_case("application/json") {
        return Err(unsupported_media_type());
    }
    body::check_head(request, MAX_BODY)
}

pub(crate) fn unsupported_media_type() -> Problem {
    Problem::new(ProblemCode::UnsupportedMediaType, "The content type must be application/json.")
}

/// Parses a body into a type that is an object; `None` if it is other JSON.
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<Option<T>, Problem> {
    let (text, has_faults) = UTF_8.decode_with_bom_removal(body);
    if has_faults {
        return Err(Problem::malformed("The body is not UTF-8."));
    }
    let text = whole_characters(&text);
    let object = if text.trim_start().starts_with('{') {
        serde_json::from_str(&text).map(Some)
    } else {
        serde_json::from_str(&text).map(|IgnoredAny| None)
    };
    object.map_err(|error| Problem::malformed(format!("The body is not valid JSON: {error}.")))
}

/// Reads a body that is an object.
pub(crate) async fn read_object<T: DeserializeOwned>(
    request: &HttpRequest,
    payload: web::Payload,
    limit: &Shares,
    caller: &Caller,
) -> Result<Object<T>, Problem> {
    object(&read(request, payload, limit, caller).await?)
}

fn object<T: DeserializeOwned>(body: &[u8]) -> Result<Object<T>, Problem> {
    parse(body)?.ok_or_else(|| {
        let code = ViolationCode::WrongType.as_str();
        let error = FieldProblem::at("", code, "must be a JSON object");
        Problem::invalid(ProblemCode::ValidationFailed, vec![error])
    })
}

/// Reads a body as [`read_object`] does. An empty one has no members, whatever its headers say:
/// many clients send a type with each `POST`. So has one of blanks, `null` or a blank JSON text, which
/// programs make of no body.
pub(crate) async fn read_optional_object<T: DeserializeOwned + Default>(
    request: &HttpRequest,
    payload: web::Payload,
    limit: &Shares,
    caller: &Caller,
) -> Result<Object<T>, Problem> {
    let length = body::content_length(request.headers());
    if length.is_some_and(|length| length > MAX_BODY) {
        return Err(body::payload_too_large(MAX_BODY));
    }
    // Only its end shows whether a body is empty.
    let _permit = limit.acquire(request, caller.party()).await?;
    let body = body::read_all(request, payload, MAX_BODY).await?;
    if is_blank(&body) {
        return Ok(Object::default());
    }
    check_head(request)?;
    object(&body)
}

/// Refuses a JSON body with members, for an operation that needs none. Other bodies are ignored: many clients send
/// something with each `POST`.
pub(crate) async fn refuse_members(
    request: &HttpRequest,
    payload: web::Payload,
    limit: &Shares,
    caller: &Caller,
) -> Result<(), Problem> {
    if !request.content_type().eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let body: Object<NoMembers> = read_optional_object(request, payload, limit, caller).await?;
    let unknown: Vec<_> = unknown_members(&body, "").map(FieldProblem::from).collect();
    if unknown.is_empty() {
        Ok(())
    } else {
        Err(Problem::invalid(ProblemCode::ValidationFailed, unknown))
    }
}

/// The members of an object that has none.
#[derive(Default, Deserialize)]
#[serde(default)]
struct NoMembers {}

fn is_blank(body: &[u8]) -> bool {
    let body = UTF_8.decode_with_bom_removal(body).0;
    let text = match serde_json::from_str::<Option<String>>(&body) {
        Ok(text) => text.unwrap_or_default(),
        Err(_) => body.into_owned(),
    };
    text.trim().is_empty()
}
