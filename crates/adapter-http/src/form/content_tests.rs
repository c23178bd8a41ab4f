use std::io::{Cursor, Write as _};

use contract_tests::documents;
use proptest::prelude::*;
use zip::{ZipWriter, write::SimpleFileOptions};

use super::*;

const FORMATS: [DocumentFormat; 5] = [
    DocumentFormat::Pdf,
    DocumentFormat::Doc,
    DocumentFormat::Docx,
    DocumentFormat::Jpeg,
    DocumentFormat::Png,
];

fn formats_of(bytes: &[u8]) -> Vec<DocumentFormat> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    FORMATS
        .into_iter()
        .filter(|format| check(*format, file.path()).unwrap() == Content::Format(*format))
        .collect()
}

#[test]
fn genuine_documents_have_exactly_one_format() {
    for (name, format) in [
        ("deed-of-trust.pdf", DocumentFormat::Pdf),
        ("closing-disclosure.doc", DocumentFormat::Doc),
        ("signing-instructions.docx", DocumentFormat::Docx),
        ("signing-instructions-python-docx.docx", DocumentFormat::Docx),
        ("driver-license.jpg", DocumentFormat::Jpeg),
        ("driver-license-scan.jpeg", DocumentFormat::Jpeg),
        ("signature-page.png", DocumentFormat::Png),
    ] {
        assert_eq!(formats_of(&documents::bytes(name)), [format], "{name}");
    }
}

#[test]
fn other_containers_are_not_word_documents() {
    for name in ["fee-sheet.xls", "fee-sheet.xlsx", "plain.zip"] {
        assert_eq!(formats_of(&documents::bytes(name)), [], "{name}");
    }
}

#[test]
fn truncated_and_disguised_files_have_no_format() {
    let cut = |name: &str, length: usize| documents::bytes(name)[..length].to_vec();
    for bytes in [
        vec![],
        b"%PD".to_vec(),
        b"<html>%PDF-1.7".to_vec(),
        b"\x89PNG".to_vec(),
        b"\xFF\xD8".to_vec(),
        b"PK\x03\x04".to_vec(),
        cut("closing-disclosure.doc", 600),
        cut("signing-instructions.docx", 4_000),
        b"MZ this is a program".to_vec(),
    ] {
        assert_eq!(
            formats_of(&bytes),
            [],
            "{:?}",
            String::from_utf8_lossy(&bytes[..bytes.len().min(20)])
        );
    }
}

#[test]
fn later_signatures_of_other_formats_are_ignored() {
    for (start, format) in [
        (&b"%PDF-1.7\n%\xE2\xE3\xCF\xD3\n"[..], DocumentFormat::Pdf),
        (b"\xFF\xD8\xFF\xE0\0\x10JFIF\0\x01\x01\0\0", DocumentFormat::Jpeg),
    ] {
        let mut bytes = vec![b' '; 512];
        bytes[..start.len()].copy_from_slice(start);
        bytes[16..23].copy_from_slice(b"ftypjp2");
        bytes[257..262].copy_from_slice(b"ustar");
        assert_eq!(formats_of(&bytes), [format]);
    }
}

const CONTENT_TYPES: &[u8] = b"<Types><Override PartName=\"/word/document.xml\" ContentType=\
    \"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml\"/></Types>";

fn package(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn docx_needs_content_type_and_main_part() {
    let part: (&str, &[u8]) = ("word/document.xml", b"<w:document/>");
    assert_eq!(
        formats_of(&package(&[("[Content_Types].xml", CONTENT_TYPES), part])),
        [DocumentFormat::Docx]
    );
    assert_eq!(formats_of(&package(&[part])), []);
    assert_eq!(formats_of(&package(&[("[Content_Types].xml", CONTENT_TYPES)])), []);
    assert_eq!(formats_of(&package(&[("[Content_Types].xml", b"<Types/>"), part])), []);
    assert_eq!(
        formats_of(&package(&[("[Content_Types].xml", CONTENT_TYPES), ("word/document.xml", b"")])),
        []
    );
}

#[test]
fn docx_with_symbolic_link_is_rejected() {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in [("[Content_Types].xml", CONTENT_TYPES), ("word/document.xml", BODY)] {
        writer.start_file(name, SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    writer
        .add_symlink("word/media/image1.png", "/etc/passwd", SimpleFileOptions::default())
        .unwrap();
    assert_eq!(formats_of(&writer.finish().unwrap().into_inner()), []);
}

const BODY: &[u8] = b"<w:document/>";

#[test]
fn zip_bombs_are_rejected() {
    let zeros = vec![0; 80 * 1024 * 1024];
    let types = [CONTENT_TYPES, &zeros].concat();
    for parts in [
        [
            ("[Content_Types].xml", CONTENT_TYPES),
            ("word/document.xml", &zeros[..]),
            ("word/media/image1.bmp", b"BM"),
        ],
        [
            ("[Content_Types].xml", CONTENT_TYPES),
            ("word/document.xml", BODY),
            ("word/media/image1.bmp", &zeros),
        ],
        [
            ("[Content_Types].xml", &types),
            ("word/document.xml", BODY),
            ("word/media/image1.bmp", b"BM"),
        ],
    ] {
        let package = package(&parts);
        assert!(package.len() < 200 * 1024);
        assert_eq!(formats_of(&package), []);
    }
}

#[test]
fn blank_bitmap_is_not_a_zip_bomb() {
    let blank = vec![0; 4 * 1024 * 1024];
    let package = package(&[
        ("[Content_Types].xml", CONTENT_TYPES),
        ("word/document.xml", BODY),
        ("word/media/image1.bmp", &blank),
    ]);
    assert_eq!(formats_of(&package), [DocumentFormat::Docx]);
}

/// Builds a compound file: a `WordDocument` of this size, and further storages with a stream each.
fn compound_file(size: usize, storages: usize) -> Vec<u8> {
    let mut compound = cfb::CompoundFile::create(Cursor::new(Vec::new())).unwrap();
    let mut content = vec![0; size];
    content[..2].copy_from_slice(&0xA5EC_u16.to_le_bytes());
    compound.create_stream("/WordDocument").unwrap().write_all(&content).unwrap();
    for at in 0..storages {
        compound.create_storage(format!("/object{at}")).unwrap();
        compound
            .create_stream(format!("/object{at}/Contents"))
            .unwrap()
            .write_all(&[1; 5_000])
            .unwrap();
    }
    compound.into_inner().into_inner()
}

/// Returns the genuine DOC with another identifier and other flags in its file information block.
fn doc_with(identifier: u16, flags: u16) -> Vec<u8> {
    let bytes = Cursor::new(documents::bytes("closing-disclosure.doc"));
    let mut compound = cfb::CompoundFile::open(bytes).unwrap();
    let mut stream = compound.open_stream("/WordDocument").unwrap();
    let mut block = [0; 12];
    stream.read_exact(&mut block).unwrap();
    block[..2].copy_from_slice(&identifier.to_le_bytes());
    let genuine = u16::from_le_bytes([block[10], block[11]]);
    block[10..].copy_from_slice(&(genuine | flags).to_le_bytes());
    stream.rewind().unwrap();
    stream.write_all(&block).unwrap();
    drop(stream);
    compound.into_inner().into_inner()
}

/// Word 6 and Word 95 write `0xA5DC`.
#[test]
fn doc_of_word_6_is_accepted() {
    assert_eq!(formats_of(&doc_with(0xA5DC, 0)), [DocumentFormat::Doc]);
    assert_eq!(formats_of(&doc_with(0xA5DB, 0)), []);
}

#[test]
fn encrypted_word_documents_are_recognized() {
    const ENCRYPTED: u16 = 0x0100;
    // Obfuscated by XOR.
    const OBFUSCATED: u16 = 0x8100;
    let package = documents::bytes("signing-instructions-encrypted.docx");
    for (format, bytes) in [
        (DocumentFormat::Docx, package.clone()),
        (DocumentFormat::Doc, package.clone()),
        (DocumentFormat::Doc, doc_with(0xA5EC, ENCRYPTED)),
        (DocumentFormat::Doc, doc_with(0xA5EC, OBFUSCATED)),
        (DocumentFormat::Doc, doc_with(0xA5DC, ENCRYPTED)),
    ] {
        assert_eq!(check_bytes(format, Cursor::new(bytes)).unwrap(), Content::Encrypted);
    }
    for format in [DocumentFormat::Pdf, DocumentFormat::Jpeg, DocumentFormat::Png] {
        assert_eq!(check_bytes(format, Cursor::new(&package)).unwrap(), Content::Other);
    }
}

#[test]
fn large_doc_with_many_objects_is_accepted() {
    for (size, storages) in [(4_096, 0), (1_000_000, 0), (10_000_000, 0), (2_000_000, 300)] {
        assert_eq!(
            formats_of(&compound_file(size, storages)),
            [DocumentFormat::Doc],
            "{size} bytes, {storages} storages"
        );
    }
}

#[test]
fn zip_with_forty_thousand_parts_is_rejected() {
    let names: Vec<String> = (0..40_000).map(|at| format!("word/{at}.xml")).collect();
    let mut parts: Vec<(&str, &[u8])> =
        vec![("[Content_Types].xml", CONTENT_TYPES), ("word/document.xml", BODY)];
    parts.extend(names.iter().map(|name| (name.as_str(), &b""[..])));
    assert_eq!(formats_of(&package(&parts)), []);
}

#[test]
fn zip_bomb_with_false_size_is_rejected() {
    let zeros = vec![0; 70 * 1024 * 1024];
    let mut bytes =
        package(&[("[Content_Types].xml", CONTENT_TYPES), ("word/document.xml", &zeros)]);
    let size = u32::try_from(zeros.len()).unwrap().to_le_bytes();
    // Replaces the size in the local header and in the directory by a small one.
    for at in 0..bytes.len() - 4 {
        if bytes[at..at + 4] == size {
            bytes[at..at + 4].copy_from_slice(&500_000_u32.to_le_bytes());
        }
    }
    assert_eq!(formats_of(&bytes), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damaged_containers_do_not_panic(
        name in prop::sample::select(vec!["closing-disclosure.doc", "signing-instructions.docx"]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = documents::bytes(name);
        for (at, byte) in damage {
            *at.get_mut(&mut bytes) = byte;
        }
        bytes.truncate(bytes.len() - cut.index(bytes.len()) / 4);
        prop_assert!(formats_of(&bytes).len() <= 1);
    }
}
