use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
};

use zip::ZipArchive;

use super::*;

/// More than 32 bits can say.
const LARGE: u64 = (1 << 32) + 5;

fn file(name: &str, size: u64, crc32: u32) -> StoredFile<'_> {
    let modified = DateTime::from_date_and_time(2026, 11, 21, 12, 0, 58).unwrap();
    StoredFile { name, modified, size, crc32 }
}

/// Returns the CRC-32 of that many zeros.
fn crc32_of_zeros(size: u64) -> u32 {
    let block = crc32fast::hash(&vec![0; 1 << 16]);
    let mut crc32 = crc32fast::Hasher::new();
    for _ in 0..size >> 16 {
        crc32.combine(&crc32fast::Hasher::new_with_initial_len(block, 1 << 16));
    }
    crc32.update(&vec![0; within(size % (1 << 16))]);
    crc32.finalize()
}

/// Writes an archive of files of zeros, which take no space on disk.
fn write_sparse(path: &Path, pieces: &[Piece]) -> u64 {
    let mut archive = File::create(path).unwrap();
    for piece in pieces {
        archive.write_all(&piece.before).unwrap();
        let zeros = piece.file.as_ref().map_or(0, |(_, range)| range.end);
        archive.seek(SeekFrom::Current(zeros.cast_signed())).unwrap();
    }
    archive.stream_position().unwrap()
}

/// Writes an archive with files and offsets that need 64 bits.
fn write_large(path: &Path) {
    let crc32 = [3, LARGE, 7].map(crc32_of_zeros);
    let files =
        [file("a.pdf", 3, crc32[0]), file("合同.pdf", LARGE, crc32[1]), file("c.pdf", 7, crc32[2])];
    let pieces = pieces(&files);
    assert_eq!(write_sparse(path, &pieces), pieces.iter().map(Piece::length).sum::<u64>());
}

#[test]
fn files_and_offsets_beyond_4_gib_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zip");
    write_large(&path);
    let mut archive = ZipArchive::new(File::open(&path).unwrap()).unwrap();
    let mut content = Vec::new();
    archive.by_name("c.pdf").unwrap().read_to_end(&mut content).unwrap();
    assert_eq!((content, archive.by_name("合同.pdf").unwrap().size()), (vec![0; 7], LARGE));
}

#[test]
fn large_archive_differs_from_a_small_one_only_where_it_must() {
    let of = |size| {
        let pieces = pieces(&[file("a.pdf", size, 7), file("b.pdf", 1, 7)]);
        pieces.iter().map(|piece| piece.before.len()).collect::<Vec<_>>()
    };
    let (header, entry, end) = (30 + 5, 46 + 5, 22);
    assert_eq!(of(1), [header, header, 2 * entry + end]);
    let longest = u64::from(u32::MAX) - 1;
    let behind = (2 * header + 1) as u64;
    assert_eq!(of(longest - behind), [header, header, 2 * entry + end]);
    // The offset of the directory needs 64 bits; then that of the second file, too.
    let zip64_end = 56 + 20;
    assert_eq!(of(longest - behind + 1), [header, header, 2 * entry + zip64_end + end]);
    let offset = 4 + 8;
    let large = [header, header, 2 * entry + offset + zip64_end + end];
    assert_eq!(of(longest), large);
    let sizes = 4 + 16;
    let large = [header + sizes, header, 2 * entry + sizes + offset + zip64_end + end];
    assert_eq!(of(longest + 1), large);
}

#[test]
fn part_of_a_large_archive_begins_in_its_middle() {
    let pieces = pieces(&[file("a.pdf", LARGE, 7), file("b.pdf", LARGE, 7)]);
    let whole: u64 = pieces.iter().map(Piece::length).sum();
    assert_eq!(part(pieces.clone(), &(0..whole)), pieces);
    let start = pieces[0].length() + pieces[1].before.len() as u64;
    let [first, second] = &part(pieces.clone(), &(start + 9..whole))[..] else { panic!() };
    assert_eq!((&*first.before, &first.file), (&b""[..], &Some((1, 9..LARGE))));
    assert_eq!(second, &pieces[2]);
    assert_eq!(part(pieces.clone(), &(whole - 2..whole))[0].before, [0, 0][..]);
    assert_eq!(part(pieces, &(9..9)), []);
}

/// They need Python.
mod foreign {
    use std::process::Command;

    use test_servers::tools::python;

    use super::*;

    /// Prints name and size of each file: as a reader that begins with the directory finds them, and as one
    /// that cannot seek does. Both check the CRC-32.
    const READ: &str = r#"
import sys, zipfile
from stream_unzip import stream_unzip

with zipfile.ZipFile(sys.argv[1]) as archive:
    assert archive.testzip() is None
    print([(info.filename, info.file_size) for info in archive.infolist()])
with open(sys.argv[1], "rb") as archive:
    files = stream_unzip(iter(lambda: archive.read(1 << 20), b""), chunk_size=1 << 20)
    print([(name.decode(), sum(map(len, chunks))) for name, _, chunks in files])
"#;

    #[test]
    fn readers_find_files_and_offsets_beyond_4_gib() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip");
        write_large(&path);
        let read = Command::new(python()).args(["-c", READ]).arg(&path).output().unwrap();
        let found = format!("[('a.pdf', 3), ('合同.pdf', {LARGE}), ('c.pdf', 7)]\n");
        assert_eq!(String::from_utf8_lossy(&read.stdout), found.repeat(2), "{read:?}");
    }
}
