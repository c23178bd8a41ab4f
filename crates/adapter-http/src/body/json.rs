//! JSON bodies.

use actix_web::{HttpMessage as _, HttpRequest, http::header, web};
use bytes::Bytes;
use domain::{
    api_key::ApiKey,
    order::{ViolationCode, change_request::Members, whole_characters},
};
use encoding_rs::UTF_8;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value};

use crate::{
    access::limits::Shares,
    body,
    respond::problem::{FieldProblem, Problem, ProblemCode},
};

/// Size limit of a JSON body in bytes. An order with every text at its limit has a fifth of it.
pub(crate) const MAX_BODY: u64 = 256 * 1024;

/// Reads a body with the content type of JSON, when `limit` permits it.
pub(crate) async fn read(
    request: &HttpRequest,
    payload: web::Payload,
    limit: &Shares,
    key: &ApiKey,
) -> Result<Bytes, Problem> {
    check_head(request)?;
    let _permit = limit.acquire(request, key.client()).await?;
    body::read_all(request, payload, MAX_BODY).await
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
pub(crate) fn parse<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<Option<T>, Problem> {
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
    object.map_err(|error| not_json(&error))
}

fn not_json(error: &serde_json::Error) -> Problem {
    Problem::malformed(format!("The body is not valid JSON: {error}."))
}

/// Reads a body that is an object, and returns its members, each of them once.
pub(crate) async fn read_members(
    request: &HttpRequest,
    payload: web::Payload,
    limit: &Shares,
    key: &ApiKey,
) -> Result<Members, Problem> {
    members(&read(request, payload, limit, key).await?)
}

fn members(body: &[u8]) -> Result<Members, Problem> {
    if let Some(Distinct(members)) = parse(body)? {
        return Ok(members);
    }
    let code = ViolationCode::WrongType.as_str();
    let error = FieldProblem::at("", code, "must be a JSON object");
    Err(Problem::invalid(ProblemCode::ValidationFailed, vec![error]))
}

/// Reads a body as [`read_members`] does. An empty one has no members, whatever its headers say:
/// many clients send a type with each `POST`.
pub(crate) async fn read_optional_members(
    request: &HttpRequest,
    payload: web::Payload,
    limit: &Shares,
    key: &ApiKey,
) -> Result<Members, Problem> {
    if body::content_length(request.headers()).is_some_and(|length| length > 0) {
        return read_members(request, payload, limit, key).await;
    }
    // Only its end shows whether a body of unknown length is empty.
    let _permit = limit.acquire(request, key.client()).await?;
    let body = body::read_all(request, payload, MAX_BODY).await?;
    if body.is_empty() {
        return Ok(Members::new());
    }
    check_head(request)?;
    members(&body)
}

/// Reads a body as [`read_members`] does, with the values of its members.
pub(crate) async fn read_object(
    request: &HttpRequest,
    payload: web::Payload,
    limit: &Shares,
    key: &ApiKey,
) -> Result<Map<String, Value>, Problem> {
    let members = read_members(request, payload, limit, key).await?;
    let values = members.into_iter().map(|(name, json)| {
        let value = serde_json::from_str(json.get()).map_err(|error| not_json(&error))?;
        Ok((name, value))
    });
    values.collect()
}

/// The members of an object, each of them once.
struct Distinct(Members);

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self(Members::new()))
    }
}

impl<'de> Visitor<'de> for Distinct {
    type Value = Self;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut object: A) -> Result<Self, A::Error> {
        while let Some((name, value)) = object.next_entry()? {
            if self.0.insert(name, value).is_some() {
                return Err(A::Error::custom("a member occurs twice"));
            }
        }
        Ok(self)
    }
}
