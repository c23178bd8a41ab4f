//! JSON bodies.

use actix_web::{HttpMessage as _, HttpRequest, http::header, web};
use bytes::Bytes;
use domain::{
    api_key::ApiKey,
    order::{Field, JsonType, ViolationCode},
};
use serde::de::{Error as _, MapAccess};
use serde_json::{Map, Value};

use crate::{
    access::limits::BodyLimit,
    body,
    respond::problem::{FieldProblem, Problem, ProblemCode},
};

/// Size limit of a JSON body in bytes. An order with every text at its limit has a fifth of it.
pub(crate) const MAX_BODY: u64 = 256 * 1024;

/// Reads a body with the content type of JSON, when `limit` permits it.
pub(crate) async fn read(
    request: &HttpRequest,
    payload: web::Payload,
    limit: &BodyLimit,
    key: &ApiKey,
) -> Result<Bytes, Problem> {
    if request.headers().get_all(header::CONTENT_TYPE).count() > 1 {
        return Err(Problem::malformed("The request has more than one content type."));
    }
    if !request.content_type().eq_ignore_ascii_case("application/json") {
        return Err(unsupported_media_type());
    }
    body::check_head(request, MAX_BODY)?;
    let _permit = limit.acquire(request, key.client()).await?;
    body::read_all(request, payload, MAX_BODY).await
}

pub(crate) fn unsupported_media_type() -> Problem {
    Problem::new(ProblemCode::UnsupportedMediaType, "The content type must be application/json.")
}

/// Parses a body into a type that is an object.
pub(crate) fn parse<T: for<'de> JsonType<'de>>(body: &[u8]) -> Result<Field<T>, Problem> {
    let text =
        std::str::from_utf8(body).map_err(|_| Problem::malformed("The body is not UTF-8."))?;
    serde_json::from_str(text)
        .map_err(|error| Problem::malformed(format!("The body is not valid JSON: {error}.")))
}

/// Reads a body that is an object, and returns its members.
pub(crate) async fn read_object(
    request: &HttpRequest,
    payload: web::Payload,
    limit: &BodyLimit,
    key: &ApiKey,
) -> Result<Map<String, Value>, Problem> {
    let body = read(request, payload, limit, key).await?;
    match parse(&body)? {
        Field::Value(Members(members)) => Ok(members),
        Field::Absent | Field::Mistyped => {
            let code = ViolationCode::WrongType.as_str();
            let error = FieldProblem::at("", code, "must be a JSON object");
            Err(Problem::invalid(ProblemCode::ValidationFailed, vec![error]))
        }
    }
}

/// The members of an object, each of them once.
struct Members(Map<String, Value>);

impl<'de> JsonType<'de> for Members {
    const EXPECTED: &'static str = "an object";

    fn from_object<A: MapAccess<'de>>(mut object: A) -> Result<Option<Self>, A::Error> {
        let mut members = Map::new();
        while let Some((name, value)) = object.next_entry()? {
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("a member occurs twice"));
            }
        }
        Ok(Some(Self(members)))
    }
}
