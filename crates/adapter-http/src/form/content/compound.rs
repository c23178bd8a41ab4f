//! Reads compound files ([MS-CFB]) as leniently as Word: only what leads to a stream must be right.

use std::io::{self, Read, Seek, SeekFrom};

/// The first bytes of a compound file (section 2.2).
pub(super) const COMPOUND: &[u8] = b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1";

/// The first number that is no sector (section 2.1).
const NO_SECTOR: u32 = 0xFFFF_FFFA;
/// FAT sectors that the header lists. The others are in a chain of their own (section 2.5).
const IN_HEADER: u32 = 109;
/// Bytes of a directory entry (section 2.6).
const ENTRY: usize = 128;

/// A compound file with the entries of its directory.
pub(super) struct Compound<R> {
    file: R,
    header: Vec<u8>,
    sector_bytes: u64,
    directory: Vec<u8>,
}

impl<R: Read + Seek> Compound<R> {
    pub(super) fn open(mut file: R) -> io::Result<Self> {
        let mut header = vec![0; 512];
        file.rewind()?;
        file.read_exact(&mut header)?;
        let shift = u32::from(header[0x1E]);
        if ![9, 12].contains(&shift) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut compound = Self { file, header, sector_bytes: 1 << shift, directory: Vec::new() };
        let (mut sector, mut chain) = (word(&compound.header, 0x30), Vec::new());
        // The chain may lead past the end, or back; and the last sector may be cut off.
        while sector < NO_SECTOR && !chain.contains(&sector) {
            compound.file.seek(SeekFrom::Start(compound.offset(sector)))?;
            let mut bytes = compound.file.by_ref().take(compound.sector_bytes);
            bytes.read_to_end(&mut compound.directory)?;
            chain.push(sector);
            sector = compound.next(sector).unwrap_or(NO_SECTOR);
        }
        compound.directory.resize(compound.directory.len().next_multiple_of(ENTRY), 0);
        Ok(compound)
    }

    /// Reads the first bytes of a stream in the root, of at most 64. Returns `None` if there is no such
    /// stream.
    pub(super) fn start_of<const N: usize>(&mut self, name: &str) -> io::Result<Option<[u8; N]>> {
        let Some(entry) = self.find(name) else { return Ok(None) };
        let (mut sector, size) = (word(entry, 0x74), word(entry, 0x78));
        let mut offset = 0;
        // Small streams are in blocks of 64 bytes in the stream of the root entry (section 2.4).
        if size < word(&self.header, 0x38) {
            offset = u64::from(sector) * 64;
            sector = word(&self.directory, 0x74);
            for _ in 0..offset / self.sector_bytes {
                sector = self.next(sector)?;
            }
        }
        let mut start = [0; N];
        self.read(self.offset(sector) + offset % self.sector_bytes, &mut start)?;
        Ok(Some(start))
    }

    /// Finds a stream in the root. Visits all entries of the root's tree, whose order may be wrong.
    pub(super) fn find(&self, name: &str) -> Option<&[u8]> {
        let entries: Vec<&[u8]> = self.directory.chunks_exact(ENTRY).collect();
        let mut seen = vec![false; entries.len()];
        let mut left = vec![word(entries.first()?, 0x4C)];
        while let Some(at) = left.pop().map(|at| at as usize) {
            let Some(entry) = entries.get(at) else { continue };
            if !std::mem::replace(&mut seen[at], true) {
                if entry[0x42] == 2 && name_of(entry).eq_ignore_ascii_case(name) {
                    return Some(entry);
                }
                left.extend([word(entry, 0x44), word(entry, 0x48)]);
            }
        }
        None
    }

    /// Returns the sector that follows another in its chain.
    fn next(&mut self, sector: u32) -> io::Result<u32> {
        let per_sector = u32::try_from(self.sector_bytes / 4).unwrap_or(u32::MAX);
        let table = sector / per_sector;
        let table = if table < IN_HEADER {
            word(&self.header, 0x4C + table as usize * 4)
        } else {
            // The last entry of a sector of the list leads to the next one.
            let (mut list, mut at) = (word(&self.header, 0x44), table - IN_HEADER);
            while at >= per_sector - 1 {
                list = self.entry(list, per_sector - 1)?;
                at -= per_sector - 1;
            }
            self.entry(list, at)?
        };
        self.entry(table, sector % per_sector)
    }

    /// Reads a number from a sector of numbers.
    fn entry(&mut self, sector: u32, at: u32) -> io::Result<u32> {
        let mut number = [0; 4];
        self.read(self.offset(sector) + u64::from(at) * 4, &mut number)?;
        Ok(u32::from_le_bytes(number))
    }

    fn offset(&self, sector: u32) -> u64 {
        (u64::from(sector) + 1) * self.sector_bytes
    }

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.read_exact(bytes)
    }
}

/// Returns a number of four bytes; the offsets are within the header or an entry.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(u32::MAX, u32::from_le_bytes)
}

fn name_of(entry: &[u8]) -> String {
    let units = entry[..0x40].chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    String::from_utf16_lossy(&units.take_while(|unit| *unit != 0).collect::<Vec<_>>())
}
