//! The operations that write: create orders, and add documents to them.

pub(crate) mod add_documents;
pub(crate) mod claim_guard;
pub(crate) mod create_form;
pub(crate) mod create_json;
pub(crate) mod created;
pub(crate) mod upload;
