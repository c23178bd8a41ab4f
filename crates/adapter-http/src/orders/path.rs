//! The paths of orders and their documents.

use actix_web::HttpRequest;
use domain::{
    document::DocumentKind,
    order::{DocumentId, OrderId},
};

use crate::respond::{
    path_number::{identifier, number},
    problem::Problem,
};

/// Path of the orders of a client, below the base path.
pub(crate) const ORDERS: &str = "/api/order";
/// Path of the feed of changes.
pub(crate) const CHANGES: &str = "/api/order/changes";
/// Path of an order.
pub(crate) const ORDER: &str = "/api/order/{order_id}";
/// Path that cancels an order.
pub(crate) const CANCEL: &str = "/api/order/{order_id}/cancel";
/// Path of the history of an order.
pub(crate) const HISTORY: &str = "/api/order/{order_id}/history";
/// Path of the accesses to an order.
pub(crate) const ACCESSES: &str = "/api/order/{order_id}/accesses";
/// Path of the notes of an order.
pub(crate) const NOTES: &str = "/api/order/{order_id}/notes";
/// Path of the documents of an order.
pub(crate) const DOCUMENTS: &str = "/api/order/{order_id}/documents";
/// Path of the archive of the documents of an order.
pub(crate) const DOCUMENTS_ZIP: &str = "/api/order/{order_id}/documents.zip";
/// Path of a document.
pub(crate) const DOCUMENT: &str = "/api/order/{order_id}/documents/{position}";

/// Path of the signed documents of an order.
pub(crate) const SIGNED_DOCUMENTS: &str = "/api/order/{order_id}/signed-documents";
/// Path of the archive of the signed documents of an order.
pub(crate) const SIGNED_DOCUMENTS_ZIP: &str = "/api/order/{order_id}/signed-documents.zip";
/// Path of a signed document.
pub(crate) const SIGNED_DOCUMENT: &str = "/api/order/{order_id}/signed-documents/{position}";

/// Returns the last part of the path of the documents of a kind.
pub(super) fn documents(kind: DocumentKind) -> &'static str {
    match kind {
        DocumentKind::ToSign => "documents",
        DocumentKind::Signed => "signed-documents",
    }
}

/// Returns the path of an order.
pub(super) fn of_order(base_path: &str, OrderId(id): OrderId) -> String {
    format!("{base_path}{ORDERS}/{id}")
}

/// Returns the path of the documents of a kind of an order.
pub(super) fn of_documents(base_path: &str, OrderId(id): OrderId, kind: DocumentKind) -> String {
    format!("{base_path}{ORDERS}/{id}/{}", documents(kind))
}

/// Returns the path of the history of an order.
pub(super) fn of_history(base_path: &str, OrderId(id): OrderId) -> String {
    format!("{base_path}{ORDERS}/{id}/history")
}

/// Returns the path of the notes of an order.
pub(super) fn of_notes(base_path: &str, OrderId(id): OrderId) -> String {
    format!("{base_path}{ORDERS}/{id}/notes")
}

/// Returns the path of the accesses to an order.
pub(super) fn of_accesses(base_path: &str, OrderId(id): OrderId) -> String {
    format!("{base_path}{ORDERS}/{id}/accesses")
}

/// Returns the order that the path of a request names. A text that is no identifier names an order
/// that does not exist.
pub(super) fn order_id(request: &HttpRequest) -> Result<OrderId, Problem> {
    identifier(request, "order_id").map(OrderId).ok_or_else(Problem::no_such_order)
}

/// Returns the document of a kind that the path of a request names.
pub(super) fn document(request: &HttpRequest, kind: DocumentKind) -> Result<DocumentId, Problem> {
    let order = order_id(request)?;
    let position = number(request, "position").ok_or_else(Problem::no_such_order)?;
    Ok(DocumentId { order, kind, position })
}
