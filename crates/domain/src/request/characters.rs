//! Characters that programs of clients put into texts.

/// Returns whether a text is printable ASCII. Most are, which is faster to see than to look at each
/// character.
pub(super) fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Returns whether a text has no visible character.
pub(super) fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || is_invisible(c))
}

/// Returns whether a character is invisible, or changes the direction of the text after it: two
/// names could look the same, or a name could look like another.
pub fn is_invisible(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fffc}'
        | '\u{e0000}'..='\u{e007f}')
}

/// Drops invisible formatting, but keeps tabs.
pub(super) fn of_word(character: char) -> Option<char> {
    if character == '\t' { Some(character) } else { of_line(character) }
}

/// Drops invisible formatting. U+200C and U+200D stay: names in Persian and in Indic scripts need
/// them.
pub(super) fn of_line(character: char) -> Option<char> {
    match character {
        '\t' => Some(' '),
        '\u{200c}' | '\u{200d}' => Some(character),
        c => (!is_invisible(c)).then_some(c),
    }
}

/// Drops invisible formatting, and replaces dashes, blanks and full-width characters by ASCII.
pub(super) fn of_code(character: char) -> Option<char> {
    match character {
        c if is_invisible(c) => None,
        '\u{2010}'..='\u{2015}'
        | '\u{2043}'
        | '\u{2212}'
        | '\u{fe31}'
        | '\u{fe32}'
        | '\u{fe58}'
        | '\u{fe63}' => Some('-'),
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(character) - 0xfee0),
        c if c == '\t' || c.is_whitespace() && !c.is_control() => Some(' '),
        c => Some(c),
    }
}

/// Replaces the line ends of other programs.
#[expect(clippy::unnecessary_wraps, reason = "the signature of the others")]
pub(super) fn of_lines(character: char) -> Option<char> {
    let is_line_end = matches!(character, '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    Some(if is_line_end { '\n' } else { character })
}
