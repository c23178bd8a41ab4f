use domain::{
    document::{DocumentKind, StoredDocument},
    order::{
        Actor, DocumentId, Order, OrderCommand, OrderId,
        change::{Amendment, NewDocuments, NewNote, NewReason},
    },
    ports::OrderCommandRequest,
    precondition::{DocumentPrecondition, OrderPrecondition},
};
use time::OffsetDateTime;

use super::{LIVE, NOW};

fn request(order: OrderId, command: OrderCommand) -> OrderCommandRequest {
    let owner = Some(LIVE);
    OrderCommandRequest { owner, order, command, at: NOW, idempotent_request: None, access: None }
}

/// Returns the amendment of any version at an instant.
pub fn amend(order: OrderId, amended: Box<Order>, at: OffsetDateTime) -> OrderCommandRequest {
    let amendment =
        Amendment { precondition: OrderPrecondition::NONE, order: amended, only_open: false };
    OrderCommandRequest { at, ..request(order, OrderCommand::Amend(amendment)) }
}

/// Returns the addition of documents of a kind at [`NOW`].
pub fn add_documents(
    order: OrderId,
    kind: DocumentKind,
    documents: Vec<StoredDocument>,
) -> OrderCommandRequest {
    let precondition = OrderPrecondition::NONE;
    let new = NewDocuments { kind, replaces: None, documents, precondition };
    request(order, OrderCommand::AddDocuments(new))
}

/// Returns the addition of a note at [`NOW`].
pub fn add_note(order: OrderId, author: Actor, text: &str) -> OrderCommandRequest {
    let precondition = OrderPrecondition::NONE;
    request(order, OrderCommand::AddNote(NewNote { author, text: text.to_owned(), precondition }))
}

/// Returns a reason why the documents are not signed, by the signing service at [`NOW`].
pub fn give_reason(order: OrderId, reason: &str) -> OrderCommandRequest {
    let precondition = OrderPrecondition::NONE;
    let reason = reason.to_owned();
    let new = NewReason { actor: Actor::Service, reason, precondition };
    request(order, OrderCommand::GiveReason(new))
}

/// Returns the withdrawal of a document by the client at [`NOW`].
pub fn withdraw(DocumentId { order, kind, position }: DocumentId) -> OrderCommandRequest {
    let precondition = DocumentPrecondition::NONE;
    request(order, OrderCommand::Withdraw { kind, position, precondition })
}

/// Returns the hold of an order by an operator until an instant; `None` ends it.
pub fn hold(order: OrderId, until: Option<OffsetDateTime>) -> OrderCommandRequest {
    OrderCommandRequest { owner: None, ..request(order, OrderCommand::Hold { until }) }
}
