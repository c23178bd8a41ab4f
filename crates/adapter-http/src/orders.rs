//! Orders: the operations that create and read them, and their records.

mod add_documents;
mod claim_guard;
pub(crate) mod create_form;
pub(crate) mod create_json;
mod created;
mod download;
mod list_documents;
mod list_orders;
mod list_query;
pub(crate) mod path;
mod problems;
mod read_document;
mod read_order;
pub(crate) mod record;
mod upload;

use domain::order::StoredOrder;
use serde::Serialize;

use self::record::WholeOrder;
pub(crate) use self::{
    add_documents::add as add_documents, create_form::create as create_with_documents,
    create_json::create, list_documents::list as list_documents, list_orders::list as list_orders,
    read_document::read as read_document, read_order::read as read_order,
};

/// Returns an order for operators, as a client reads it: record, details and records of documents.
pub fn whole_order<'a>(stored: &'a StoredOrder, base_path: &str) -> impl Serialize + use<'a> {
    WholeOrder::new(stored, &path::of_documents(base_path, stored.id))
}
