//! What a rejected document looks like, and what its sender can do.

use domain::document::DocumentFormat;

pub(super) const ENCRYPTED: &str =
    "a Word document with a password; remove it, and save the document as .docx or PDF";

const HTML: &str = "HTML; save it as .docx or PDF";
const WORD_XML: &str = "a Word document in XML; save it as .docx or PDF";
pub(super) const MACROS: &str =
    "a Word document with macros or a template; save it as .docx or PDF";
pub(super) const OPEN_DOCUMENT: &str = "OpenDocument; save it as .docx or PDF";
pub(super) const EXCEL: &str = "an Excel workbook; save it as PDF";
pub(super) const POWER_POINT: &str = "a PowerPoint presentation; save it as PDF";
pub(super) const ZIP: &str = "a ZIP file; send the documents in it";

/// Returns the text for a file of an accepted format that has the extension of another.
pub(super) fn of_format(found: DocumentFormat) -> &'static str {
    match found {
        DocumentFormat::Pdf => "PDF; give it the extension .pdf",
        DocumentFormat::Doc => "a Word document of Word 6 to 2003; give it the extension .doc",
        DocumentFormat::Docx => {
            "a Word document of Word 2007 or later; give it the extension .docx"
        }
        DocumentFormat::Jpeg => "JPEG; give it the extension .jpg",
        DocumentFormat::Png => "PNG; give it the extension .png",
    }
}

/// Returns the text for the first bytes of a file.
pub(super) fn of_start(start: &[u8]) -> Option<&'static str> {
    let text = decoded(start).trim_start().to_ascii_lowercase();
    let kinds_of_text = [
        ("{\\rtf", "RTF; save it as .docx or PDF"),
        ("<!doctype html", HTML),
        ("<html", HTML),
        ("<head", HTML),
        ("mime-version:", "a web page (MHTML); save it as .docx or PDF"),
        ("%!ps", "PostScript; save it as PDF"),
    ];
    if let Some((_, kind)) = kinds_of_text.iter().find(|(beginning, _)| text.starts_with(beginning))
    {
        return Some(kind);
    }
    if text.starts_with("<?xml") || text.starts_with("<w:") {
        let is_word = ["word.document", "/word/2003/", "w:worddocument", "pkg:package"];
        return match text {
            _ if is_word.iter().any(|name| text.contains(name)) => Some(WORD_XML),
            _ if text.contains("<html") => Some(HTML),
            _ => Some("XML; save it as .docx or PDF"),
        };
    }
    match start {
        [_, _, _, _, b'f', b't', b'y', b'p', brand @ ..] => Some(match brand.get(..4)? {
            b"avif" | b"avis" => "AVIF; save it as JPEG, PNG or PDF",
            b"heic" | b"heix" | b"hevc" | b"hevx" | b"heim" | b"heis" | b"mif1" | b"msf1" => {
                "HEIC; save it as JPEG, PNG or PDF"
            }
            _ => "a video; send pictures as JPEG or PNG",
        }),
        [b'G', b'I', b'F', b'8', ..] => Some("GIF; save it as JPEG, PNG or PDF"),
        [b'I', b'I', b'*', 0, ..] | [b'M', b'M', 0, b'*', ..] => Some("TIFF; save it as PDF"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => {
            Some("WebP; save it as JPEG, PNG or PDF")
        }
        [b'B', b'M', ..] => Some("BMP; save it as JPEG, PNG or PDF"),
        [0xFF, b'W', b'P', b'C', ..] => Some("a WordPerfect document; save it as .docx or PDF"),
        _ => None,
    }
}

/// Returns the text for a compound file with some streams.
pub(super) fn of_streams(has: impl Fn(&str) -> bool) -> Option<&'static str> {
    let kinds = [
        ("Workbook", EXCEL),
        ("Book", EXCEL),
        ("PowerPoint Document", POWER_POINT),
        ("__properties_version1.0", "an Outlook message; save it as PDF"),
    ];
    kinds.into_iter().find(|(name, _)| has(name)).map(|(_, kind)| kind)
}

/// Decodes a text in UTF-8 or UTF-16, without its byte order mark.
pub(super) fn decoded(bytes: &[u8]) -> String {
    let units = |read: fn([u8; 2]) -> u16| {
        let units = bytes.chunks_exact(2).map(|unit| read([unit[0], unit[1]]));
        String::from_utf16_lossy(&units.collect::<Vec<_>>())
    };
    let text = match bytes {
        [0xFF, 0xFE, ..] | [b'<', 0, ..] => units(u16::from_le_bytes),
        [0xFE, 0xFF, ..] | [0, b'<', ..] => units(u16::from_be_bytes),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    };
    text.trim_start_matches('\u{feff}').to_owned()
}
