//! Problem responses (RFC 9457): what a client is told when it does not get what it asked for.

use std::borrow::Cow;

use actix_web::{
    HttpResponse,
    http::{StatusCode, header},
};
use domain::{
    create_order::{CreateOrderError, Rejection},
    document::DocumentFault,
    order::Violation,
    ports::{StoreError, error_chain},
};
use serde::Serialize;
use utoipa::ToSchema;

/// Kinds of problems; the names are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemCode {
    /// Not JSON, not multipart, truncated, or a part that is repeated or cannot be read.
    MalformedRequest,
    /// Fields are missing or invalid.
    ValidationFailed,
    /// A document is of no accepted format, or not what its extension says.
    UnsupportedDocument,
    /// More documents than one request may have.
    TooManyDocuments,
    /// A request for an order with documents has none.
    NoDocuments,
    /// Credentials are missing, malformed or not good.
    Unauthorized,
    /// The key is bound to another signing service.
    Forbidden,
    /// No such path.
    NotFound,
    /// The path does not take this method.
    MethodNotAllowed,
    /// The file number was used less than the window ago.
    DuplicateOrder,
    /// Another attempt under the idempotency key is under way.
    IdempotencyInFlight,
    /// The idempotency key was used for another request.
    IdempotencyKeyReused,
    /// A document is over the limit.
    DocumentTooLarge,
    /// A body or a text part is over its cap.
    PayloadTooLarge,
    /// The wrong content type for the operation.
    UnsupportedMediaType,
    /// Too many requests.
    RateLimited,
    /// A bug.
    Internal,
    /// A dependency does not answer.
    Unavailable,
}

impl ProblemCode {
    /// Status, name and title.
    fn facts(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::MalformedRequest => {
                (StatusCode::BAD_REQUEST, "malformed_request", "The request cannot be read")
            }
            Self::ValidationFailed => {
                (StatusCode::BAD_REQUEST, "validation_failed", "Fields are missing or invalid")
            }
            Self::UnsupportedDocument => {
                (StatusCode::BAD_REQUEST, "unsupported_document", "A document is not acceptable")
            }
            Self::TooManyDocuments => {
                (StatusCode::BAD_REQUEST, "too_many_documents", "Too many documents")
            }
            Self::NoDocuments => (StatusCode::BAD_REQUEST, "no_documents", "No documents"),
            Self::Unauthorized => {
                (StatusCode::UNAUTHORIZED, "unauthorized", "A valid API key is required")
            }
            Self::Forbidden => (StatusCode::FORBIDDEN, "forbidden", "The API key may not do this"),
            Self::NotFound => (StatusCode::NOT_FOUND, "not_found", "No such path"),
            Self::MethodNotAllowed => (
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "The path does not take this method",
            ),
            Self::DuplicateOrder => {
                (StatusCode::CONFLICT, "duplicate_order", "The file number was used a moment ago")
            }
            Self::IdempotencyInFlight => (
                StatusCode::CONFLICT,
                "idempotency_in_flight",
                "A request with the same idempotency key is under way",
            ),
            Self::IdempotencyKeyReused => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                "The idempotency key was used for another request",
            ),
            Self::DocumentTooLarge => {
                (StatusCode::PAYLOAD_TOO_LARGE, "document_too_large", "A document is too large")
            }
            Self::PayloadTooLarge => {
                (StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", "The request is too large")
            }
            Self::UnsupportedMediaType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "The content type is not the operation's",
            ),
            Self::RateLimited => {
                (StatusCode::TOO_MANY_REQUESTS, "rate_limited", "Too many requests")
            }
            Self::Internal => {
                (StatusCode::INTERNAL_SERVER_ERROR, "internal", "Something went wrong")
            }
            Self::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "The service is not available")
            }
        }
    }

    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 18] = [
        Self::MalformedRequest,
        Self::ValidationFailed,
        Self::UnsupportedDocument,
        Self::TooManyDocuments,
        Self::NoDocuments,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::DuplicateOrder,
        Self::IdempotencyInFlight,
        Self::IdempotencyKeyReused,
        Self::DocumentTooLarge,
        Self::PayloadTooLarge,
        Self::UnsupportedMediaType,
        Self::RateLimited,
        Self::Internal,
        Self::Unavailable,
    ];

    /// The name in a problem response.
    pub fn as_str(self) -> &'static str {
        self.facts().1
    }

    /// The `type` of a problem response, described in `docs/api.md`; of too many requests the
    /// registered one (draft-ietf-httpapi-ratelimit-headers-10 section 5.1).
    pub fn type_uri(self) -> Cow<'static, str> {
        match self {
            Self::RateLimited => {
                "https://iana.org/assignments/http-problem-types#quota-exceeded".into()
            }
            _ => format!("urn:problem-type:notary-orders:{}", self.as_str()).into(),
        }
    }
}

/// Seconds that a client should wait before it tries again what failed on our side.
const RETRY_UNAVAILABLE_SECONDS: u64 = 5;
/// And what found no room, which there is again within a fraction of a second.
const RETRY_OVERLOADED_SECONDS: u64 = 1;

/// What went wrong, for the client; what the operator should know of it is logged where it is made.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    code: ProblemCode,
    detail: Cow<'static, str>,
    errors: Vec<FieldProblem>,
    retry_after: Option<u64>,
    violated_policy: Option<&'static str>,
    challenge: Option<&'static str>,
    allow: Option<&'static str>,
}

/// One field or document at fault.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FieldProblem {
    /// JSON Pointer (RFC 6901) to the field as the client sent it, the same for both operations.
    #[schema(value_type = String, max_length = 200, example = "/signingDetailsFormData/state")]
    pointer: Cow<'static, str>,
    /// Stable name of the fault; act on it.
    #[schema(value_type = String, pattern = "^[a-z_]+$", max_length = 100, example = "invalid_format")]
    code: &'static str,
    /// What to mend, for people.
    #[schema(value_type = String, max_length = 1000, example = "must be a state code of two letters")]
    detail: Cow<'static, str>,
}

impl Problem {
    /// A problem with nothing but its code and what to say about it.
    pub fn new(code: ProblemCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            detail: detail.into(),
            errors: Vec::new(),
            retry_after: None,
            violated_policy: None,
            challenge: None,
            allow: None,
        }
    }

    /// A request that cannot be read.
    pub fn malformed(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ProblemCode::MalformedRequest, detail)
    }

    /// A bug: the client learns nothing but that.
    pub fn internal() -> Self {
        Self::new(
            ProblemCode::Internal,
            "The failure was recorded. Quote the request id when you report it.",
        )
    }

    /// A dependency that does not answer.
    pub fn unavailable() -> Self {
        let detail = "A part that the service depends on does not answer. Try again later.";
        Self {
            retry_after: Some(RETRY_UNAVAILABLE_SECONDS),
            ..Self::new(ProblemCode::Unavailable, detail)
        }
    }

    /// More orders at once than can be placed soon.
    pub(crate) fn overloaded() -> Self {
        let detail =
            "More orders arrive than the service can take now. Nothing was done; try again.";
        Self {
            retry_after: Some(RETRY_OVERLOADED_SECONDS),
            ..Self::new(ProblemCode::Unavailable, detail)
        }
    }

    /// Too many requests for a policy; free again in `seconds`.
    pub fn rate_limited(policy: &'static str, seconds: u64) -> Self {
        let problem = Self::new(
            ProblemCode::RateLimited,
            format!("Too many requests. Try again in {seconds} s."),
        );
        Self { retry_after: Some(seconds), violated_policy: Some(policy), ..problem }
    }

    /// Credentials that are missing or cannot be read (RFC 6750 section 3).
    pub fn unauthorized(detail: &'static str) -> Self {
        Self {
            challenge: Some(r#"Bearer realm="notary-orders""#),
            ..Self::new(ProblemCode::Unauthorized, detail)
        }
    }

    /// A key that is not good (RFC 6750 section 3.1).
    pub fn invalid_token() -> Self {
        let detail = "The API key is unknown, expired or revoked.";
        Self {
            challenge: Some(r#"Bearer realm="notary-orders", error="invalid_token""#),
            ..Self::new(ProblemCode::Unauthorized, detail)
        }
    }

    fn insufficient_scope() -> Self {
        let detail = "The API key may not create orders for this signing service.";
        Self {
            challenge: Some(r#"Bearer realm="notary-orders", error="insufficient_scope""#),
            ..Self::new(ProblemCode::Forbidden, detail)
        }
    }

    /// A path that takes only the methods of `allow`.
    pub fn method_not_allowed(allow: &'static str) -> Self {
        Self {
            allow: Some(allow),
            ..Self::new(ProblemCode::MethodNotAllowed, format!("The path takes {allow}."))
        }
    }

    fn rejected(rejection: Rejection) -> Self {
        let code = match &rejection {
            Rejection { violations, .. } if !violations.is_empty() => ProblemCode::ValidationFailed,
            Rejection { no_documents: true, .. } => ProblemCode::NoDocuments,
            _ => ProblemCode::UnsupportedDocument,
        };
        let no_documents = rejection.no_documents.then(|| FieldProblem {
            pointer: "/documents".into(),
            code: ProblemCode::NoDocuments.as_str(),
            detail: "must have at least one document".into(),
        });
        let documents = rejection.documents.into_iter().map(|(position, fault)| FieldProblem {
            pointer: format!("/documents/{position}").into(),
            code: fault.as_str(),
            detail: describe(fault).into(),
        });
        let errors: Vec<_> = rejection
            .violations
            .into_iter()
            .map(FieldProblem::from)
            .chain(no_documents)
            .chain(documents)
            .collect();
        let detail = format!(
            "{} to mend; see errors.",
            if errors.len() == 1 {
                "1 thing".to_owned()
            } else {
                format!("{} things", errors.len())
            }
        );
        Self { errors, ..Self::new(code, detail) }
    }

    /// The stable name of the problem.
    pub fn code(&self) -> ProblemCode {
        self.code
    }

    /// What the client of a request reads.
    pub(crate) fn body<'a>(&'a self, request_id: &'a str) -> ProblemBody<'a> {
        let (status, code, title) = self.code.facts();
        let with_errors = matches!(
            self.code,
            ProblemCode::ValidationFailed
                | ProblemCode::UnsupportedDocument
                | ProblemCode::NoDocuments
        );
        ProblemBody {
            r#type: self.code.type_uri(),
            title,
            status: status.as_u16(),
            detail: &self.detail,
            code,
            request_id,
            errors: with_errors.then_some(&self.errors[..]),
            violated_policies: self.violated_policy.as_ref().map(std::slice::from_ref),
        }
    }

    /// The response that tells the client.
    pub fn response(&self, request_id: &str) -> HttpResponse {
        let mut response = HttpResponse::build(self.code.facts().0);
        if let Some(seconds) = self.retry_after {
            response.insert_header((header::RETRY_AFTER, seconds));
        }
        if let Some(challenge) = self.challenge {
            response.insert_header((header::WWW_AUTHENTICATE, challenge));
        }
        if let Some(allow) = self.allow {
            response.insert_header((header::ALLOW, allow));
        }
        response.content_type("application/problem+json").json(self.body(request_id))
    }
}

/// The body of a problem response (RFC 9457 section 3).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody<'a> {
    /// URI of the kind of problem.
    #[schema(value_type = String, format = "uri", max_length = 200, example = "urn:problem-type:notary-orders:validation_failed")]
    r#type: Cow<'static, str>,
    /// The kind of problem in words, for people.
    #[schema(max_length = 200, example = "Fields are missing or invalid")]
    title: &'static str,
    /// The status of the response.
    #[schema(minimum = 400, maximum = 599, example = 400)]
    status: u16,
    /// This very problem in words, for people.
    #[schema(max_length = 2000, example = "1 thing to mend; see errors.")]
    detail: &'a str,
    /// Stable name of the kind of problem; act on it and on the status.
    #[schema(pattern = "^[a-z_]+$", max_length = 100, example = "validation_failed")]
    code: &'static str,
    /// Identifier of the request, also in `X-Request-Id`; quote it when you ask for help.
    #[schema(pattern = "^[0-9a-f]{24}$", example = "5a1c0e9d7b3f4a2286c0d1e5")]
    request_id: &'a str,
    /// Everything at fault, with `validation_failed`, `unsupported_document` and `no_documents`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, max_items = 1000)]
    errors: Option<&'a [FieldProblem]>,
    /// Names of the policies whose quota was exceeded, with `rate_limited`.
    #[serde(rename = "violated-policies", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, max_items = 10, example = json!(["orders"]))]
    violated_policies: Option<&'a [&'static str]>,
}

fn describe(fault: DocumentFault) -> &'static str {
    match fault {
        DocumentFault::Empty => "must not be empty",
        DocumentFault::UnsupportedExtension => {
            "must be a PDF, DOC, DOCX, JPG, JPEG or PNG file, and be named so"
        }
        DocumentFault::ContentMismatch => "must be what its extension says",
    }
}

impl From<Violation> for FieldProblem {
    fn from(violation: Violation) -> Self {
        Self { pointer: violation.pointer, code: violation.code.as_str(), detail: violation.detail }
    }
}

impl From<CreateOrderError> for Problem {
    fn from(error: CreateOrderError) -> Self {
        match error {
            CreateOrderError::Rejected(rejection) => Self::rejected(rejection),
            CreateOrderError::Forbidden => Self::insufficient_scope(),
            CreateOrderError::Duplicate { retry_after } => Self {
                retry_after: Some(retry_after),
                ..Self::new(
                    ProblemCode::DuplicateOrder,
                    format!(
                        "An order with this fileNumber was created a moment ago. It can be used again in {retry_after} s."
                    ),
                )
            },
            CreateOrderError::KeyReused => Self::new(
                ProblemCode::IdempotencyKeyReused,
                "The Idempotency-Key was used for a request with another payload. Use a new key for a new order.",
            ),
            CreateOrderError::InFlight { retry_after } => {
                let detail = "A request with the same Idempotency-Key is being worked on. Repeat yours to get its answer.";
                Self {
                    retry_after: Some(retry_after),
                    ..Self::new(ProblemCode::IdempotencyInFlight, detail)
                }
            }
            CreateOrderError::Unavailable(_) => logged(&error, Self::unavailable()),
            CreateOrderError::Internal(_) => logged(&error, Self::internal()),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => logged(&error, Self::unavailable()),
            StoreError::Internal(_) => logged(&error, Self::internal()),
        }
    }
}

/// Logs an error with its causes, once, where the client's side of it is made.
pub(crate) fn logged(error: &dyn std::error::Error, problem: Problem) -> Problem {
    tracing::error!(error = error_chain(error), code = problem.code.as_str(), "request failed");
    problem
}
