//! Creating orders: the two operations, and the record that both return.

mod claim_guard;
pub(crate) mod create_form;
pub(crate) mod create_json;
mod created;
mod problems;
pub(crate) mod record;
