//! Examples of problems: the answers of the service itself.

use domain::{
    create_order::{CreateOrderError, Rejection},
    document::{DocumentFault, DocumentLimits},
    manage_webhooks::WebhooksError,
    order::{Violation, ViolationCode},
};
use serde_json::Value;

use crate::{
    body, form, json_body,
    paging::MAX_LIMIT,
    problem::{FieldProblem, Problem, ProblemCode},
    rate_limit::{FAILED_AUTHENTICATIONS, Policy},
    webhooks::problems::replay_in_progress,
};

/// The operations of the API.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Operation {
    Create,
    CreateWithDocuments,
    AddDocuments,
    ListOrders,
    ReadOrder,
    ListDocuments,
    ReadDocument,
    CreateWebhook,
    ListWebhooks,
    ReadWebhook,
    ChangeWebhook,
    DeleteWebhook,
    RotateSecret,
    TestWebhook,
    ListDeliveries,
    ReplayDelivery,
    ReplayDeliveries,
}
use Operation::{
    AddDocuments, ChangeWebhook, Create, CreateWebhook, CreateWithDocuments, DeleteWebhook,
    ListDeliveries, ListDocuments, ListOrders, ListWebhooks, ReadDocument, ReadOrder, ReadWebhook,
    ReplayDeliveries, ReplayDelivery, RotateSecret, TestWebhook,
};

impl Operation {
    /// Returns the identifier of the operation.
    pub(super) fn id(self) -> &'static str {
        match self {
            Create => "createOrder",
            CreateWithDocuments => "createOrderWithDocuments",
            AddDocuments => "addDocuments",
            ListOrders => "listOrders",
            ReadOrder => "readOrder",
            ListDocuments => "listDocuments",
            ReadDocument => "readDocument",
            CreateWebhook => "createWebhook",
            ListWebhooks => "listWebhooks",
            ReadWebhook => "readWebhook",
            ChangeWebhook => "changeWebhook",
            DeleteWebhook => "deleteWebhook",
            RotateSecret => "rotateWebhookSecret",
            TestWebhook => "testWebhook",
            ListDeliveries => "listWebhookDeliveries",
            ReplayDelivery => "replayWebhookDelivery",
            ReplayDeliveries => "replayWebhookDeliveries",
        }
    }

    /// Returns the group of the operation.
    pub(super) fn tag(self) -> &'static str {
        if WEBHOOKS.contains(&self) { "webhooks" } else { "orders" }
    }
}

const CREATES: &[Operation] = &[Create, CreateWithDocuments];
const UPLOADS: &[Operation] = &[CreateWithDocuments, AddDocuments];
const WRITES: &[Operation] = &[Create, CreateWithDocuments, AddDocuments];
const OF_ONE_ORDER: &[Operation] = &[AddDocuments, ReadOrder, ListDocuments, ReadDocument];
/// Every operation: those on orders, those on all webhooks, those on one.
const ALL: &[Operation] = &[
    Create,
    CreateWithDocuments,
    AddDocuments,
    ListOrders,
    ReadOrder,
    ListDocuments,
    ReadDocument,
    CreateWebhook,
    ListWebhooks,
    ReadWebhook,
    ChangeWebhook,
    DeleteWebhook,
    RotateSecret,
    TestWebhook,
    ListDeliveries,
    ReplayDelivery,
    ReplayDeliveries,
];
const WEBHOOKS: &[Operation] = ALL.split_at(7).1;
const OF_ONE_WEBHOOK: &[Operation] = WEBHOOKS.split_at(2).1;
const JSON_BODIES: &[Operation] = &[Create, CreateWebhook, ChangeWebhook, ReplayDeliveries];
const BODIES: &[Operation] =
    &[Create, CreateWithDocuments, AddDocuments, CreateWebhook, ChangeWebhook, ReplayDeliveries];

/// A problem, and the operations that answer with it.
pub(super) struct Example {
    pub(super) operations: &'static [Operation],
    /// Name of the example.
    pub(super) name: &'static str,
    pub(super) problem: Problem,
}

/// Returns every problem of the operations.
pub(super) fn all(limits: DocumentLimits) -> Vec<Example> {
    let json = "The body is not valid JSON: expected value at line 1 column 1.";
    let named = [
        (ALL, "missing_scope", Problem::missing_scope(Policy::Reads.scope())),
        (ALL, "failed_authentications", Problem::rate_limited(FAILED_AUTHENTICATIONS, 1)),
        (OF_ONE_WEBHOOK, "no_such_webhook", Problem::no_such_webhook()),
    ];
    let others: [(&[Operation], Problem); 28] = [
        (JSON_BODIES, Problem::malformed(json)),
        (UPLOADS, Problem::malformed("The content type has no boundary.")),
        (CREATES, invalid()),
        (&[CreateWebhook, ChangeWebhook], invalid_webhook()),
        (&[ReplayDeliveries], invalid_range()),
        (&[ListOrders, ListDeliveries], invalid_parameters()),
        (UPLOADS, bad_document(DocumentFault::ContentMismatch)),
        (UPLOADS, bad_document(DocumentFault::Encrypted)),
        (UPLOADS, bad_document(DocumentFault::Infected)),
        (UPLOADS, form::too_many_documents(limits)),
        (UPLOADS, rejected(Rejection { no_documents: true, ..Rejection::default() })),
        (ALL, Problem::invalid_token()),
        (CREATES, CreateOrderError::Forbidden.into()),
        (OF_ONE_ORDER, Problem::no_such_order()),
        (OF_ONE_ORDER, Problem::erased()),
        (CREATES, CreateOrderError::Duplicate { retry_after: 43 }.into()),
        (WRITES, CreateOrderError::InProgress { retry_after: 5 }.into()),
        (&[TestWebhook], WebhooksError::Disabled.into()),
        (&[ReplayDeliveries], replay_in_progress()),
        (BODIES, body::too_slow()),
        (UPLOADS, form::document_too_large("deed-of-trust.pdf", limits)),
        (BODIES, body::payload_too_large(json_body::MAX_BODY)),
        (BODIES, json_body::unsupported_media_type()),
        (&[ReadDocument], Problem::range_not_satisfiable(48_213)),
        (WRITES, CreateOrderError::KeyReused.into()),
        (ALL, Problem::rate_limited(Policy::Orders.as_str(), 1)),
        (ALL, Problem::internal()),
        (ALL, Problem::unavailable()),
    ];
    let others = others.map(|(operations, problem)| (operations, problem.code().as_str(), problem));
    let example = |(operations, name, problem)| Example { operations, name, problem };
    named.into_iter().chain(others).map(example).collect()
}

fn invalid_webhook() -> Problem {
    let detail = "the address 127.0.0.1 is not public; the operator can open networks with \
        --webhook-allow";
    webhook_violation("/url", ViolationCode::NotAllowed, detail)
}

fn invalid_range() -> Problem {
    webhook_violation("/since", ViolationCode::Required, "is required")
}

fn webhook_violation(pointer: &'static str, code: ViolationCode, detail: &'static str) -> Problem {
    let violation = Violation { pointer: pointer.into(), code, detail: detail.into() };
    WebhooksError::Invalid(vec![violation]).into()
}

fn invalid_parameters() -> Problem {
    let limit = FieldProblem::of_parameter(
        "limit",
        ViolationCode::OutOfRange.as_str(),
        format!("must be an integer from 1 to {MAX_LIMIT}"),
    );
    Problem::invalid(ProblemCode::ValidationFailed, vec![limit])
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
    serde_json::to_value(problem.body(&"5a1c0e9d7b3f4a2286c0d1e5".into())).unwrap_or_default()
}
