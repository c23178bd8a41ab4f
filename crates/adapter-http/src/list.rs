//! The form of every list.

use serde::Serialize;

/// A page of a list.
#[derive(Serialize)]
pub(crate) struct List<T> {
    object: &'static str,
    url: String,
    has_more: bool,
    data: Vec<T>,
}

impl<T> List<T> {
    /// Returns a page of the list at `url`.
    pub(crate) fn new(url: String, has_more: bool, data: impl Iterator<Item = T>) -> Self {
        Self { object: "list", url, has_more, data: data.collect() }
    }
}
