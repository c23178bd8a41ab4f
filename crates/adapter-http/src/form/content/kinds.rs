//! The kind of a rejected document, and the advice for its sender.

use std::borrow::Cow;

use domain::document::DocumentFormat;
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

pub(super) const ENCRYPTED: &str =
    "a protected Word document; remove the protection, and save it as .docx or PDF";

pub(super) const MACROS: &str =
    "a Word document with macros or a template; save it as .docx or PDF";
pub(super) const ZIP: &str = "a ZIP file; send the documents in it";
pub(super) const DAMAGED_WORD: &str = "a damaged Word document; save it as .docx or PDF again";

pub(super) const PAGES: &str = "a Pages document; save it as .docx or PDF";
pub(super) const WORKS: &str = "a Works document; save it as .docx or PDF";

const EXCEL: &str = "an Excel workbook; save it as PDF";
const NUMBERS: &str = "a Numbers spreadsheet; save it as PDF";
const POWER_POINT: &str = "a PowerPoint presentation; save it as PDF";
const BASE64: &str = "Base64; send the bytes of the document";
const MHTML: &str = "a web page (MHTML); save it as .docx or PDF";
const MAIL: &str = "an e-mail; save it as PDF";
const HEIC: &str = "HEIC; save it as JPEG, PNG or PDF";
const JPEG_2000: &str = "JPEG 2000; save it as JPEG, PNG or PDF";
const JPEG_XL: &str = "JPEG XL; save it as JPEG, PNG or PDF";
const TIFF: &str = "TIFF; save it as PDF";
pub(super) const XPS: &str = "XPS; save it as PDF";
const OPEN_DOCUMENT: &str = "OpenDocument; save it as .docx or PDF";
const EPUB: &str = "an EPUB book; save it as PDF";
const VISIO: &str = "a Visio drawing; save it as PDF";
const POST_SCRIPT: &str = "PostScript; save it as PDF";
const METAFILE: &str = "a Windows metafile; save it as PNG or PDF";
const SHORTCUT: &str = "a shortcut to a document; send the document itself";
const SIGNED: &str = "a signed file (PKCS #7, .p7m); send the document in it";
const OLD_WORD: &str = "a document of Word 5 or earlier; save it as .docx or PDF";

/// Beginnings of texts in lower case.
const TEXTS: [(&str, &str); 17] = [
    ("{\\rtf", "RTF; save it as .docx or PDF"),
    ("{", "JSON, perhaps an error message; send the document itself"),
    ("%!ps", POST_SCRIPT),
    ("[internetshortcut]", SHORTCUT),
    ("mime-version:", MHTML),
    ("from: <saved by", MHTML),
    ("content-type: multipart/related", MHTML),
    ("from:", MAIL),
    ("received:", MAIL),
    ("return-path:", MAIL),
    ("data:application/", BASE64),
    ("data:image/", BASE64),
    // Then PDF, DOC, DOCX, JPEG and PNG.
    ("jvberi0", BASE64),
    ("0m8r4kgx", BASE64),
    ("uesdb", BASE64),
    ("/9j/", BASE64),
    ("ivborw0k", BASE64),
];

/// Tags of which a page, or a part of one, has one at its beginning.
const HTML: [&str; 9] =
    ["<!doctype html", "<html", "<head", "<meta", "<title", "<body", "<table", "<div", "<p>"];

/// Streams of compound files, and parts of ZIP files.
const NAMES: [(&str, &str); 14] = [
    ("Workbook", EXCEL),
    ("Book", EXCEL),
    ("xl/workbook.xml", EXCEL),
    ("xl/workbook.bin", EXCEL),
    ("PowerPoint Document", POWER_POINT),
    ("ppt/presentation.xml", POWER_POINT),
    ("__properties_version1.0", "an Outlook message; save it as PDF"),
    ("MatOST", WORKS),
    ("MN0", WORKS),
    ("VisioDocument", VISIO),
    ("visio/document.xml", VISIO),
    ("content.xml", OPEN_DOCUMENT),
    ("index/document.iwa", PAGES),
    ("meta-inf/container.xml", EPUB),
];

/// Beginnings of the types that the first part of a ZIP file names, `mimetype`.
const MIME_TYPES: [(&str, &str); 7] = [
    (
        "application/vnd.oasis.opendocument.spreadsheet",
        "an OpenDocument spreadsheet; save it as PDF",
    ),
    (
        "application/vnd.oasis.opendocument.presentation",
        "an OpenDocument presentation; save it as PDF",
    ),
    ("application/vnd.oasis.opendocument.graphics", "an OpenDocument drawing; save it as PDF"),
    ("application/vnd.oasis.opendocument.", OPEN_DOCUMENT),
    ("application/vnd.sun.xml.", "a document of OpenOffice.org 1; save it as .docx or PDF"),
    ("application/epub+zip", EPUB),
    ("application/x-ibooks+zip", EPUB),
];

/// The type `signedData` behind the header of a `ContentInfo` (RFC 5652, sections 3 and 5.1).
const SIGNED_DATA: &[u8] = b"\x06\x09\x2A\x86\x48\x86\xF7\x0D\x01\x07\x02";

/// Bytes at a place near the beginning. The first entry that a file has decides.
const BYTES: [(usize, &[u8], &str); 53] = [
    (4, b"ftypavi", "AVIF; save it as JPEG, PNG or PDF"),
    (4, b"ftyphe", HEIC),
    (4, b"ftypmif", HEIC),
    (4, b"ftypmsf1", HEIC),
    (4, b"ftypMiHE", HEIC),
    (4, b"ftypcrx ", "a raw picture of a camera; save it as JPEG, PNG or PDF"),
    (4, b"ftyp", "a video or sound; send pictures as JPEG or PNG"),
    (0, b"GIF8", "GIF; save it as JPEG, PNG or PDF"),
    (0, b"II*\0", TIFF),
    (0, b"MM\0*", TIFF),
    // BigTIFF.
    (0, b"II+\0", TIFF),
    (0, b"MM\0+", TIFF),
    (0, b"EP*\0", "a scan of Microsoft Office (MDI); save it as PDF"),
    (0, b"8BPS", "a Photoshop picture; save it as JPEG, PNG or PDF"),
    (0, b"AT&TFORM", "DjVu; save it as PDF"),
    (0, b"\xB1\x68\xDE\x3A", "a fax (DCX); save it as PDF"),
    (0, b"\x97JB2\r\n\x1A\n", "JBIG2; save it as PNG or PDF"),
    (0, b"\xC5\xD0\xD3\xC6", POST_SCRIPT),
    (0, b"\xD7\xCD\xC6\x9A", METAFILE),
    (40, b" EMF", METAFILE),
    (8, b"WEBP", "WebP; save it as JPEG, PNG or PDF"),
    (0, b"BM", "BMP; save it as JPEG, PNG or PDF"),
    (0, b"\0\0\0\x0CjP  ", JPEG_2000),
    (0, b"\xFF\x4F\xFF\x51", JPEG_2000),
    (0, b"\0\0\0\x0CJXL ", JPEG_XL),
    (0, b"\xFF\x0A", JPEG_XL),
    (0, b"II\xBC\x01", "JPEG XR; save it as JPEG, PNG or PDF"),
    (0, b"\x1F\x8B", "a gzip file; send the document in it"),
    (0, b"BZh", "a bzip2 file; send the document in it"),
    (0, b"\xFD7zXZ\0", "an xz file; send the document in it"),
    (0, b"\x28\xB5\x2F\xFD", "a Zstandard file; send the document in it"),
    (257, b"ustar", "a tar file; send the documents in it"),
    (0, b"MSCF", "a cabinet file; send the documents in it"),
    (0, b"PK\x05\x06", "an empty ZIP file"),
    (0, b"PK\x07\x08", ZIP),
    (0, b"PK00PK\x03\x04", ZIP),
    (0, b"\x78\x9F\x3E\x22", "winmail.dat, an attachment of Outlook; send the documents in it"),
    (0, b"\0\x05\x16\x07", "what macOS keeps beside a document; send the document itself"),
    (0, b"L\0\0\0\x01\x14\x02\0", SHORTCUT),
    (0, b"\xE4\x52\x5C\x7B\x8C\xD8\xA7\x4D", "a OneNote section; save it as PDF"),
    (0, b"Rar!", "a RAR file; send the documents in it"),
    (0, b"7z\xBC\xAF", "a 7z file; send the documents in it"),
    (0, b"\xFFWPC", "a WordPerfect document; save it as .docx or PDF"),
    // The length before it has a byte, or up to four more.
    (2, SIGNED_DATA, SIGNED),
    (3, SIGNED_DATA, SIGNED),
    (4, SIGNED_DATA, SIGNED),
    (5, SIGNED_DATA, SIGNED),
    (6, SIGNED_DATA, SIGNED),
    (0, b"AC10", "an AutoCAD drawing (DWG); save it as PDF"),
    (0, b"\xFF\0\x02\0\x04\x04\x05\x54", "a Works spreadsheet; save it as PDF"),
    (128, b"DICM", "a DICOM picture; save it as JPEG, PNG or PDF"),
    (0, b"\x31\xBE\0\0", OLD_WORD),
    (0, b"\xDB\xA5", OLD_WORD),
];

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

/// Beginnings of the lines of a header, in lower case.
const HEADER_LINES: [&str; 6] =
    ["http/", "content-", "mime-version:", "from:", "received:", "return-path:"];

/// Returns the text for the first bytes of a file in which a PDF begins too late.
pub(super) fn before_pdf(start: &[u8]) -> Option<&'static str> {
    let at = start.windows(5).position(|bytes| bytes == b"%PDF-")?;
    let text = String::from_utf8_lossy(&start[..at]).to_lowercase();
    Some(match () {
        () if of_bytes(start) == Some(SIGNED) => SIGNED,
        () if text.lines().any(|line| HEADER_LINES.iter().any(|it| line.starts_with(it))) => {
            "a PDF behind an HTTP or MIME header; send what begins with %PDF"
        }
        () if text.contains(is_no_text) => "a PDF behind other bytes; send what begins with %PDF",
        () => "a PDF behind a text; send what begins with %PDF",
    })
}

/// Returns whether a text has no such character.
fn is_no_text(c: char) -> bool {
    c == char::REPLACEMENT_CHARACTER || (c.is_control() && !c.is_whitespace())
}

/// Returns the text for the first bytes of a file.
pub(super) fn of_start(start: &[u8]) -> Option<&'static str> {
    let text = decoded(start).to_lowercase();
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '"');
    // A character may be cut off.
    let whole = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
    if let Some((_, kind)) = TEXTS.into_iter().find(|(beginning, _)| text.starts_with(beginning)) {
        return Some(kind);
    }
    if text.starts_with('<') {
        let has = |names: &[&str]| names.iter().any(|name| text.contains(name));
        return Some(match () {
            // A flat OpenDocument file (ODF 1.3, part 3, section 3.1.2).
            () if has(&["<office:document"]) => OPEN_DOCUMENT,
            () if has(&["word.document", "/word/2003/", "w:worddocument", "pkg:package"]) => {
                "a Word document in XML; save it as .docx or PDF"
            }
            () if has(&["<svg"]) && !has(&["<html"]) => "SVG; save it as PNG or PDF",
            () if has(&HTML) => "HTML; save it as .docx or PDF",
            () => "XML; save it as .docx or PDF",
        });
    }
    if !whole.is_empty() && !whole.contains(is_no_text) {
        return Some("plain text; save it as .docx or PDF");
    }
    of_bytes(start)
}

fn of_bytes(start: &[u8]) -> Option<&'static str> {
    let begins = |at: usize, bytes| start.get(at..).is_some_and(|rest| rest.starts_with(bytes));
    BYTES.into_iter().find(|(at, bytes, _)| begins(*at, bytes)).map(|(_, _, kind)| kind)
}

/// Returns the text for a compound file with streams, or a ZIP file with parts, of these names.
pub(super) fn of_names(has: impl Fn(&str) -> bool) -> Option<&'static str> {
    NAMES.into_iter().find(|(name, _)| has(name)).map(|(_, kind)| kind)
}

/// Returns the text for a ZIP file whose first part names this type.
pub(super) fn of_mime_type(name: &str) -> Option<&'static str> {
    let name = name.trim().to_ascii_lowercase();
    MIME_TYPES.into_iter().find(|(type_, _)| name.starts_with(type_)).map(|(_, kind)| kind)
}

/// Returns the text for a ZIP file whose part `index.xml` begins so. Pages and Numbers '09 both have one.
pub(super) fn of_index(start: &str) -> Option<&'static str> {
    match () {
        () if start.contains("<sl:document") => Some(PAGES),
        () if start.contains("<ls:document") => Some(NUMBERS),
        () => None,
    }
}

/// Returns the text for a ZIP file that cannot be read. The name of its first part, and what is stored
/// in it, follow the header of 30 bytes (APPNOTE, section 4.3.7).
pub(super) fn of_damaged_zip(start: &[u8]) -> Option<&'static str> {
    let first = String::from_utf8_lossy(start.get(30..)?.get(..128.min(start.len() - 30))?);
    of_mime_type(first.strip_prefix("mimetype")?)
}

/// Decodes a text in the encoding that its byte order mark or its XML declaration names.
pub(super) fn decoded(bytes: &[u8]) -> Cow<'_, str> {
    let encoding = match bytes {
        [b'<', 0, ..] => UTF_16LE,
        [0, b'<', ..] => UTF_16BE,
        _ => declared(bytes).unwrap_or(UTF_8),
    };
    encoding.decode(bytes).0
}

fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let declaration = bytes.strip_prefix(b"<?xml")?.split(|byte| *byte == b'>').next()?;
    let (_, value) = str::from_utf8(declaration).ok()?.split_once("encoding")?;
    // A declaration in ASCII that names UTF-16 is wrong.
    Encoding::for_label(value.split(['"', '\'']).nth(1)?.as_bytes()).map(Encoding::output_encoding)
}
