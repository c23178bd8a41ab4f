//! Rows of orders and their documents, and statements on them.

pub(crate) mod change;
pub(crate) mod erase;
pub(crate) mod find;
pub(crate) mod lists;
pub(crate) mod queries;
pub(crate) mod retention;
pub(crate) mod rows;
