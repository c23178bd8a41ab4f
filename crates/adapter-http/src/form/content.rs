//! Checks whether the bytes of a document have the format that its name claims.
//!
//! A PDF, JPEG or PNG file is known by its first bytes. So an encrypted PDF is accepted: most of
//! them open without a password, and only forbid to print or change.

mod budgeted;
mod compound;
mod kinds;
mod package;

use std::{
    cell::Cell,
    fs::File,
    io::{self, Read, Seek},
    path::Path,
    rc::Rc,
};

use domain::document::{Content, DocumentFormat};

use self::{budgeted::Budgeted, compound::Compound};

/// Maximum bytes to read from a compound file. Word documents need a fraction of it; containers made
/// to exhaust memory are rejected early.
const COMPOUND_BUDGET: u64 = 1024 * 1024;

/// Maximum bytes before the header of a PDF, which readers search for in the first 1,024 bytes.
const MAX_BLANKS: usize = 1024;
/// Bytes that tell the format, or what else a file looks like.
const START: u64 = 2 * MAX_BLANKS as u64;

/// The header of a ZIP file's first part (APPNOTE, section 4.3.7).
const ZIP: &[u8] = b"PK\x03\x04";

/// Checks whether a file has the format that its name announces. Fails only if the file cannot be
/// read.
pub fn check(format: DocumentFormat, path: &Path) -> io::Result<Content> {
    check_bytes(format, File::open(path)?)
}

/// Checks whether the bytes of a reader have the format that their name announces.
pub fn check_bytes<R: Read + Seek>(format: DocumentFormat, mut file: R) -> io::Result<Content> {
    let mut start = Vec::new();
    file.by_ref().take(START).read_to_end(&mut start)?;
    let is_word = matches!(format, DocumentFormat::Doc | DocumentFormat::Docx);
    Ok(match content(format, &start, file) {
        Content::Format(found) if found != format => Content::Other(Some(kinds::of_format(found))),
        Content::Encrypted if !is_word => Content::Other(Some(kinds::ENCRYPTED)),
        found => found,
    })
}

/// Returns what a file is, from the format that its name announces, its first bytes and the file
/// itself.
fn content<R: Read + Seek>(format: DocumentFormat, start: &[u8], file: R) -> Content {
    let text = after_blanks(start);
    let blanks = start.len() - text.len();
    match start {
        _ if text.starts_with(b"%PDF-") && blanks <= MAX_BLANKS => {
            Content::Format(DocumentFormat::Pdf)
        }
        [0xFF, 0xD8, 0xFF, ..] => Content::Format(DocumentFormat::Jpeg),
        _ if start.starts_with(b"\x89PNG\r\n\x1A\n") => Content::Format(DocumentFormat::Png),
        _ if start.starts_with(compound::COMPOUND) => {
            compound_content(file).unwrap_or(Content::Other(None))
        }
        _ if start.starts_with(ZIP) => {
            package::content(file).unwrap_or_else(|_| Content::Other(kinds::of_damaged_zip(start)))
        }
        _ => {
            let pdf = if format == DocumentFormat::Pdf { kinds::before_pdf(start) } else { None };
            Content::Other(pdf.or_else(|| kinds::of_start(start)))
        }
    }
}

/// Returns what follows a byte order mark and ASCII white space.
fn after_blanks(mut bytes: &[u8]) -> &[u8] {
    loop {
        let rest = bytes.trim_ascii_start();
        let rest = rest.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(rest);
        if rest.len() == bytes.len() {
            return rest;
        }
        bytes = rest;
    }
}

/// Returns what a compound file holds.
///
/// - A Word document has a stream `WordDocument`. It starts with a file information block
///   ([MS-DOC], section 2.5.2), whose first bytes identify the program, and whose flag `fEncrypted`
///   says whether a password protects the document. Word 6 and Word 95 have both at the same place.
/// - A protected DOCX is a stream `EncryptedPackage` ([MS-OFFCRYPTO], sections 2.2.10 and 2.3.4). Under
///   rights management it has no `EncryptionInfo` beside it.
/// - A DOC under rights management has its content in a stream `\tDRMContent` (section 2.2.11).
///   Its `WordDocument` only says so.
fn compound_content<R: Read + Seek>(file: R) -> io::Result<Content> {
    const WORD_6_AND_95: u16 = 0xA5DC;
    const WORD_97_AND_LATER: u16 = 0xA5EC;
    const ENCRYPTED: u16 = 0x0100;
    const PROTECTED: [&str; 3] = ["EncryptedPackage", "\tDRMContent", "\tDRMViewerContent"];
    let left = Rc::new(Cell::new(COMPOUND_BUDGET));
    let mut compound = Compound::open(Budgeted { file, left })?;
    if PROTECTED.iter().any(|name| compound.find(name).is_some()) {
        return Ok(Content::Encrypted);
    }
    let Some(block) = compound.start_of::<12>("WordDocument")? else {
        // Works 2000 and later. Publisher has a stream of this name, too.
        let contents = compound.start_of::<7>("CONTENTS").ok().flatten();
        let is_works = contents.is_some_and(|start| [*b"CHNKINK", *b"CHNKWKS"].contains(&start));
        let named = || kinds::of_names(|name| compound.find(name).is_some());
        return Ok(Content::Other(if is_works { Some(kinds::WORKS) } else { named() }));
    };
    let identifier = u16::from_le_bytes([block[0], block[1]]);
    let flags = u16::from_le_bytes([block[10], block[11]]);
    Ok(match identifier {
        WORD_6_AND_95 | WORD_97_AND_LATER if flags & ENCRYPTED != 0 => Content::Encrypted,
        WORD_6_AND_95 | WORD_97_AND_LATER => Content::Format(DocumentFormat::Doc),
        _ => Content::Other(None),
    })
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;
