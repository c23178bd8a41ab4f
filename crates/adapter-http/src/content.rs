//! Checks whether the bytes of a document have the format that its name claims.

use std::{
    cell::Cell,
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::Path,
    rc::Rc,
};

use domain::document::DocumentFormat;
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

/// Returns whether a file has this format. Fails only if the file cannot be read.
pub fn is(format: DocumentFormat, path: &Path) -> io::Result<bool> {
    is_of(format, File::open(path)?)
}

/// Returns whether the bytes of a reader have this format.
pub fn is_of<R: Read + Seek>(format: DocumentFormat, mut file: R) -> io::Result<bool> {
    let signature = signature(format);
    let mut start = Vec::new();
    file.by_ref().take(signature.len() as u64).read_to_end(&mut start)?;
    Ok(start == signature
        && match format {
            DocumentFormat::Pdf | DocumentFormat::Jpeg | DocumentFormat::Png => true,
            DocumentFormat::Doc => is_word_compound_file(file).unwrap_or(false),
            DocumentFormat::Docx => is_word_package(file).unwrap_or(false),
        })
}

/// Returns the first bytes of every file of a format.
fn signature(format: DocumentFormat) -> &'static [u8] {
    match format {
        DocumentFormat::Pdf => b"%PDF-",
        DocumentFormat::Jpeg => b"\xFF\xD8\xFF",
        DocumentFormat::Png => b"\x89PNG\r\n\x1A\n",
        // A compound file ([MS-CFB], section 2.2).
        DocumentFormat::Doc => b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1",
        // The header of a ZIP file's first part (APPNOTE, section 4.3.7).
        DocumentFormat::Docx => b"PK\x03\x04",
    }
}

/// Returns whether a compound file holds a Word document: a stream `WordDocument` that starts with
/// the identifier of a file information block ([MS-DOC], section 2.5.2).
fn is_word_compound_file<R: Read + Seek>(file: R) -> io::Result<bool> {
    let (reader, budget) = Budgeted::new(file, COMPOUND_DIRECTORY_BUDGET);
    let mut compound = cfb::OpenOptions::new().max_buffer_size(4096).open_with(reader)?;
    budget.set(CONTENT_BUDGET);
    let mut identifier = [0; 2];
    compound.open_stream("/WordDocument")?.read_exact(&mut identifier)?;
    Ok(u16::from_le_bytes(identifier) == 0xA5EC)
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
