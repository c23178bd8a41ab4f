//! Orders: the operations that create, read and change them, each with its record.

pub(crate) mod add_documents;
pub(crate) mod add_note;
pub(crate) mod archive;
pub(crate) mod change;
mod claim_guard;
pub(crate) mod create_form;
pub(crate) mod create_json;
mod created;
mod document_blocks;
mod erasure;
pub(crate) mod list_accesses;
pub(crate) mod list_changes;
pub(crate) mod list_orders;
pub(crate) mod path;
mod problems;
pub(crate) mod put;
pub(crate) mod read_document;
pub(crate) mod read_order;
pub(crate) mod record;
mod upload;
mod version;
pub(crate) mod withdraw;
