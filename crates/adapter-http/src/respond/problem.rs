//! Problem responses (RFC 9457): the answers to requests that were rejected or failed.

mod code;

use std::borrow::Cow;

use actix_web::{
    HttpResponse,
    http::header::{self, HeaderName},
};
use domain::{
    api_key::Scope,
    ports::{StoreError, error_chain},
    request::Violation,
};
use serde::Serialize;

pub use code::ProblemCode;

use crate::request::id::RequestId;

/// Retry delay when a dependency does not respond.
const RETRY_UNAVAILABLE_SECONDS: u64 = 5;

/// The answer to a failed request. Details that only the operator may know are logged separately.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    code: ProblemCode,
    detail: Cow<'static, str>,
    errors: Option<Vec<FieldProblem>>,
    violated_policy: Option<&'static str>,
    /// The headers besides the body, such as `Retry-After`.
    header: Option<Box<(HeaderName, Cow<'static, str>)>>,
}

/// An invalid field, document or parameter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct FieldProblem {
    /// JSON Pointer (RFC 6901) to the field as the client sent it, the same for both operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pointer: Option<Cow<'static, str>>,
    /// Name of the parameter of the URL, instead of a pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parameter: Option<Cow<'static, str>>,
    /// Stable name of the error; programs can rely on it.
    pub(crate) code: &'static str,
    /// The correction, in words.
    pub(crate) detail: Cow<'static, str>,
}

/// The fields at fault of a request as JSON Pointers, with the codes of their faults.
pub(crate) struct Faults(pub(crate) Vec<(Cow<'static, str>, &'static str)>);

impl FieldProblem {
    /// Reports a field or document.
    pub(crate) fn at(
        pointer: impl Into<Cow<'static, str>>,
        code: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { pointer: Some(pointer.into()), parameter: None, code, detail: detail.into() }
    }

    /// Reports a parameter of the URL.
    pub(crate) fn of_parameter(
        parameter: impl Into<Cow<'static, str>>,
        code: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { pointer: None, parameter: Some(parameter.into()), code, detail: detail.into() }
    }
}

impl From<Violation> for FieldProblem {
    fn from(Violation { pointer, code, detail }: Violation) -> Self {
        Self::at(pointer, code.as_str(), detail)
    }
}

impl Problem {
    /// Creates a problem of a code and its explanation.
    pub(crate) fn new(code: ProblemCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { code, detail: detail.into(), errors: None, violated_policy: None, header: None }
    }

    /// Reports the fields, documents and parameters that are invalid.
    pub(crate) fn invalid(code: ProblemCode, errors: Vec<FieldProblem>) -> Self {
        let plural = if errors.len() == 1 { "" } else { "s" };
        let detail = format!("The request has {} error{plural}; see `errors`.", errors.len());
        Self { errors: Some(errors), ..Self::new(code, detail) }
    }

    /// Reports the members of a body that are invalid.
    pub(crate) fn violations(violations: Vec<Violation>) -> Self {
        let fields = violations.into_iter().map(FieldProblem::from);
        Self::invalid(ProblemCode::ValidationFailed, fields.collect())
    }

    /// Adds a sentence to the detail.
    pub(crate) fn adding(self, sentence: &str) -> Self {
        Self { detail: format!("{} {sentence}", self.detail).into(), ..self }
    }

    /// Tells the client to wait so many seconds before it retries.
    pub(crate) fn retry_after(self, seconds: u64) -> Self {
        self.with_header(header::RETRY_AFTER, seconds.to_string())
    }

    pub(crate) fn with_header(self, name: HeaderName, value: impl Into<Cow<'static, str>>) -> Self {
        Self { header: Some(Box::new((name, value.into()))), ..self }
    }

    /// Reports a request that cannot be read.
    pub(crate) fn malformed(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ProblemCode::MalformedRequest, detail)
    }

    /// Returns the problem of an order whose record cannot be read.
    pub(crate) fn unreadable_order() -> Self {
        Self::new(
            ProblemCode::UnreadableOrder,
            "The record of this order cannot be read. Give its number to the operator.",
        )
    }

    /// Reports a bug of the service, without its cause.
    pub(crate) fn internal() -> Self {
        Self::new(
            ProblemCode::Internal,
            "The service failed and has logged the error. Quote the request id when you report it.",
        )
    }

    /// Reports a dependency that does not respond.
    pub(crate) fn unavailable() -> Self {
        let detail = "A dependency of the service does not respond. Retry after the given delay.";
        Self::new(ProblemCode::Unavailable, detail).retry_after(RETRY_UNAVAILABLE_SECONDS)
    }

    /// Reports an exceeded quota. The policy allows another request in `seconds`.
    pub(crate) fn rate_limited(policy: &'static str, seconds: u64) -> Self {
        let detail = format!("Too many requests. Retry after {seconds} s.");
        let problem = Self::new(ProblemCode::RateLimited, detail).retry_after(seconds);
        Self { violated_policy: Some(policy), ..problem }
    }

    /// Reports missing or malformed credentials (RFC 6750, section 3).
    pub(crate) fn unauthorized(detail: &'static str) -> Self {
        Self::challenge(ProblemCode::Unauthorized, detail, "")
    }

    /// Reports a key that is unknown, expired or revoked (RFC 6750, section 3.1).
    pub(crate) fn invalid_token() -> Self {
        let detail = "The API key is unknown, expired or revoked.";
        Self::challenge(ProblemCode::Unauthorized, detail, r#", error="invalid_token""#)
    }

    /// Reports a session that is unknown, or has ended. The browser keeps its cookie: the person may have signed in
    /// again while the request was on its way.
    pub(crate) fn session_ended() -> Self {
        let detail = "The session has ended. Sign in again.";
        Self::challenge(ProblemCode::SessionEnded, detail, "")
    }

    /// Reports a request for which the key lacks a scope (RFC 6750, section 3.1).
    pub(crate) fn missing_scope(scope: Scope) -> Self {
        let scope = scope.as_str();
        let detail = format!("The API key does not have the scope {scope}.");
        let error = format!(r#", error="insufficient_scope", scope="{scope}""#);
        Self::challenge(ProblemCode::Forbidden, detail, &error)
    }

    /// Reports a key that does not permit the request. `error` says so to programs (RFC 6750, section
    /// 3.1).
    pub(crate) fn challenge(
        code: ProblemCode,
        detail: impl Into<Cow<'static, str>>,
        error: &str,
    ) -> Self {
        let challenge = format!(r#"Bearer realm="notary-orders"{error}"#);
        Self::new(code, detail).with_header(header::WWW_AUTHENTICATE, challenge)
    }

    /// Reports an order or a document that the owner of the key does not have. The same for those of
    /// other owners and those that do not exist.
    pub(crate) fn no_such_order() -> Self {
        let detail = "There is no such order or document for this API key.";
        Self::new(ProblemCode::NotFound, detail)
    }

    /// Reports a webhook or a delivery that the owner of the key does not have. The same for those of
    /// other owners and those that do not exist.
    pub(crate) fn no_such_webhook() -> Self {
        let detail = "There is no such webhook or delivery for this API key.";
        Self::new(ProblemCode::NotFound, detail)
    }

    /// Reports a range that a file of `size` bytes does not have.
    pub(crate) fn range_not_satisfiable(size: u64) -> Self {
        Self::new(
            ProblemCode::RangeNotSatisfiable,
            format!("The file has {size} bytes, none of them in the range."),
        )
        .with_header(header::CONTENT_RANGE, format!("bytes */{size}"))
    }

    /// Logs the error that led to the problem, with its causes.
    pub(crate) fn log(self, error: &dyn std::error::Error) -> Self {
        tracing::error!(error = error_chain(error), code = self.code.as_str(), "request failed");
        self
    }

    /// Returns the fields at fault.
    pub(crate) fn faults(&self) -> Faults {
        let errors = self.errors.iter().flatten();
        Faults(errors.filter_map(|error| Some((error.pointer.clone()?, error.code))).collect())
    }

    /// Returns the stable name of the problem.
    pub fn code(&self) -> ProblemCode {
        self.code
    }

    /// Builds the response.
    pub(crate) fn response(&self, request: &RequestId) -> HttpResponse {
        let mut response = HttpResponse::build(self.code.status());
        if let Some((name, value)) = self.header.as_deref() {
            response.insert_header((name, &**value));
        }
        response.content_type("application/problem+json").json(ProblemBody {
            r#type: self.code.type_uri(),
            title: self.code.title(),
            status: self.code.status().as_u16(),
            detail: &self.detail,
            code: self.code.as_str(),
            request_id: &request.id,
            trace_id: request.trace.as_deref(),
            errors: self.errors.as_deref(),
            violated_policies: self.violated_policy.map(|policy| [policy]),
        })
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let problem = match &error {
            StoreError::Unavailable(_) => Self::unavailable(),
            StoreError::Internal(_) if error.is_unreadable_order() => Self::unreadable_order(),
            StoreError::Internal(_) => Self::internal(),
        };
        problem.log(&error)
    }
}

/// The body of a problem response (RFC 9457, section 3).
#[derive(Serialize)]
struct ProblemBody<'a> {
    /// URI of the kind of problem.
    r#type: Cow<'static, str>,
    /// The kind of problem, in words.
    title: &'static str,
    /// The status of the response.
    status: u16,
    /// This occurrence of the problem, in words.
    detail: &'a str,
    /// Stable name of the kind of problem; programs can rely on it and on the status.
    code: &'static str,
    /// Identifier of the request, also in `X-Request-Id`. Quote it when you ask for help.
    request_id: &'a str,
    /// Identifier of the trace that the request is a part of (W3C Trace Context): of the header
    /// `traceparent`, or of the trace that the service exports.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<&'a str>,
    /// Every invalid field, document and parameter, with `validation_failed`,
    /// `unsupported_document`, `encrypted_document`, `infected_document` and `no_documents`.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<&'a [FieldProblem]>,
    /// Names of the policies whose quota was exceeded, with `rate_limited`.
    #[serde(rename = "violated-policies", skip_serializing_if = "Option::is_none")]
    violated_policies: Option<[&'static str; 1]>,
}
