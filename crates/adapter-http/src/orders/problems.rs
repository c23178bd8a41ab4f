//! The problem responses of requests about orders.

use std::borrow::Cow;

use domain::{
    document::{DocumentFault, MAX_DOCUMENTS_PER_ORDER},
    order::{MAX_NOTES, MAX_TOLD},
    request::{Violation, ViolationCode},
    use_cases::order_error::{OrderError, Rejection},
};

use crate::{
    admission::preconditions::nothing_to_match,
    respond::problem::{FieldProblem, Problem, ProblemCode},
};

impl From<OrderError> for Problem {
    fn from(error: OrderError) -> Self {
        match error {
            OrderError::Rejected(rejection) => rejected(rejection),
            OrderError::Forbidden => Self::challenge(
                ProblemCode::Forbidden,
                "Orders are limited to another signing service here. The operator sets the limit.",
                r#", error="insufficient_scope""#,
            ),
            OrderError::Duplicate { retry_after } => {
                let detail = format!(
                    "An order with this fileNumber was created recently. \
                     The fileNumber can be used again in {retry_after} s."
                );
                Self::new(ProblemCode::DuplicateOrder, detail).retry_after(retry_after)
            }
            OrderError::NoSuchOrder | OrderError::UnknownCursor => Self::no_such_order(),
            OrderError::Erased => {
                Self::new(ProblemCode::Erased, "The operator has erased this order.")
            }
            OrderError::Withdrawn => Self::new(
                ProblemCode::Withdrawn,
                "The side that uploaded this document has withdrawn it. Its bytes are gone.",
            ),
            OrderError::Changed => Self::new(
                ProblemCode::PreconditionFailed,
                "A precondition is false, so nothing was changed. Read the order or the document again, and \
                 send its ETag in If-Match.",
            ),
            OrderError::NothingToChange => nothing_to_match(),
            OrderError::Cancelled => Self::new(
                ProblemCode::OrderCancelled,
                "The order is cancelled. A cancelled order does not change.",
            ),
            OrderError::Closed => Self::new(
                ProblemCode::OrderClosed,
                "The order is signed or completed. It cannot be cancelled.",
            ),
            OrderError::Over => Self::new(
                ProblemCode::OrderClosed,
                "The order is SIGNED, DID_NOT_SIGN or COMPLETED. Its client cannot change it any more.",
            ),
            OrderError::Held => Self::new(
                ProblemCode::OrderOnHold,
                "This order is on hold, so its documents cannot be withdrawn.",
            ),
            OrderError::TooMany { stored } => {
                let detail = format!(
                    "An order can have at most {MAX_DOCUMENTS_PER_ORDER} documents. \
                     This one has {stored}, also replaced and withdrawn ones."
                );
                Self::new(ProblemCode::TooManyDocuments, detail)
            }
            OrderError::TooManyNotes => {
                let detail = format!("An order can have at most {MAX_NOTES} notes.");
                Self::new(ProblemCode::TooManyNotes, detail)
            }
            OrderError::TooManyAddresses => {
                let detail = format!(
                    "At most {MAX_TOLD} addresses can know an order: its contacts, and those that have \
                     had mails of it. Nothing was changed. Use one of these addresses, or cancel the \
                     order and create another one."
                );
                Self::new(ProblemCode::TooManyAddresses, detail)
            }
            OrderError::KeyReused => Self::new(
                ProblemCode::IdempotencyKeyReused,
                "The Idempotency-Key was used for another request. \
                 Use a new key for a new request.",
            ),
            OrderError::InProgress { retry_after } => Self::new(
                ProblemCode::IdempotencyInFlight,
                "A request with the same Idempotency-Key is in progress. \
                 Repeat your request to get its answer.",
            )
            .retry_after(retry_after),
            OrderError::Store(error) => error.into(),
            OrderError::MissingObject(_) => Self::internal().log(&error),
        }
    }
}

fn rejected(Rejection { violations, documents, no_documents }: Rejection) -> Problem {
    let is_unknown = |violation: &Violation| violation.code == ViolationCode::UnknownSigningService;
    let is_alone = documents.is_empty() && !no_documents;
    let code = if matches!(&violations[..], [violation] if is_alone && is_unknown(violation)) {
        ProblemCode::UnknownSigningService
    } else if !violations.is_empty() {
        ProblemCode::ValidationFailed
    } else if no_documents {
        ProblemCode::NoDocuments
    } else if documents.iter().any(|(_, fault)| *fault == DocumentFault::Infected) {
        ProblemCode::InfectedDocument
    } else if documents.iter().all(|(_, fault)| *fault == DocumentFault::Encrypted) {
        ProblemCode::EncryptedDocument
    } else {
        ProblemCode::UnsupportedDocument
    };
    let no_documents = no_documents.then(|| {
        let detail = "must have at least one document";
        FieldProblem::at("/documents", ProblemCode::NoDocuments.as_str(), detail)
    });
    let documents = documents.into_iter().map(|(position, fault)| {
        FieldProblem::at(format!("/documents/{position}"), fault.as_str(), describe(fault))
    });
    let fields = violations.into_iter().map(FieldProblem::from);
    Problem::invalid(code, fields.chain(no_documents).chain(documents).collect())
}

const MISMATCH: &str = "must have the content that its extension names";

fn describe(fault: DocumentFault) -> Cow<'static, str> {
    let text = match fault {
        DocumentFault::Empty => "must not be empty",
        DocumentFault::UnsupportedExtension => {
            "must be a PDF, DOC, DOCX, JPG, JPEG or PNG file and have its extension"
        }
        DocumentFault::ContentMismatch(None) => MISMATCH,
        DocumentFault::ContentMismatch(Some(kind)) => {
            return format!("{MISMATCH}, but is {kind}").into();
        }
        DocumentFault::Encrypted => {
            "must not be encrypted: remove the protection (a password or rights) in Word, save it, \
             and send it again"
        }
        DocumentFault::Infected => "must not have malware",
        DocumentFault::TooLargeToScan => {
            "must be smaller: the malware scanner of the service does not accept its size"
        }
    };
    text.into()
}
