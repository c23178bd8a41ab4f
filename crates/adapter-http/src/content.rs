//! What the bytes of a document are, whatever its name and its part's `Content-Type` claim.

use std::{
    cell::Cell,
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::Path,
    rc::Rc,
};

use domain::document::DocumentFormat;
use zip::ZipArchive;

/// Bytes that may be read to find one's way in a container: a Word document needs a fraction, and a
/// container made to cost memory is refused before it does.
const COMPOUND_DIRECTORY_BUDGET: u64 = 1024 * 1024;
/// A ZIP file's directory takes many times its size in memory; this much has some five thousand
/// parts.
const ZIP_DIRECTORY_BUDGET: u64 = 256 * 1024;
/// Bytes that may be read afterwards, of a document's parts; each part costs a block at least.
const CONTENT_BUDGET: u64 = 64 * 1024 * 1024;

/// Inflated bytes of a DOCX's list of content types, and of its main part.
const MAX_CONTENT_TYPES: u64 = 1024 * 1024;
const MAX_MAIN_PART: u64 = 64 * 1024 * 1024;

/// A DOCX whose parts say that they inflate to more than this, all together, is a bomb.
const MAX_INFLATED: u64 = 512 * 1024 * 1024;
/// So is one with a part of over 16 MiB that inflates by more than this factor; smaller ones may be
/// blank bitmaps.
const MAX_RATIO: u64 = 200;
const SMALL_PART: u64 = 16 * 1024 * 1024;

/// Whether a file is of this format. An error is one of reading the file, not of its content.
pub fn is(format: DocumentFormat, path: &Path) -> io::Result<bool> {
    is_of(format, File::open(path)?)
}

/// Whether what a reader gives is of this format.
pub(crate) fn is_of<R: Read + Seek>(format: DocumentFormat, mut file: R) -> io::Result<bool> {
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

/// The bytes that every file of a format begins with. Nothing else that it holds makes it another.
fn signature(format: DocumentFormat) -> &'static [u8] {
    match format {
        DocumentFormat::Pdf => b"%PDF-",
        DocumentFormat::Jpeg => b"\xFF\xD8\xFF",
        DocumentFormat::Png => b"\x89PNG\r\n\x1A\n",
        // A compound file ([MS-CFB] section 2.2).
        DocumentFormat::Doc => b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1",
        // A ZIP file that is not empty, whose first part has its header here (APPNOTE section
        // 4.3.7).
        DocumentFormat::Docx => b"PK\x03\x04",
    }
}

/// Whether a compound file holds a Word document: the stream `WordDocument`, which begins with the
/// identifier of a file information block ([MS-DOC] section 2.5.2).
fn is_word_compound_file<R: Read + Seek>(file: R) -> io::Result<bool> {
    let (reader, budget) = Budgeted::new(file, COMPOUND_DIRECTORY_BUDGET);
    let mut compound = cfb::OpenOptions::new().max_buffer_size(4096).open_with(reader)?;
    budget.set(CONTENT_BUDGET);
    let mut identifier = [0; 2];
    compound.open_stream("/WordDocument")?.read_exact(&mut identifier)?;
    Ok(u16::from_le_bytes(identifier) == 0xA5EC)
}

/// Whether a ZIP file is a Word document: its content types name one (ECMA-376 part 1 section
/// 11.3.10), and it is there.
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
        // No Word document has a link; whoever unpacks one may be led elsewhere by it.
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
    // What the parts say of their size may be a lie: the main part is inflated, as far as the cap.
    let length =
        io::copy(&mut archive.by_index(main_part)?.take(MAX_MAIN_PART + 1), &mut io::sink())?;
    Ok(content_types.contains(MAIN) && (1..=MAX_MAIN_PART).contains(&length))
}

/// Reads no more than its budget, whoever seeks where.
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
            return Err(io::Error::other("more to read than a document of this kind needs"));
        }
        let room = left.min(buffer.len());
        let count = self.file.read(&mut buffer[..room])?;
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
