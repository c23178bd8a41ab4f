//! Texts of an order that have a type.

use unicode_normalization::UnicodeNormalization as _;

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
/// space, as it was sent. The comparison is case-sensitive, and after normalization: texts that look equal are equal.
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

    /// Returns a text in the form in which file numbers are compared, to find orders.
    ///
    /// # Errors
    /// No file number is such a text.
    pub fn searched(sent: String) -> Result<String, Fault> {
        let line = Line::clean(sent);
        text(MAX_FILE_NUMBER)(&line)?;
        Ok(Self::comparable(&String::from(line)))
    }

    /// Returns a text in the form in which file numbers are compared: Unicode normalization form C.
    pub fn comparable(text: &str) -> String {
        text.nfc().collect()
    }

    /// Returns the forms in which orders may have a comparable file number. Version 0.1.0 stored the decomposed
    /// one of clients on macOS, too.
    pub fn stored_forms(comparable: &str) -> Vec<String> {
        let decomposed: String = comparable.nfd().collect();
        let others = (decomposed != comparable).then_some(decomposed);
        std::iter::once(comparable.to_owned()).chain(others).collect()
    }

    /// Returns whether two file numbers look equal.
    pub fn is_same_as(&self, other: &str) -> bool {
        self.0.nfc().eq(other.nfc())
    }

    /// Returns the file number as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_numbers_that_look_equal_are_equal() {
        let (composed, decomposed) = ("Jos\u{e9}-1", "Jose\u{301}-1");
        let number = FileNumber::new(decomposed.to_owned()).unwrap();
        assert!(number.is_same_as(composed) && number.is_same_as(decomposed));
        assert!(!number.is_same_as("Jose-1"));
        assert_eq!(number.as_str(), decomposed);
        let searched = FileNumber::searched(decomposed.to_owned()).unwrap();
        assert_eq!(searched, composed);
        assert_eq!(FileNumber::stored_forms(&searched), [composed, decomposed]);
        assert_eq!(FileNumber::stored_forms("F-1"), ["F-1"]);
    }
}
