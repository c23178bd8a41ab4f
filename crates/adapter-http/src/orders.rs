//! Orders: the operations that create and read them, and their records.

pub(crate) mod create;
pub(crate) mod path;
mod problems;
pub(crate) mod read;
pub(crate) mod record;

use domain::order::StoredOrder;
use serde::Serialize;

use self::record::WholeOrder;
pub(crate) use self::{
    create::{
        add_documents::add as add_documents, create_form::create as create_with_documents,
        create_json::create,
    },
    read::{
        list_documents::list as list_documents, list_orders::list as list_orders,
        read_document::read as read_document, read_order::read as read_order,
    },
};

/// Returns an order for operators, as a client reads it: record, details and records of documents.
pub fn whole_order<'a>(stored: &'a StoredOrder, base_path: &str) -> impl Serialize + use<'a> {
    WholeOrder::new(stored, &path::of_documents(base_path, stored.id))
}
