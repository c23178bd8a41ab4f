//! The problem responses of orders that were not created.

use domain::{
    create_order::{CreateOrderError, Rejection},
    document::DocumentFault,
    order::Violation,
};

use crate::problem::{FieldProblem, Problem, ProblemCode};

impl From<CreateOrderError> for Problem {
    fn from(error: CreateOrderError) -> Self {
        match error {
            CreateOrderError::Rejected(rejection) => rejected(rejection),
            CreateOrderError::Forbidden => Self::insufficient_scope(
                "The API key may not create orders for this signing service.",
            ),
            CreateOrderError::Duplicate { retry_after } => {
                let detail = format!(
                    "An order with this fileNumber was created recently. \
                     The fileNumber can be used again in {retry_after} s."
                );
                Self::new(ProblemCode::DuplicateOrder, detail).retry_after(retry_after)
            }
            CreateOrderError::KeyReused => Self::new(
                ProblemCode::IdempotencyKeyReused,
                "The Idempotency-Key was used for a request with another body. \
                 Use a new key for a new order.",
            ),
            CreateOrderError::InProgress { retry_after } => Self::new(
                ProblemCode::IdempotencyInFlight,
                "A request with the same Idempotency-Key is in progress. \
                 Repeat your request to get its answer.",
            )
            .retry_after(retry_after),
            CreateOrderError::Unavailable(_) => Self::unavailable().log(&error),
            CreateOrderError::Erased | CreateOrderError::Internal(_) => {
                Self::internal().log(&error)
            }
        }
    }
}

fn rejected(Rejection { violations, documents, no_documents }: Rejection) -> Problem {
    let code = if !violations.is_empty() {
        ProblemCode::ValidationFailed
    } else if no_documents {
        ProblemCode::NoDocuments
    } else if documents.iter().all(|(_, fault)| *fault == DocumentFault::Encrypted) {
        ProblemCode::EncryptedDocument
    } else {
        ProblemCode::UnsupportedDocument
    };
    let no_documents = no_documents.then(|| FieldProblem {
        pointer: "/documents".into(),
        code: ProblemCode::NoDocuments.as_str(),
        detail: "must have at least one document".into(),
    });
    let documents = documents.into_iter().map(|(position, fault)| FieldProblem {
        pointer: format!("/documents/{position}").into(),
        code: fault.as_str(),
        detail: describe(fault).into(),
    });
    let fields = violations.into_iter().map(|Violation { pointer, code, detail }| FieldProblem {
        pointer,
        code: code.as_str(),
        detail,
    });
    let errors: Vec<_> = fields.chain(no_documents).chain(documents).collect();
    let plural = if errors.len() == 1 { "" } else { "s" };
    let detail = format!("The request has {} error{plural}; see `errors`.", errors.len());
    Problem::new(code, detail).with_errors(errors)
}

fn describe(fault: DocumentFault) -> &'static str {
    match fault {
        DocumentFault::Empty => "must not be empty",
        DocumentFault::UnsupportedExtension => {
            "must be a PDF, DOC, DOCX, JPG, JPEG or PNG file and have its extension"
        }
        DocumentFault::ContentMismatch => "must have the content that its extension names",
        DocumentFault::Encrypted => {
            "must not be encrypted: remove its password in Word, save it, and send it again"
        }
    }
}
