//! Checks whether the bytes of a document have the format that its name claims.
//!
//! A PDF, JPEG or PNG file is known by its first bytes. So an encrypted PDF is accepted: most of
//! them open without a password, and only forbid to print or change.

use std::{
    cell::Cell,
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::Path,
    rc::Rc,
};

use domain::document::{Content, DocumentFormat};
use zip::ZipArchive;

/// Maximum bytes to read from the directory of a compound file. Word documents need a fraction of
/// it; containers made to exhaust memory are rejected early.
const COMPOUND_DIRECTORY_BUDGET: u64 = 1024 * 1024;
/// Maximum bytes to read from the directory of a ZIP file, which needs many times its size in
/// memory. This is enough for about five thousand parts.
const ZIP_DIRECTORY_BUDGET: u64 = 256 * 1024;
/// Maximum bytes to read from the parts of a container.
const CONTENT_BUDGET: u64 = 64 * 1024 * 1024;

/// Maximum inflated sizes of a DOCX's content types and of its main part.
const MAX_CONTENT_TYPES: u64 = 1024 * 1024;
const MAX_MAIN_PART: u64 = 64 * 1024 * 1024;

/// Maximum inflated size that all parts of a DOCX may declare; a larger one is a ZIP bomb.
const MAX_INFLATED: u64 = 512 * 1024 * 1024;
/// Maximum compression ratio of a part. Parts up to [`SMALL_PART`] are exempt, because they may be
/// blank bitmaps.
const MAX_RATIO: u64 = 200;
const SMALL_PART: u64 = 16 * 1024 * 1024;

/// Bytes that tell the format, or the kind of container.
const START: usize = 8;

/// The first bytes of a compound file ([MS-CFB], section 2.2).
const COMPOUND: &[u8] = b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1";
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
    file.by_ref().take(START as u64).read_to_end(&mut start)?;
    let is = |has_format: bool| if has_format { Content::Format(format) } else { Content::Other };
    Ok(match format {
        DocumentFormat::Pdf => is(start.starts_with(b"%PDF-")),
        DocumentFormat::Jpeg => is(start.starts_with(b"\xFF\xD8\xFF")),
        DocumentFormat::Png => is(start == b"\x89PNG\r\n\x1A\n"),
        // Word encrypts a DOCX as a stream of a compound file.
        DocumentFormat::Doc | DocumentFormat::Docx if start == COMPOUND => {
            match compound_content(file) {
                Ok(Content::Format(found)) => is(found == format),
                Ok(content) => content,
                Err(_) => Content::Other,
            }
        }
        DocumentFormat::Docx => {
            is(start.starts_with(ZIP) && is_word_package(file).unwrap_or(false))
        }
        DocumentFormat::Doc => Content::Other,
    })
}

/// Returns what a compound file holds.
///
/// - A Word document has a stream `WordDocument`. It starts with a file information block
///   ([MS-DOC], section 2.5.2), whose first bytes identify the program, and whose flag `fEncrypted`
///   says whether a password protects the document. Word 6 and Word 95 have both at the same place.
/// - An encrypted DOCX is a stream `EncryptedPackage` beside its `EncryptionInfo` ([MS-OFFCRYPTO],
///   section 2.3.4).
fn compound_content<R: Read + Seek>(file: R) -> io::Result<Content> {
    const WORD_6_AND_95: u16 = 0xA5DC;
    const WORD_97_AND_LATER: u16 = 0xA5EC;
    const ENCRYPTED: u16 = 0x0100;
    let (reader, budget) = Budgeted::new(file, COMPOUND_DIRECTORY_BUDGET);
    let mut compound = cfb::OpenOptions::new().max_buffer_size(4096).open_with(reader)?;
    budget.set(CONTENT_BUDGET);
    if ["/EncryptionInfo", "/EncryptedPackage"].iter().all(|name| compound.is_stream(name)) {
        return Ok(Content::Encrypted);
    }
    let mut block = [0; 12];
    compound.open_stream("/WordDocument")?.read_exact(&mut block)?;
    let identifier = u16::from_le_bytes([block[0], block[1]]);
    let flags = u16::from_le_bytes([block[10], block[11]]);
    Ok(match identifier {
        WORD_6_AND_95 | WORD_97_AND_LATER if flags & ENCRYPTED != 0 => Content::Encrypted,
        WORD_6_AND_95 | WORD_97_AND_LATER => Content::Format(DocumentFormat::Doc),
        _ => Content::Other,
    })
}

/// Returns whether a ZIP file is a Word document: its content types name a main part (ECMA-376,
/// part 1, section 11.3.10), and the part exists.
fn is_word_package<R: Read + Seek>(file: R) -> io::Result<bool> {
    const MAIN: &str =
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml";
    let (reader, budget) = Budgeted::new(file, ZIP_DIRECTORY_BUDGET);
    let mut archive = ZipArchive::new(BufReader::new(reader))?;
    budget.set(CONTENT_BUDGET);

    let (mut inflated, mut main_part) = (0_u64, None);
    for index in 0..archive.len() {
        let part = archive.by_index_raw(index)?;
        inflated = inflated.saturating_add(part.size());
        // Word documents have no links, and a link could lead an unpacking program elsewhere.
        if part.is_symlink()
            || inflated > MAX_INFLATED
            || (part.size() > SMALL_PART && part.size() / part.compressed_size().max(1) > MAX_RATIO)
        {
            return Ok(false);
        }
        let name = part.name()?;
        if name.starts_with("word/document") && name.ends_with(".xml") {
            main_part = Some(index);
        }
    }
    let Some(main_part) = main_part else { return Ok(false) };

    let mut content_types = String::new();
    archive
        .by_name("[Content_Types].xml")?
        .take(MAX_CONTENT_TYPES)
        .read_to_string(&mut content_types)?;
    // Declared sizes may be false, so the main part is inflated up to its limit.
    let length =
        io::copy(&mut archive.by_index(main_part)?.take(MAX_MAIN_PART + 1), &mut io::sink())?;
    Ok(content_types.contains(MAIN) && (1..=MAX_MAIN_PART).contains(&length))
}

/// Fails when more bytes are read than its budget, in whatever order.
struct Budgeted<R> {
    file: R,
    left: Rc<Cell<u64>>,
}

impl<R> Budgeted<R> {
    fn new(file: R, budget: u64) -> (Self, Rc<Cell<u64>>) {
        let left = Rc::new(Cell::new(budget));
        (Self { file, left: Rc::clone(&left) }, left)
    }
}

impl<R: Read> Read for Budgeted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.left.get()).unwrap_or(usize::MAX);
        if left == 0 {
            return Err(io::Error::other("the document needs more reads than its format allows"));
        }
        let most = left.min(buffer.len());
        let count = self.file.read(&mut buffer[..most])?;
        self.left.set(self.left.get() - count as u64);
        Ok(count)
    }
}

impl<R: Seek> Seek for Budgeted<R> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;
