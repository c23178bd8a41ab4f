//! From the result of a handler to its response.

pub(crate) mod answer;
pub(crate) mod conditional;
pub(crate) mod instants;
pub(crate) mod list;
pub(crate) mod path_number;
pub(crate) mod problem;
pub(crate) mod range;
pub(crate) mod static_file;
