//! Kinds of texts: how they are cleaned, and which characters they may have.

use std::ops;

use serde::Serialize;

use super::{
    characters::{is_blank, is_plain, of_code, of_line, of_lines, of_word},
    sent::{Member, Sent},
};

/// A clean text: without white space around it, and with other characters where programs of clients
/// have put unusual ones. A text without any visible character is empty.
pub trait Text: Member + ops::Deref<Target = str> + From<String> {
    /// Replaces or drops a character.
    const REPLACE: fn(char) -> Option<char>;
    /// Whether the text may have several lines.
    const HAS_LINES: bool = false;

    /// Cleans a text.
    fn clean(text: String) -> Self {
        let text =
            if is_plain(&text) { text } else { text.chars().filter_map(Self::REPLACE).collect() };
        let trimmed = if is_blank(&text) { "" } else { text.trim() };
        if trimmed.len() == text.len() { text.into() } else { trimmed.to_owned().into() }
    }

    /// Returns the detail of the violation if the text has a character that its kind does not allow.
    fn forbidden_character(&self) -> Option<&'static str> {
        if is_plain(self) {
            return None;
        }
        // The two separators end a line wherever text is shown, though Unicode does not call them
        // control characters.
        let control = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        if Self::HAS_LINES {
            let line_end = |c| matches!(c, '\n' | '\r' | '\t');
            self.contains(|c| control(c) && !line_end(c))
                .then_some("must not contain control characters other than line ends and tabs")
        } else {
            self.contains(control).then_some("must be one line without control characters")
        }
    }
}

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident: $replace:ident $(, $lines:literal)?;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl Text for $name {
            const REPLACE: fn(char) -> Option<char> = $replace;
            $(const HAS_LINES: bool = $lines;)?
        }

        impl Member for $name {
            const EXPECTED: &'static str = "must be a string";
            const IS_TEXT: bool = true;

            fn of_text(text: String) -> Sent<Self> {
                let text = Self::clean(text);
                if text.is_empty() { Sent::Blank } else { Sent::Value(text) }
            }
        }

        /// Takes a clean text.
        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> Self {
                text.0
            }
        }

        impl ops::Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }
    )*};
}

texts! {
    /// One line of any characters.
    Line: of_line;
    /// One line of any characters, in which a tab is a fault.
    Word: of_word;
    /// One line of ASCII characters, such as a date or a phone number.
    Code: of_code;
    /// Several lines.
    Lines: of_lines, true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_texts_take_no_line_ends() {
        let is_forbidden = |text: &str| Line::from(text.to_owned()).forbidden_character().is_some();
        for character in ['\0', '\r', '\n', '\u{7f}', '\u{85}', '\u{2028}', '\u{2029}'] {
            assert!(is_forbidden(&format!("a{character}b")), "{character:?}");
        }
        let lines = |text: &str| Lines::from(text.to_owned()).forbidden_character();
        assert_eq!(lines("ring\r\n\ttwice"), None);
        assert!(lines("ring\0twice").is_some());
    }

    #[test]
    fn one_line_texts_lose_hidden_characters() {
        for hidden in
            "\u{ad}\u{34f}\u{200b}\u{200e}\u{202a}\u{202e}\u{2060}\u{2064}\u{2066}\u{2069}\
                       \u{feff}\u{fffc}\u{e0000}\u{e0041}\u{e007f}"
                .chars()
        {
            let text = format!("{hidden} Jane{hidden} Doe {hidden}");
            assert_eq!(&*Line::clean(text.clone()), "Jane Doe", "{hidden:?}");
            assert_eq!(&*Lines::clean(text.clone()), text, "{hidden:?}");
            assert_eq!(&*Lines::clean(hidden.into()), "", "{hidden:?}");
        }
        assert_eq!(&*Line::clean("Jane\tDoe\t\u{200d}".into()), "Jane Doe \u{200d}");
        // A Persian and a Sinhala name, a family of emoji, and text from right to left.
        for text in ["علی\u{200c}رضا", "ශ්\u{200d}රී", "👨\u{200d}👩\u{200d}👧", "יעל"]
        {
            assert_eq!(&*Line::clean(text.into()), text);
        }
    }
}
