use std::{
    cell::Cell,
    io::{Cursor, Read, Result, Seek, SeekFrom},
};

use domain::document::DocumentFormat;
use memchr::memmem;

use crate::content;

const FORMATS: [DocumentFormat; 5] = [
    DocumentFormat::Pdf,
    DocumentFormat::Doc,
    DocumentFormat::Docx,
    DocumentFormat::Jpeg,
    DocumentFormat::Png,
];

/// Bytes that may be read of a document, whatever is in it: its beginning, its directory, and the
/// parts that are looked into.
const MOST_READ: u64 = 66 * 1024 * 1024;

/// Counts what is read.
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

/// Whether the bytes are of the format, after checking that a bounded part of them was read to know
/// it, and that they are of no other format then.
fn is(format: DocumentFormat, data: &[u8]) -> bool {
    let read = Cell::new(0);
    let is = content::is_of(format, Counted { bytes: Cursor::new(data), read: &read })
        .expect("bytes in memory can be read");
    assert!(read.get() <= MOST_READ, "{} bytes of {} were read", read.get(), data.len());
    if is {
        for other in FORMATS {
            assert_eq!(
                content::is_of(other, Cursor::new(data)).unwrap(),
                other == format,
                "{other:?}"
            );
        }
    }
    is
}

/// A PDF file has its header at the very start.
pub fn content_pdf(data: &[u8]) {
    assert_eq!(is(DocumentFormat::Pdf, data), data.starts_with(b"%PDF-"));
}

/// A PNG file has its signature at the very start.
pub fn content_png(data: &[u8]) {
    assert_eq!(is(DocumentFormat::Png, data), data.starts_with(b"\x89PNG\r\n\x1A\n"));
}

/// A JPEG file has the start of an image and of a marker at the very start.
pub fn content_jpeg(data: &[u8]) {
    assert_eq!(is(DocumentFormat::Jpeg, data), data.starts_with(b"\xFF\xD8\xFF"));
}

/// Whatever a compound file is said to be, one that is taken for a Word document names its stream
/// and has its identifier.
pub fn content_doc(data: &[u8]) {
    if is(DocumentFormat::Doc, data) {
        assert!(data.starts_with(b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"));
        assert!(
            memmem::find(&data.to_ascii_lowercase(), b"w\0o\0r\0d\0d\0o\0c\0u\0m\0e\0n\0t\0")
                .is_some()
        );
        assert!(memmem::find(data, &0xA5EC_u16.to_le_bytes()).is_some());
    }
}

/// Whatever a ZIP file is said to be, one that is taken for a Word document names the parts that
/// make one.
pub fn content_docx(data: &[u8]) {
    if is(DocumentFormat::Docx, data) {
        assert!(data.starts_with(b"PK\x03\x04"));
        assert!(
            memmem::find(data, b"[Content_Types].xml").is_some()
                && memmem::find(data, b"word/document").is_some()
        );
    }
}
