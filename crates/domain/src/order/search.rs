//! How orders are found: the statuses of a list, the texts that a search looks at, and the text that it looks
//! for.

use super::{Order, OrderStatus, change_request::read_status};
use crate::request::{Fault, Line, Text as _, ViolationCode, rules::text};

/// Minimum length of a searched text in characters.
pub const MIN_SEARCH: usize = 3;
/// Maximum length of a searched text in characters.
pub const MAX_SEARCH: usize = 100;
/// Maximum number of statuses that a list is asked for.
const MAX_STATUSES: usize = 20;
/// Maximum number of orders that a search looks at for one page. It reads their rows.
pub const SEARCHED_ORDERS: usize = 50_000;
/// Maximum number of orders that other filters look at for one page. They read an index alone.
pub const FILTERED_ORDERS: usize = 200_000;

// A searched text names people.
conceal!(SearchedText);

/// A text to search for, folded.
#[derive(Clone, PartialEq, Eq)]
pub struct SearchedText(String);

impl SearchedText {
    /// Reads a text of 3 to 100 characters.
    ///
    /// # Errors
    /// The fault of the text.
    pub fn parse(sent: String) -> Result<Self, Fault> {
        let line = Line::clean(sent);
        text(MAX_SEARCH)(&line)?;
        if line.chars().count() < MIN_SEARCH {
            let detail = format!("must have at least {MIN_SEARCH} characters");
            return Err((ViolationCode::TooShort, detail.into()));
        }
        Ok(Self(folded(&line)))
    }

    /// Returns the folded text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Reads statuses separated by commas. A near spelling of a usual status is that status.
///
/// # Errors
/// The fault of the first one at fault, or of their number.
pub fn read_statuses(sent: &str) -> Result<Vec<OrderStatus>, Fault> {
    let mut statuses = Vec::new();
    for status in sent.split(',') {
        let status = read_status(status)?;
        if !statuses.contains(&status) {
            statuses.push(status);
        }
    }
    if statuses.len() > MAX_STATUSES {
        let detail = format!("must have at most {MAX_STATUSES} statuses");
        return Err((ViolationCode::OutOfRange, detail.into()));
    }
    Ok(statuses)
}

/// Returns the texts of an order that a search looks at, folded, one a line: the file number, the names of
/// the signers, and the address and city of the property. A searched text has no line end, so it is found in
/// one of them.
pub fn searched_text(order: &Order) -> String {
    let signing = &order.signing;
    let property = &signing.property;
    let number = order.file_number.as_str();
    let texts = [number, &signing.signer.name, &property.address, &property.city];
    let texts = texts.into_iter().chain(signing.co_signer.name.as_deref());
    texts.map(folded).collect::<Vec<_>>().join("\n")
}

/// Removes the difference between letter cases. Upper case alone tells that `ß` and `SS`, or the two small
/// sigmas, are the same letters, and lower case before it that `ẞ` is `ß`. The dot that is left of a Turkish
/// `İ` is no letter.
fn folded(text: &str) -> String {
    let upper = text.chars().flat_map(char::to_lowercase).flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).filter(|c| *c != '\u{307}').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letter_case_does_not_matter() {
        for (one, other) in [
            ("REFI-2026", "refi-2026"),
            ("José ÁLVAREZ", "JOSÉ álvarez"),
            ("Straße", "STRASSE"),
            ("Straße", "STRAẞE"),
            ("ΟΔΟΣ", "οδος"),
            ("ΟΔΟΣ", "οδοσ"),
            ("İstanbul", "istanbul"),
            ("ПЁТР", "пётр"),
        ] {
            assert_eq!(folded(one), folded(other));
        }
    }

    #[test]
    fn searched_text_has_three_to_a_hundred_characters() {
        let code = |sent: &str| SearchedText::parse(sent.to_owned()).map_err(|fault| fault.0);
        assert_eq!(code(" ab "), Err(ViolationCode::TooShort));
        assert_eq!(code(&"é".repeat(101)), Err(ViolationCode::TooLong));
        assert_eq!(code("a\nbc"), Err(ViolationCode::InvalidCharacters));
        assert_eq!(code(" Éa1 ").unwrap().as_str(), "éa1");
        assert!(code(&"é".repeat(100)).is_ok());
    }
}
