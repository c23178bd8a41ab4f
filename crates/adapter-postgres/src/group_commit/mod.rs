//! Creates orders: those that wait at the same time share a statement (ADR 13).

pub(crate) mod create;
mod insert;
pub(crate) mod key_use;
