//! The operations that write: create orders, and add and withdraw documents.

pub(crate) mod add_documents;
pub(crate) mod claim_guard;
pub(crate) mod create_form;
pub(crate) mod create_json;
pub(crate) mod created;
pub(crate) mod upload;
pub(crate) mod withdraw;
