//! The names of documents in an archive.

use std::collections::BTreeSet;

use domain::{
    document::{StoredDocument, last_component},
    request::is_invisible,
};
use unicode_normalization::UnicodeNormalization as _;

/// The folder of documents that others replace, so that nobody prints them by mistake.
const REPLACED: &str = "replaced/";

/// Names of devices, which are no names of files on Windows. `0` stands for any digit.
const DEVICES: [&str; 6] = ["AUX", "CON", "NUL", "PRN", "COM0", "LPT0"];

/// Longest name in bytes, without a number. File systems take 255.
const LONGEST: usize = 240;

/// Returns the names of documents, as they were sent. They differ also where file systems ignore the letter
/// case or how a character is composed.
pub(super) fn unique<'a>(documents: impl Iterator<Item = &'a StoredDocument>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let name = |document: &StoredDocument| {
        let folder = if document.is_current() { "" } else { REPLACED };
        unique_name(&format!("{folder}{}", file_name(&document.name_as_sent)), &mut taken)
    };
    documents.map(name).collect()
}

/// Returns the name of a document as a name of a file on any system.
fn file_name(name_as_sent: &str) -> String {
    // Windows has no such names, and a terminal or a file manager obeys some of them.
    let is_safe = |c: char| !c.is_control() && !r#"<>:"|?*"#.contains(c) && !is_hidden(c);
    let name = last_component(name_as_sent).chars().map(|c| if is_safe(c) { c } else { '_' });
    let name = shortened(&name.collect::<String>());
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let is_device = DEVICES.contains(&&*stem.replace(|c: char| c.is_ascii_digit(), "0"));
    // A file whose name begins with a dot is hidden.
    if is_device || stem.is_empty() { format!("_{name}") } else { name }
}

/// Names in Persian and in Indic scripts need U+200C and U+200D.
fn is_hidden(character: char) -> bool {
    is_invisible(character) && !matches!(character, '\u{200c}' | '\u{200d}')
}

/// Removes the end of a long name before its extension.
fn shortened(name: &str) -> String {
    let (stem, extension) = parts(name);
    let longest = LONGEST.saturating_sub(extension.len());
    let ends = stem.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.take_while(|end| *end <= longest).last().unwrap_or_default();
    format!("{}{extension}", &stem[..end])
}

/// Returns a name before its extension, and the extension with its dot.
fn parts(name: &str) -> (&str, &str) {
    name.rfind('.').map_or((name, ""), |dot| name.split_at(dot))
}

/// Returns a name that is not taken, with a number before its extension if it must differ.
fn unique_name(name: &str, taken: &mut BTreeSet<String>) -> String {
    let (stem, extension) = parts(name);
    let mut unique = name.to_owned();
    let mut number = 2_u32;
    while !taken.insert(unique.nfc().flat_map(char::to_lowercase).collect()) {
        unique = format!("{stem}_{number}{extension}");
        number = number.saturating_add(1);
    }
    unique
}

#[cfg(test)]
mod tests {
    use contract_tests::samples::document;

    use super::*;

    fn names(sent: &[&str]) -> Vec<String> {
        let documents = sent
            .iter()
            .map(|name| StoredDocument { name_as_sent: (*name).to_owned(), ..document() });
        unique(documents.collect::<Vec<_>>().iter())
    }

    #[test]
    fn names_are_those_that_were_sent() {
        let sent = ["合同.pdf", "Kaufvertrag Müller (2).docx", "علی\u{200c}رضا.png"];
        assert_eq!(names(&sent), sent);
        assert_eq!(names(&["../../etc/passwd.pdf", "C:\\a\\b.pdf"]), ["passwd.pdf", "b.pdf"]);
    }

    #[test]
    fn names_are_safe_on_every_system() {
        for (sent, name) in [
            ("con.pdf", "_con.pdf"),
            ("LPT1.x.pdf", "_LPT1.x.pdf"),
            ("nul .pdf", "_nul .pdf"),
            ("comic.pdf", "comic.pdf"),
            (".pdf", "_.pdf"),
            ("a:b?\"<c>|*.pdf", "a_b___c___.pdf"),
            ("deed\u{202e}fdp.png", "deed_fdp.png"),
            ("a\tb\u{7}.pdf", "a_b_.pdf"),
        ] {
            assert_eq!(names(&[sent]), [name]);
        }
        let long = &names(&[&format!("{}.docx", "合".repeat(500))])[0];
        assert!(long.ends_with("合.docx") && (LONGEST - 3..=LONGEST).contains(&long.len()));
    }

    #[test]
    fn names_are_unique_on_every_system() {
        let sent =
            ["a.pdf", "A.PDF", "a_2.pdf", "a.pdf", "É.pdf", "e\u{301}.pdf", "合同.pdf", "契約.pdf"];
        let unique = ["a.pdf", "A_2.PDF", "a_2_2.pdf", "a_3.pdf", "É.pdf", "e\u{301}_2.pdf"];
        assert_eq!(names(&sent)[..6], unique);
        assert_eq!(names(&sent)[6..], sent[6..]);
    }
}
