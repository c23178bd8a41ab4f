//! The operations that read orders and their documents.

pub(crate) mod archive;
mod document_blocks;
pub(crate) mod list_accesses;
pub(crate) mod list_orders;
pub(crate) mod read_document;
pub(crate) mod read_order;
