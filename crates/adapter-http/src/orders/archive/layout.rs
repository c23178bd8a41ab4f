//! The bytes of a ZIP archive around its files (PKWARE APPNOTE 6.3.10).
//!
//! Every file is stored, and its size and CRC-32 stand before it: a reader that cannot seek knows where it
//! ends. The writer of `zip` has these after a file that it does not hold in memory, and cannot begin in the
//! middle of an archive.

use std::ops::Range;

use bytes::Bytes;
use domain::document::MAX_DOCUMENTS_PER_ORDER;
use zip::DateTime;

/// The version of the format that a reader needs.
const PLAIN: u16 = 20;
/// The same for 64-bit sizes and offsets.
const ZIP64: u16 = 45;

/// The system in which the attributes have their meaning: Unix.
const MADE_BY: u16 = 3 << 8 | ZIP64;
/// A regular file that others may read.
const ATTRIBUTES: u32 = 0o100_644 << 16;

/// The header of an extra field of ZIP64.
const ZIP64_FIELD: u16 = 1;

/// Flag: the name is UTF-8.
const UTF8: u16 = 1 << 11;

/// A value of 32 bits that stands in the extra field of ZIP64, or in its end of the archive.
const ELSEWHERE: u32 = u32::MAX;

// The end of an archive has 16 bits for their number.
const _: () = assert!(MAX_DOCUMENTS_PER_ORDER < 0xffff);

/// A file of an archive.
pub(super) struct StoredFile<'a> {
    pub(super) name: &'a str,
    pub(super) modified: DateTime,
    /// Its size in bytes.
    pub(super) size: u64,
    pub(super) crc32: u32,
}

/// A piece of an archive: bytes, and what follows of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) before: Bytes,
    /// The position of the file, and the range of its bytes; `None` at the end of the archive.
    pub(super) file: Option<(usize, Range<u64>)>,
}

impl Piece {
    /// Returns the number of bytes.
    pub(super) fn length(&self) -> u64 {
        let file = self.file.as_ref().map_or(0, |(_, range)| range.end.saturating_sub(range.start));
        file.saturating_add(self.before.len() as u64)
    }
}

/// Returns the archive of these files.
pub(super) fn pieces(files: &[StoredFile<'_>]) -> Vec<Piece> {
    let (mut pieces, mut directory, mut offset) = (Vec::new(), Record::default(), 0);
    for (position, file) in files.iter().enumerate() {
        let piece = Piece { before: local_header(file), file: Some((position, 0..file.size)) };
        directory.add_entry(file, offset);
        offset = offset.saturating_add(piece.length());
        pieces.push(piece);
    }
    directory.add_end(files.len() as u64, offset);
    pieces.push(Piece { before: directory.0.into(), file: None });
    pieces
}

/// Returns the part of an archive that has these bytes.
pub(super) fn part(pieces: Vec<Piece>, part: &Range<u64>) -> Vec<Piece> {
    let mut start = 0_u64;
    let mut parts = Vec::new();
    for Piece { before, file } in pieces {
        // What the part has of the next `length` bytes.
        let mut next = |length: u64| {
            let end = start.saturating_add(length);
            let of_part = |at: u64| at.clamp(start, end).saturating_sub(start);
            let range = of_part(part.start)..of_part(part.end);
            start = end;
            range
        };
        let Range { start: first, end } = next(before.len() as u64);
        let before = before.slice(within(first)..within(end));
        let file = file.map(|(position, range)| (position, next(range.end)));
        let file = file.filter(|(_, range)| !range.is_empty());
        if !before.is_empty() || file.is_some() {
            parts.push(Piece { before, file });
        }
    }
    parts
}

/// Returns an offset in bytes that are in memory.
fn within(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// Bytes of an archive. Numbers are little-endian.
#[derive(Default)]
struct Record(Vec<u8>);

impl Record {
    fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Adds what the header of a file and its entry in the directory share (sections 4.3.7 and 4.3.12), up to
    /// the length of the extra field.
    fn common(&mut self, file: &StoredFile<'_>, extra: &Extra) -> &mut Self {
        let StoredFile { name, modified, size, crc32 } = file;
        let stored = 0;
        self.u16(extra.version())
            .u16(if name.is_ascii() { 0 } else { UTF8 })
            .u16(stored)
            .u16(modified.timepart())
            .u16(modified.datepart())
            .u32(*crc32)
            // The sizes of the stored and of the original bytes.
            .u32(short(*size))
            .u32(short(*size))
            .u16(length(name.as_bytes()))
            .u16(length(&extra.field()))
    }

    /// Adds the entry of a file in the directory (section 4.3.12).
    fn add_entry(&mut self, file: &StoredFile<'_>, offset: u64) {
        let mut extra = Extra::of_sizes(file);
        extra.add(offset);
        self.bytes(b"PK\x01\x02").u16(MADE_BY).common(file, &extra);
        let (comment, disk, kind) = (0, 0, 0);
        self.u16(comment).u16(disk).u16(kind).u32(ATTRIBUTES).u32(short(offset));
        self.bytes(file.name.as_bytes()).bytes(&extra.field());
    }

    /// Adds the end of the archive (sections 4.3.14 to 4.3.16) to its directory, which begins at `offset`.
    fn add_end(&mut self, files: u64, offset: u64) {
        let size = self.0.len() as u64;
        let (disk, disks) = (0, 1);
        if short(offset) == ELSEWHERE {
            // The size of the record after this number.
            self.bytes(b"PK\x06\x06").u64(44).u16(MADE_BY).u16(ZIP64).u32(disk).u32(disk);
            self.u64(files).u64(files).u64(size).u64(offset);
            self.bytes(b"PK\x06\x07").u32(disk).u64(offset.saturating_add(size)).u32(disks);
        }
        let (disk, comment) = (0, 0);
        let files = u16::try_from(files).unwrap_or(u16::MAX);
        self.bytes(b"PK\x05\x06").u16(disk).u16(disk).u16(files).u16(files);
        self.u32(short(size)).u32(short(offset)).u16(comment);
    }
}

/// Returns the header before a file (section 4.3.7).
fn local_header(file: &StoredFile<'_>) -> Bytes {
    let extra = Extra::of_sizes(file);
    let mut header = Record::default();
    header.bytes(b"PK\x03\x04").common(file, &extra);
    header.bytes(file.name.as_bytes()).bytes(&extra.field());
    header.0.into()
}

/// Returns the 32 bits of a size or an offset.
fn short(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(ELSEWHERE)
}

/// Returns the length of a name or an extra field. Names of documents have at most some hundred bytes.
fn length(bytes: &[u8]) -> u16 {
    u16::try_from(bytes.len()).unwrap_or(u16::MAX)
}

/// The values that do not fit in 32 bits, which stand in an extra field of ZIP64 (section 4.5.3).
struct Extra(Vec<u64>);

impl Extra {
    fn of_sizes(file: &StoredFile<'_>) -> Self {
        let mut extra = Self(Vec::new());
        extra.add(file.size);
        extra.add(file.size);
        extra
    }

    fn add(&mut self, value: u64) {
        if short(value) == ELSEWHERE {
            self.0.push(value);
        }
    }

    /// Returns the version of the format that a reader needs.
    fn version(&self) -> u16 {
        if self.0.is_empty() { PLAIN } else { ZIP64 }
    }

    /// Returns the field; nothing if it has no value.
    fn field(&self) -> Vec<u8> {
        let mut field = Record::default();
        if !self.0.is_empty() {
            let values: Vec<u8> = self.0.iter().flat_map(|value| value.to_le_bytes()).collect();
            field.u16(ZIP64_FIELD).u16(length(&values)).bytes(&values);
        }
        field.0
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
