//! Rows of webhooks and their endpoints, statements on them, and what a lease takes.

pub(crate) mod lease;
pub(crate) mod queries;
pub(crate) mod rows;
