//! Orders: the operations that create and read them, and their records.

pub(crate) mod create;
pub(crate) mod path;
mod problems;
pub(crate) mod read;
pub(crate) mod record;
