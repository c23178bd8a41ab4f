use std::borrow::Cow;

use actix_web::http::StatusCode;

/// Kinds of problems. Their names are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemCode {
    /// The body is not JSON or multipart, is truncated, or has a repeated or unreadable part.
    MalformedRequest,
    /// Fields are missing or invalid.
    ValidationFailed,
    /// A document has no accepted format, or its content does not match its extension.
    UnsupportedDocument,
    /// The request has more documents than the limit allows.
    TooManyDocuments,
    /// The form has no documents.
    NoDocuments,
    /// The credentials are missing or malformed, or the key is invalid, expired or revoked.
    Unauthorized,
    /// The key is bound to another signing service.
    Forbidden,
    /// The path does not exist.
    NotFound,
    /// The path does not support the method.
    MethodNotAllowed,
    /// The duplicate window of the file number is not over.
    DuplicateOrder,
    /// Another request with the idempotency key is in progress.
    IdempotencyInFlight,
    /// The idempotency key was used for another request.
    IdempotencyKeyReused,
    /// A document is larger than the limit.
    DocumentTooLarge,
    /// A body or a text part is larger than the limit.
    PayloadTooLarge,
    /// The operation does not accept the content type.
    UnsupportedMediaType,
    /// A rate limit is exceeded.
    RateLimited,
    /// The service has a bug.
    Internal,
    /// A dependency does not respond, or the service is at its concurrency limit.
    Unavailable,
}

impl ProblemCode {
    /// Returns status, name and title.
    fn facts(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::MalformedRequest => {
                (StatusCode::BAD_REQUEST, "malformed_request", "The request cannot be read")
            }
            Self::ValidationFailed => {
                (StatusCode::BAD_REQUEST, "validation_failed", "Fields are missing or invalid")
            }
            Self::UnsupportedDocument => {
                (StatusCode::BAD_REQUEST, "unsupported_document", "A document is not supported")
            }
            Self::TooManyDocuments => {
                (StatusCode::BAD_REQUEST, "too_many_documents", "Too many documents")
            }
            Self::NoDocuments => (StatusCode::BAD_REQUEST, "no_documents", "No documents"),
            Self::Unauthorized => {
                (StatusCode::UNAUTHORIZED, "unauthorized", "A valid API key is required")
            }
            Self::Forbidden => {
                (StatusCode::FORBIDDEN, "forbidden", "The API key does not permit this request")
            }
            Self::NotFound => (StatusCode::NOT_FOUND, "not_found", "Not found"),
            Self::MethodNotAllowed => {
                (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "Method not allowed")
            }
            Self::DuplicateOrder => {
                (StatusCode::CONFLICT, "duplicate_order", "The file number was used recently")
            }
            Self::IdempotencyInFlight => (
                StatusCode::CONFLICT,
                "idempotency_in_flight",
                "A request with the same idempotency key is in progress",
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
                "The content type is not supported",
            ),
            Self::RateLimited => {
                (StatusCode::TOO_MANY_REQUESTS, "rate_limited", "Too many requests")
            }
            Self::Internal => {
                (StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal server error")
            }
            Self::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "The service is unavailable")
            }
        }
    }

    /// Every code, for tests.
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

    /// Returns the `code` of a problem response.
    pub fn as_str(self) -> &'static str {
        self.facts().1
    }

    pub(super) fn status(self) -> StatusCode {
        self.facts().0
    }

    pub(super) fn title(self) -> &'static str {
        self.facts().2
    }

    /// Returns the `type` of a problem response, described in `docs/api.md`. Rate limits use the
    /// registered type (draft-ietf-httpapi-ratelimit-headers-10, section 5.1).
    pub(super) fn type_uri(self) -> Cow<'static, str> {
        match self {
            Self::RateLimited => {
                "https://iana.org/assignments/http-problem-types#quota-exceeded".into()
            }
            _ => format!("urn:problem-type:notary-orders:{}", self.as_str()).into(),
        }
    }
}
