//! Texts of an order that have a type.

use crate::request::{Fault, Line, Text as _, rules::text};

/// Maximum length of a status in characters.
pub const MAX_STATUS: usize = 50;
/// Maximum length of the reason of a cancellation in characters.
pub const MAX_REASON: usize = 500;
/// Maximum length of a note in characters.
pub const MAX_NOTE: usize = 5_000;
/// Maximum length of a file number in characters.
pub(super) const MAX_FILE_NUMBER: usize = 100;

/// The client's file or loan number: one line of 1 to 100 characters without surrounding white
/// space. The comparison is case-sensitive.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct FileNumber(String);

impl FileNumber {
    /// Returns a file number; `None` if it is blank or has white space around it. Only a request is
    /// checked against the rest of the rule: a stricter rule must not make stored orders unreadable.
    pub fn new(text: String) -> Option<Self> {
        (!text.is_empty() && text.trim() == text).then_some(Self(text))
    }

    /// Returns what an order has as its file number that cannot be read.
    pub(super) fn unchecked(text: String) -> Self {
        Self(text)
    }

    /// Returns a text as the file number of an order would be stored, to find it.
    ///
    /// # Errors
    /// No file number is such a text.
    pub fn searched(sent: String) -> Result<String, Fault> {
        let line = Line::clean(sent);
        text(MAX_FILE_NUMBER)(&line)?;
        Ok(line.into())
    }

    /// Returns the file number as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
