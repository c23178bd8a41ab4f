//! The problems that the operations answer, each with an example: what the service itself would
//! answer.

use std::collections::BTreeMap;

use domain::{
    create_order::{CreateOrderError, Rejection},
    document::DocumentFault,
    order::{Violation, ViolationCode},
};
use utoipa::openapi::{
    Content, Ref, RefOr,
    example::{Example, ExampleBuilder},
};

use crate::{
    problem::{Problem, ProblemCode},
    rate_limit::{FAILED_AUTHENTICATIONS, Policy},
};

/// A problem as the document shows it: the name of its example, and the problem.
pub(super) type Shown = (&'static str, fn() -> Problem);

pub(super) const MALFORMED: Shown = ("malformed_request", || {
    Problem::malformed("The body is not valid JSON: expected value at line 1 column 1.")
});
pub(super) const INVALID: Shown = ("validation_failed", || {
    let violation = |pointer: &'static str, code, detail: &'static str| Violation {
        pointer: pointer.into(),
        code,
        detail: detail.into(),
    };
    let violations = vec![
        violation(
            "/signingDetailsFormData/state",
            ViolationCode::InvalidFormat,
            "must be a state code of two letters",
        ),
        violation("/requestedBy/userId", ViolationCode::Required, "is required"),
    ];
    CreateOrderError::Rejected(Rejection { violations, ..Rejection::default() }).into()
});
pub(super) const UNSUPPORTED: Shown = ("unsupported_document", || {
    CreateOrderError::Rejected(Rejection {
        documents: vec![(0, DocumentFault::ContentMismatch)],
        ..Rejection::default()
    })
    .into()
});
pub(super) const TOO_MANY: Shown = ("too_many_documents", || {
    Problem::new(ProblemCode::TooManyDocuments, "At most 20 documents can be sent with an order.")
});
pub(super) const NONE: Shown = ("no_documents", || {
    CreateOrderError::Rejected(Rejection { no_documents: true, ..Rejection::default() }).into()
});
pub(super) const UNAUTHORIZED: Shown = ("unauthorized", Problem::invalid_token);
pub(super) const FORBIDDEN: Shown = ("forbidden", || CreateOrderError::Forbidden.into());
pub(super) const DUPLICATE: Shown =
    ("duplicate_order", || CreateOrderError::Duplicate { retry_after: 43 }.into());
pub(super) const IN_FLIGHT: Shown =
    ("idempotency_in_flight", || CreateOrderError::InFlight { retry_after: 5 }.into());
pub(super) const DOCUMENT_TOO_LARGE: Shown = ("document_too_large", || {
    Problem::new(
        ProblemCode::DocumentTooLarge,
        "The document \u{201c}deed-of-trust.pdf\u{201d} is larger than 10485760 bytes.",
    )
});
pub(super) const TOO_LARGE: Shown = ("payload_too_large", || {
    Problem::new(ProblemCode::PayloadTooLarge, "The body is larger than 262144 bytes.")
});
pub(super) const MEDIA_TYPE: Shown = ("unsupported_media_type", || {
    Problem::new(ProblemCode::UnsupportedMediaType, "The content type must be application/json.")
});
pub(super) const KEY_REUSED: Shown =
    ("idempotency_key_reused", || CreateOrderError::KeyReused.into());
pub(super) const RATE_LIMITED: Shown =
    ("rate_limited", || Problem::rate_limited(Policy::Orders.as_str(), 1));
pub(super) const TOO_MANY_FAILURES: Shown =
    ("failed_authentications", || Problem::rate_limited(FAILED_AUTHENTICATIONS, 1));
pub(super) const INTERNAL: Shown = ("internal", Problem::internal);
pub(super) const UNAVAILABLE: Shown = ("unavailable", Problem::unavailable);

/// A problem body, with an example of each problem that it may be.
pub(super) fn body(problems: &[Shown]) -> Content {
    let mut content = Content::new(Some(Ref::from_schema_name("Problem")));
    content.examples = problems
        .iter()
        .map(|(name, problem)| ((*name).to_owned(), example(name, &problem())))
        .collect::<BTreeMap<_, _>>();
    content
}

fn example(name: &str, problem: &Problem) -> RefOr<Example> {
    ExampleBuilder::new()
        .summary(name)
        .value(serde_json::to_value(problem.body("5a1c0e9d7b3f4a2286c0d1e5")).ok())
        .into()
}
