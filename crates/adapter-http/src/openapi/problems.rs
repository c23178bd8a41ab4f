//! Examples of problems: the answers of the service itself.

use domain::{
    create_order::{CreateOrderError, Rejection},
    document::{DocumentFault, DocumentLimits},
    order::{Violation, ViolationCode},
};
use serde_json::Value;

use crate::{
    body, form,
    orders::create_json,
    problem::Problem,
    rate_limit::{FAILED_AUTHENTICATIONS, Policy},
};

/// Returns every problem of the operations. The flag marks those of orders with documents only.
pub(super) fn all(limits: DocumentLimits) -> [(bool, Problem); 19] {
    [
        (
            false,
            Problem::malformed("The body is not valid JSON: expected value at line 1 column 1."),
        ),
        (false, invalid()),
        (true, bad_document(DocumentFault::ContentMismatch)),
        (true, bad_document(DocumentFault::Encrypted)),
        (true, form::too_many_documents(limits)),
        (true, rejected(Rejection { no_documents: true, ..Rejection::default() })),
        (false, Problem::invalid_token()),
        (false, CreateOrderError::Forbidden.into()),
        (false, CreateOrderError::Duplicate { retry_after: 43 }.into()),
        (false, CreateOrderError::InProgress { retry_after: 5 }.into()),
        (false, body::too_slow()),
        (true, form::document_too_large("deed-of-trust.pdf", limits)),
        (false, body::payload_too_large(create_json::MAX_BODY)),
        (false, create_json::unsupported_media_type()),
        (false, CreateOrderError::KeyReused.into()),
        (false, Problem::rate_limited(Policy::Orders.as_str(), 1)),
        (false, Problem::rate_limited(FAILED_AUTHENTICATIONS, 1)),
        (false, Problem::internal()),
        (false, Problem::unavailable()),
    ]
}

/// Returns the problem of an order with invalid fields.
pub(super) fn invalid() -> Problem {
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
    rejected(Rejection { violations, ..Rejection::default() })
}

fn bad_document(fault: DocumentFault) -> Problem {
    rejected(Rejection { documents: vec![(0, fault)], ..Rejection::default() })
}

fn rejected(rejection: Rejection) -> Problem {
    CreateOrderError::Rejected(rejection).into()
}

/// Returns the body of a problem.
pub(super) fn body_of(problem: &Problem) -> Value {
    serde_json::to_value(problem.body("5a1c0e9d7b3f4a2286c0d1e5")).unwrap_or_default()
}
