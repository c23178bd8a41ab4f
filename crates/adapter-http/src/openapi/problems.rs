//! Examples of problems: the answers of the service itself.

use std::collections::BTreeMap;

use domain::{
    create_order::{CreateOrderError, Rejection},
    document::{DocumentFault, DocumentLimits},
    order::{Violation, ViolationCode},
};
use utoipa::openapi::{
    Content, Ref, RefOr,
    example::{Example, ExampleBuilder},
};

use crate::{
    body, form,
    orders::create_json,
    problem::Problem,
    rate_limit::{FAILED_AUTHENTICATIONS, Policy},
};

/// A problem with the name of its example.
pub(super) type Shown = (&'static str, Problem);

pub(super) fn malformed() -> Shown {
    let detail = "The body is not valid JSON: expected value at line 1 column 1.";
    ("malformed_request", Problem::malformed(detail))
}

pub(super) fn invalid() -> Shown {
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
    ("validation_failed", rejected(Rejection { violations, ..Rejection::default() }))
}

pub(super) fn unsupported_document() -> Shown {
    let documents = vec![(0, DocumentFault::ContentMismatch)];
    ("unsupported_document", rejected(Rejection { documents, ..Rejection::default() }))
}

pub(super) fn too_many_documents(limits: DocumentLimits) -> Shown {
    ("too_many_documents", form::too_many_documents(limits))
}

pub(super) fn no_documents() -> Shown {
    ("no_documents", rejected(Rejection { no_documents: true, ..Rejection::default() }))
}

fn rejected(rejection: Rejection) -> Problem {
    CreateOrderError::Rejected(rejection).into()
}

pub(super) fn unauthorized() -> Shown {
    ("unauthorized", Problem::invalid_token())
}

pub(super) fn forbidden() -> Shown {
    ("forbidden", CreateOrderError::Forbidden.into())
}

pub(super) fn duplicate() -> Shown {
    ("duplicate_order", CreateOrderError::Duplicate { retry_after: 43 }.into())
}

pub(super) fn in_progress() -> Shown {
    ("idempotency_in_flight", CreateOrderError::InProgress { retry_after: 5 }.into())
}

pub(super) fn document_too_large(limits: DocumentLimits) -> Shown {
    ("document_too_large", form::document_too_large("deed-of-trust.pdf", limits))
}

pub(super) fn payload_too_large() -> Shown {
    ("payload_too_large", body::payload_too_large(create_json::MAX_BODY))
}

pub(super) fn media_type() -> Shown {
    ("unsupported_media_type", create_json::unsupported_media_type())
}

pub(super) fn key_reused() -> Shown {
    ("idempotency_key_reused", CreateOrderError::KeyReused.into())
}

pub(super) fn rate_limited() -> Shown {
    ("rate_limited", Problem::rate_limited(Policy::Orders.as_str(), 1))
}

pub(super) fn failed_authentications() -> Shown {
    ("failed_authentications", Problem::rate_limited(FAILED_AUTHENTICATIONS, 1))
}

pub(super) fn internal() -> Shown {
    ("internal", Problem::internal())
}

pub(super) fn unavailable() -> Shown {
    ("unavailable", Problem::unavailable())
}

/// Returns a problem body with an example of each problem.
pub(super) fn body(problems: &[Shown]) -> Content {
    let mut content = Content::new(Some(Ref::from_schema_name("Problem")));
    content.examples = problems
        .iter()
        .map(|(name, problem)| ((*name).to_owned(), example(name, problem)))
        .collect::<BTreeMap<_, _>>();
    content
}

fn example(name: &str, problem: &Problem) -> RefOr<Example> {
    ExampleBuilder::new()
        .summary(name)
        .value(serde_json::to_value(problem.body("5a1c0e9d7b3f4a2286c0d1e5")).ok())
        .into()
}
