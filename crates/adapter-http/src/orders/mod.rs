//! Orders: the operations that create, read and change them, and their records.

pub(crate) mod add_note;
pub(crate) mod change;
pub(crate) mod create;
mod erasure;
pub(crate) mod path;
mod problems;
pub(crate) mod read;
pub(crate) mod record;
mod version;
