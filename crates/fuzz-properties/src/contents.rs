use std::{
    cell::Cell,
    io::{Cursor, Read, Result, Seek, SeekFrom},
};

use adapter_http::internals::check_bytes;
use domain::document::{Content, DocumentFormat};
use memchr::memmem;

const FORMATS: [DocumentFormat; 5] = [
    DocumentFormat::Pdf,
    DocumentFormat::Doc,
    DocumentFormat::Docx,
    DocumentFormat::Jpeg,
    DocumentFormat::Png,
];

/// Maximum bytes that the check of a document may read.
const MOST_READ: u64 = 66 * 1024 * 1024;

/// Counts the bytes that are read.
struct Counted<'a> {
    bytes: Cursor<&'a [u8]>,
    read: &'a Cell<u64>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.bytes.read(buffer)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

impl Seek for Counted<'_> {
    fn seek(&mut self, position: SeekFrom) -> Result<u64> {
        self.bytes.seek(position)
    }
}

/// Returns whether the bytes have the format. Checks that few of them were read, and that they have
/// no other format.
fn has_format(format: DocumentFormat, data: &[u8]) -> bool {
    let read = Cell::new(0);
    let content = check_bytes(format, Counted { bytes: Cursor::new(data), read: &read })
        .expect("bytes in memory can be read");
    let has_format = content == Content::Format(format);
    assert!(read.get() <= MOST_READ, "{} bytes of {} were read", read.get(), data.len());
    if has_format {
        for other in FORMATS {
            let content = check_bytes(other, Cursor::new(data)).unwrap();
            assert_eq!(content == Content::Format(other), other == format, "{other:?}");
        }
    }
    has_format
}

/// Asserts that a PDF file starts with its header, or has it behind byte order marks and blanks.
pub fn content_pdf(data: &[u8]) {
    let blanks = b" \t\r\n\x0C\xEF\xBB\xBF";
    let start = data.iter().take_while(|byte| blanks.contains(byte)).count();
    if has_format(DocumentFormat::Pdf, data) {
        assert!(start <= 1024 && data[start..].starts_with(b"%PDF-"));
    } else {
        assert!(!data.starts_with(b"%PDF-") && !data.starts_with(b"\n%PDF-"));
    }
}

/// Asserts that a PNG file starts with its signature.
pub fn content_png(data: &[u8]) {
    assert_eq!(has_format(DocumentFormat::Png, data), data.starts_with(b"\x89PNG\r\n\x1A\n"));
}

/// Asserts that a JPEG file starts with the start of an image and of a marker.
pub fn content_jpeg(data: &[u8]) {
    assert_eq!(has_format(DocumentFormat::Jpeg, data), data.starts_with(b"\xFF\xD8\xFF"));
}

/// Asserts that an accepted DOC file names the stream of a Word document and has its identifier.
pub fn content_doc(data: &[u8]) {
    if has_format(DocumentFormat::Doc, data) {
        assert!(data.starts_with(b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"));
        assert!(
            memmem::find(&data.to_ascii_lowercase(), b"w\0o\0r\0d\0d\0o\0c\0u\0m\0e\0n\0t\0")
                .is_some()
        );
        let identifiers = [0xA5DC_u16, 0xA5EC].map(u16::to_le_bytes);
        assert!(identifiers.iter().any(|bytes| memmem::find(data, bytes).is_some()));
    }
}

/// Asserts that an accepted DOCX file names the parts of a Word document.
pub fn content_docx(data: &[u8]) {
    if has_format(DocumentFormat::Docx, data) {
        assert!(data.starts_with(b"PK\x03\x04"));
        let name = "[content_types].xml";
        assert!(memmem::find(&data.to_ascii_lowercase(), name.as_bytes()).is_some());
    }
}
