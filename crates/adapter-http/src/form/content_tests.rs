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

/// Returns what the check says is wrong with a file of this format.
fn kind_of(format: DocumentFormat, bytes: &[u8]) -> Option<&'static str> {
    match check_bytes(format, Cursor::new(bytes)).unwrap() {
        Content::Other(kind) => kind,
        other => panic!("{other:?}"),
    }
}

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
fn pdf_may_stand_behind_a_byte_order_mark_and_blanks() {
    let pdf = documents::bytes("deed-of-trust.pdf");
    let after = |before: &[u8]| formats_of(&[before, &pdf].concat());
    for before in [
        &b"\n"[..],
        b"\r\n\r\n \t\x0C",
        b"\xEF\xBB\xBF",
        b"\xEF\xBB\xBF\r\n",
        b"\n\xEF\xBB\xBF",
        &[b' '; 1024],
    ] {
        assert_eq!(after(before), [DocumentFormat::Pdf], "{before:?}");
    }
    for before in [&[b' '; 1025][..], b"\0", b"x", b"\xEF\xBB", b"\n%\n", b"<html>\n"] {
        assert_eq!(after(before), [], "{before:?}");
    }
}

#[test]
fn rejected_file_is_named_with_what_to_do() {
    use DocumentFormat::{Doc, Docx, Jpeg, Pdf, Png};
    let named = documents::bytes;
    let of_brand = |brand: &[u8]| [b"\0\0\0\x18ftyp", brand, b"\0\0\0\0mif1heic"].concat();
    let heic = of_brand(b"heic");
    let word_2003 =
        b"<?xml version=\"1.0\"?>\n<?mso-application progid=\"Word.Document\"?>".to_vec();
    let page = b"\xEF\xBB\xBF\r\n<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.0//EN\">".to_vec();
    for (format, bytes, kind) in [
        (Doc, b"{\\rtf1\\ansi Deed}".to_vec(), "RTF; save it as .docx or PDF"),
        (Doc, b"<html xmlns:o=\"urn:x\">".to_vec(), "HTML; save it as .docx or PDF"),
        (Doc, page, "HTML; save it as .docx or PDF"),
        (Doc, b"\xFF\xFE<\0h\0t\0m\0l\0>\0".to_vec(), "HTML; save it as .docx or PDF"),
        (Doc, word_2003, "a Word document in XML; save it as .docx or PDF"),
        (Doc, b"MIME-Version: 1.0\r\n".to_vec(), "a web page (MHTML); save it as .docx or PDF"),
        (
            Doc,
            b"From: <Saved by Blink>\r\nMIME-Version: 1.0".to_vec(),
            "a web page (MHTML); save it as .docx or PDF",
        ),
        (Pdf, b"Received: from mx by mail".to_vec(), "an e-mail; save it as PDF"),
        (Doc, b"<!-- saved -->\r\n<meta charset=utf-8>".to_vec(), "HTML; save it as .docx or PDF"),
        (Pdf, b"<p>Not found</p>".to_vec(), "HTML; save it as .docx or PDF"),
        (Pdf, b"<?xml version=\"1.0\"?><Error/>".to_vec(), "XML; save it as .docx or PDF"),
        (Png, b"<?xml version=\"1.0\"?><svg/>".to_vec(), "SVG; save it as PNG or PDF"),
        (
            Pdf,
            b"{\"error\":\"gone\"}".to_vec(),
            "JSON, perhaps an error message; send the document itself",
        ),
        (Pdf, b"\"JVBERi0xLjcK\"".to_vec(), "Base64; send the bytes of the document"),
        (Jpeg, b"/9j/4AAQSkZJRg".to_vec(), "Base64; send the bytes of the document"),
        (Docx, b"UEsDBBQABgAI".to_vec(), "Base64; send the bytes of the document"),
        (
            Pdf,
            b"data:application/pdf;base64,JVBERi0".to_vec(),
            "Base64; send the bytes of the document",
        ),
        (Pdf, b"BMW of North America".to_vec(), "plain text; save it as .docx or PDF"),
        (Doc, b"\xFF\xFED\0e\0e\0d\0".to_vec(), "plain text; save it as .docx or PDF"),
        (Doc, "Gr\u{fc}\u{df}e".as_bytes()[..6].to_vec(), "plain text; save it as .docx or PDF"),
        (Png, b"BM\x46\0\0\0\0\0\0\0".to_vec(), "BMP; save it as JPEG, PNG or PDF"),
        (Jpeg, of_brand(b"MiHE"), "HEIC; save it as JPEG, PNG or PDF"),
        (Jpeg, of_brand(b"mif2"), "HEIC; save it as JPEG, PNG or PDF"),
        (Jpeg, of_brand(b"crx "), "a raw picture of a camera; save it as JPEG, PNG or PDF"),
        (Jpeg, of_brand(b"M4A "), "a video or sound; send pictures as JPEG or PNG"),
        (Jpeg, b"\xFF\x0A\0\0".to_vec(), "JPEG XL; save it as JPEG, PNG or PDF"),
        (Jpeg, b"\0\0\0\x0CjP  \r\n\x87\n".to_vec(), "JPEG 2000; save it as JPEG, PNG or PDF"),
        (Pdf, b"\x1F\x8B\x08\0".to_vec(), "a gzip file; send the document in it"),
        (Pdf, b"Rar!\x1A\x07\0".to_vec(), "a RAR file; send the documents in it"),
        (Docx, b"7z\xBC\xAF\x27\x1C".to_vec(), "a 7z file; send the documents in it"),
        (
            Doc,
            b"\xDB\xA5\x2D\0".to_vec(),
            "a document of Word 5 or earlier; save it as .docx or PDF",
        ),
        (Jpeg, heic, "HEIC; save it as JPEG, PNG or PDF"),
        (Jpeg, b"II*\0\x08\0\0\0".to_vec(), "TIFF; save it as PDF"),
        (Jpeg, b"II+\0\x08\0\0\0".to_vec(), "TIFF; save it as PDF"),
        (Pdf, b"MM\0+\0\x08\0\0".to_vec(), "TIFF; save it as PDF"),
        (Png, b"RIFF\x10\0\0\0WEBPVP8 ".to_vec(), "WebP; save it as JPEG, PNG or PDF"),
        (Png, named("driver-license.jpg"), "JPEG; give it the extension .jpg"),
        (Docx, named("deed-of-trust.pdf"), "PDF; give it the extension .pdf"),
        (
            Pdf,
            named("signing-instructions.docx"),
            "a Word document of Word 2007 or later; give it the extension .docx",
        ),
        (
            Docx,
            named("closing-disclosure.doc"),
            "a Word document of Word 6 to 2003; give it the extension .doc",
        ),
        (Doc, named("fee-sheet.xls"), "an Excel workbook; save it as PDF"),
        (Docx, named("fee-sheet.xlsx"), "an Excel workbook; save it as PDF"),
        (Docx, named("plain.zip"), "a ZIP file; send the documents in it"),
        (
            Docx,
            package(&[("Index/Document.iwa", b"x")]),
            "a Pages document; save it as .docx or PDF",
        ),
        (
            Docx,
            package(&[("mimetype", b"application/epub+zip"), ("META-INF/container.xml", b"x")]),
            "an EPUB book; save it as PDF",
        ),
        (
            Docx,
            package(&[("word/document.xml", BODY)]),
            "a damaged Word document; save it as .docx or PDF again",
        ),
    ] {
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(20)]);
        assert_eq!(kind_of(format, &bytes), Some(kind), "{format:?} {start}");
    }
    for unknown in [&b"\0\0\0\0"[..], b"\xFF\xFE", b"MZ\x90\0"] {
        assert_eq!(kind_of(Pdf, unknown), None, "{unknown:?}");
    }
}

#[test]
fn packages_and_pictures_of_other_programs_are_named() {
    use DocumentFormat::{Docx, Pdf};
    let named =
        |mime_type: &str| package(&[("mimetype", mime_type.as_bytes()), ("content.xml", b"<x/>")]);
    let open_document = |kind| named(&format!("application/vnd.oasis.opendocument.{kind}"));
    let types = b"<Types><Default Extension=\"fdseq\" ContentType=\
        \"application/vnd.ms-package.xps-fixeddocumentsequence+xml\"/></Types>";
    let visio = b"<Types><Override PartName=\"/visio/document.xml\" \
        ContentType=\"application/vnd.ms-visio.drawing.main+xml\"/></Types>";
    let xps = |part| package(&[("[Content_Types].xml", types), (part, b"x")]);
    let mut tar = vec![0; 512];
    tar[..8].copy_from_slice(b"deed.pdf");
    tar[257..262].copy_from_slice(b"ustar");
    let mut metafile = vec![0; 64];
    metafile[0] = 1;
    metafile[40..44].copy_from_slice(b" EMF");
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    writer.start_file("mimetype", stored).unwrap();
    writer.write_all(b"application/vnd.oasis.opendocument.text").unwrap();
    let cut = writer.finish().unwrap().into_inner()[..80].to_vec();
    for (bytes, kind) in [
        (open_document("text"), "OpenDocument; save it as .docx or PDF"),
        (open_document("text-template"), "OpenDocument; save it as .docx or PDF"),
        (open_document("spreadsheet"), "an OpenDocument spreadsheet; save it as PDF"),
        (open_document("presentation"), "an OpenDocument presentation; save it as PDF"),
        (open_document("graphics"), "an OpenDocument drawing; save it as PDF"),
        (
            // A password hides the parts.
            package(&[
                ("mimetype", b"application/vnd.oasis.opendocument.text"),
                ("encrypted-package", b"x"),
                ("META-INF/manifest.xml", b"<x/>"),
            ]),
            "OpenDocument; save it as .docx or PDF",
        ),
        (cut, "OpenDocument; save it as .docx or PDF"),
        (
            b"<?xml version=\"1.0\"?><office:document xmlns:office=\"urn:x\">".to_vec(),
            "OpenDocument; save it as .docx or PDF",
        ),
        (
            named("application/vnd.sun.xml.writer"),
            "a document of OpenOffice.org 1; save it as .docx or PDF",
        ),
        (package(&[("mimetype", b"application/epub+zip")]), "an EPUB book; save it as PDF"),
        (xps("FixedDocSeq.fdseq"), "XPS; save it as PDF"),
        (xps("FixedDocumentSequence.fdseq/[0].piece"), "XPS; save it as PDF"),
        (
            package(&[("[Content_Types].xml", visio), ("visio/document.xml", b"<x/>")]),
            "a Visio drawing; save it as PDF",
        ),
        (b"8BPS\0\x01\0\0".to_vec(), "a Photoshop picture; save it as JPEG, PNG or PDF"),
        (b"AT&TFORM\0\0\x01\0DJVM".to_vec(), "DjVu; save it as PDF"),
        (b"\xC5\xD0\xD3\xC6\x20\0\0\0".to_vec(), "PostScript; save it as PDF"),
        (metafile, "a Windows metafile; save it as PNG or PDF"),
        (tar, "a tar file; send the documents in it"),
        (b"BZh91AY&SY\xFF\0".to_vec(), "a bzip2 file; send the document in it"),
        (b"PK\x05\x06\0\0\0\0".to_vec(), "an empty ZIP file"),
        (
            b"\x78\x9F\x3E\x22\x01\0".to_vec(),
            "winmail.dat, an attachment of Outlook; send the documents in it",
        ),
        (
            b"\0\x05\x16\x07\0\x02\0\0Mac OS X".to_vec(),
            "what macOS keeps beside a document; send the document itself",
        ),
        (
            b"[InternetShortcut]\r\nURL=https://files.example/deed.pdf".to_vec(),
            "a shortcut to a document; send the document itself",
        ),
    ] {
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]);
        for format in [Docx, Pdf] {
            assert_eq!(kind_of(format, &bytes), Some(kind), "{format:?} {start}");
        }
    }
}

#[test]
fn signed_files_drawings_and_old_documents_are_named() {
    use DocumentFormat::{Doc, Docx, Pdf};
    const SIGNED: &str = "a signed file (PKCS #7, .p7m); send the document in it";
    const PAGES: &str = "a Pages document; save it as .docx or PDF";
    const WORKS: &str = "a Works document; save it as .docx or PDF";
    let signed = |length: &[u8]| {
        let type_ = b"\x06\x09\x2A\x86\x48\x86\xF7\x0D\x01\x07\x02\xA0\x80";
        [b"\x30", length, type_, b"\x24\x80\x04\x82\x10\x00%PDF-1.7\n"].concat()
    };
    let with_stream = |name: &str, start: &[u8], bytes: usize| {
        let mut compound = cfb::CompoundFile::create(Cursor::new(Vec::new())).unwrap();
        let mut stream = compound.create_stream(format!("/{name}")).unwrap();
        stream.write_all(start).unwrap();
        stream.write_all(&vec![1; bytes]).unwrap();
        drop(stream);
        compound.into_inner().into_inner()
    };
    let mut picture = vec![0; 128];
    picture.extend_from_slice(b"DICM\x02\0\0\0UL");
    let index = |root: &str| format!("<?xml version=\"1.0\"?>\n<{root} xmlns:sl=\"urn:x\">");
    for (bytes, kind) in [
        (signed(b"\x80"), SIGNED),
        (signed(b"\x81\xFF"), SIGNED),
        (signed(b"\x82\x4F\x21"), SIGNED),
        (signed(b"\x83\x12\x4F\x21"), SIGNED),
        (signed(b"\x84\x01\x12\x4F\x21"), SIGNED),
        (b"AC1032\0\0\0\0\0\x04".to_vec(), "an AutoCAD drawing (DWG); save it as PDF"),
        (picture, "a DICOM picture; save it as JPEG, PNG or PDF"),
        (with_stream("CONTENTS", b"CHNKWKS \x04\0", 100), WORKS),
        (with_stream("CONTENTS", b"CHNKWKS \x04\0", 5_000), WORKS),
        (with_stream("CONTENTS", b"CHNKINK \x04\0", 5_000), WORKS),
        (with_stream("MN0", b"\x27\x4E", 5_000), WORKS),
        (b"\xFF\0\x02\0\x04\x04\x05\x54\x02\0".to_vec(), "a Works spreadsheet; save it as PDF"),
        (package(&[("index.xml", index("sl:document").as_bytes())]), PAGES),
        (
            package(&[("index.xml", index("ls:document").as_bytes())]),
            "a Numbers spreadsheet; save it as PDF",
        ),
        (package(&[("Deed.pages/index.xml.gz", b"x"), ("Deed.pages/QuickLook/x", b"x")]), PAGES),
        (package(&[("index.xml", b"<list/>")]), "a ZIP file; send the documents in it"),
    ] {
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]);
        for format in [Doc, Docx, Pdf] {
            assert_eq!(kind_of(format, &bytes), Some(kind), "{format:?} {start}");
        }
    }
    // Publisher.
    assert_eq!(kind_of(Doc, &with_stream("Contents", b"\xE8\xAC\x2C\0", 5_000)), None);
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

/// Builds a DOCX from its content types, its relationships and the name of its main part.
fn docx(types: &[u8], relationships: &[u8], main_part: &str) -> Vec<u8> {
    package(&[("[CONTENT_TYPES].xml", types), ("_Rels/.rels", relationships), (main_part, BODY)])
}

fn relationship_to(target: &str) -> Vec<u8> {
    format!(
        "<?xml version='1.0'?><Relationships xmlns='http://schemas.openxmlformats.org/package/2006/\
         relationships'><Relationship Id='r1' Target='docProps/app.xml' Type='http://schemas.\
         openxmlformats.org/officeDocument/2006/relationships/extended-properties'/><Relationship \
         Id='r2' Target='{target}' Type='http://schemas.openxmlformats.org/officeDocument/2006/\
         relationships/officeDocument'/></Relationships>"
    )
    .into_bytes()
}

const MAIN: &str =
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml";

#[test]
fn main_part_of_a_docx_may_have_any_name_and_encoding() {
    let types =
        |part: &str| format!("<Types><Override PartName='{part}' ContentType='{MAIN}'/></Types>");
    let utf_16 = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    };
    let declared =
        format!("\u{feff}<?xml version='1.0' encoding='UTF-16'?>{}", types("/docs/Main.xml"));
    let default =
        format!("<x:Types xmlns:x='u'><x:Default ContentType='{MAIN}' Extension='XML'/></x:Types>");
    let windows_1252 =
        format!("<?xml version=\"1.0\" encoding=\"windows-1252\"?>{}", types("/word/Dok@.xml"));
    let windows_1252 = windows_1252.bytes().map(|byte| if byte == b'@' { 0xDC } else { byte });
    let windows_1252 = windows_1252.collect();
    for (types, target, part) in [
        (types("/docs/Main.xml").into_bytes(), "docs/Main.xml", "docs/Main.xml"),
        (types("/docs/main.xml").into_bytes(), "/Docs/MAIN.xml", "DOCS/Main.XML"),
        (types("/WORD/document2.xml").into_bytes(), "word/document2.xml", "word\\Document2.xml"),
        (utf_16(&declared, u16::to_le_bytes), "docs/Main.xml", "docs/Main.xml"),
        (utf_16(&declared, u16::to_be_bytes), "docs/Main.xml", "docs/Main.xml"),
        (utf_16(&declared[3..], u16::to_le_bytes), "docs/Main.xml", "docs/Main.xml"),
        (default.into_bytes(), "./word/a%20b.xml", "word/a b.xml"),
        (windows_1252, "word/Dok%C3%9C.xml", "word/Dok\u{dc}.xml"),
    ] {
        let bytes = docx(&types, &relationship_to(target), part);
        assert_eq!(formats_of(&bytes), [DocumentFormat::Docx], "{target}");
    }
    for target in [
        "word/./document.xml",
        "/word/x/../document.xml",
        "../word/document.xml",
        "word/document.xml#x",
        "\n word/document.xml ",
        // The relationships before the one that leads to a part do not count.
        "http://x.example/a.xml' Type='/relationships/officeDocument' TargetMode='External'/><Relationship Target='word/document.xml",
        "word/gone.xml' Type='/relationships/officeDocument'/><Relationship Target='word/document.xml",
    ] {
        for types in [
            types("/word/document.xml"),
            types("/word/document.xml").replace(MAIN, &format!(" {MAIN} ;charset=utf-8 ")),
        ] {
            let bytes = docx(types.as_bytes(), &relationship_to(target), "word/document.xml");
            assert_eq!(formats_of(&bytes), [DocumentFormat::Docx], "{target} {types}");
        }
    }
    // The relationship leads to a part of another type, or nowhere.
    let types = types("/word/document.xml").into_bytes();
    for (target, part) in
        [("docProps/app.xml", "word/document.xml"), ("word/document.xml", "word/other.xml")]
    {
        assert_eq!(formats_of(&docx(&types, &relationship_to(target), part)), [], "{target}");
    }
}

#[test]
fn docx_may_have_thousands_of_parts_and_long_comment_or_bytes_behind_it() {
    let many = |count| {
        let names: Vec<_> = (0..count).map(|at| format!("word/media/image{at}.png")).collect();
        let mut parts: Vec<(&str, &[u8])> =
            vec![("[Content_Types].xml", CONTENT_TYPES), ("word/document.xml", BODY)];
        parts.extend(names.iter().map(|name| (name.as_str(), &b"x"[..])));
        package(&parts)
    };
    let small = many(0);
    let mut commented = small.clone();
    let length = commented.len() - 2;
    commented.splice(length.., [0xFF; 2].into_iter().chain(vec![b' '; 65_535]));
    for (case, bytes) in [
        ("parts", many(5_000)),
        ("comment", commented),
        ("zeros", [&small[..], &vec![0; 60_000]].concat()),
    ] {
        assert_eq!(formats_of(&bytes), [DocumentFormat::Docx], "{case}");
    }
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

/// Old versions of Apache POI write the end of a chain into the unused entries of the table. Others leave
/// loops there, or unused entries of the directory with any bytes.
#[test]
fn doc_with_faults_that_word_ignores_is_accepted() {
    const FREE: [u8; 4] = u32::MAX.to_le_bytes();
    let genuine = documents::bytes("closing-disclosure.doc");
    let sector = 1_usize << genuine[0x1E];
    let word = |at: usize| u32::from_le_bytes(genuine[at..at + 4].try_into().unwrap()) as usize;
    for unused in [0xFFFF_FFFE_u32, 0, 1, 0x00FF_FFFF, 0xFFFF_FFFB] {
        let mut bytes = genuine.clone();
        for table in (0..word(0x2C)).map(|at| (word(0x4C + at * 4) + 1) * sector) {
            for entry in bytes[table..table + sector].chunks_exact_mut(4) {
                if entry == FREE {
                    entry.copy_from_slice(&unused.to_le_bytes());
                }
            }
        }
        assert_ne!(bytes, genuine);
        assert_eq!(formats_of(&bytes), [DocumentFormat::Doc], "{unused:08X}");
    }
    let mut bytes = genuine.clone();
    let directory = (word(0x30) + 1) * sector;
    for entry in bytes[directory..directory + sector].chunks_exact_mut(128) {
        // The colour, the class, the state and the times.
        entry[0x43] = 7;
        entry[0x50..0x74].fill(0xAB);
    }
    assert_eq!(formats_of(&bytes), [DocumentFormat::Doc]);
}

/// The directory may lead past the end or back, or end in a sector that is cut off.
#[test]
fn doc_with_broken_end_of_its_directory_is_accepted() {
    let genuine = compound_file(5_000, 0);
    let sector = 1_usize << genuine[0x1E];
    let word = |at: usize| u32::from_le_bytes(genuine[at..at + 4].try_into().unwrap()) as usize;
    let (table, directory) = ((word(0x4C) + 1) * sector, word(0x30));
    let (entry, last) = (table + directory * 4, genuine.len() / sector - 1);
    for next in [directory, 5_000, 0xFFFF_FFF0] {
        let mut bytes = genuine.clone();
        bytes[entry..entry + 4].copy_from_slice(&u32::try_from(next).unwrap().to_le_bytes());
        assert_eq!(formats_of(&bytes), [DocumentFormat::Doc], "{next}");
    }
    // Moves the directory to the end, with its first entries only.
    let mut bytes = genuine.clone();
    bytes[0x30..0x34].copy_from_slice(&u32::try_from(last).unwrap().to_le_bytes());
    let entries = (directory + 1) * sector;
    bytes.extend_from_slice(&genuine[entries..entries + 250]);
    assert_eq!(formats_of(&bytes), [DocumentFormat::Doc]);
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
        assert_eq!(kind_of(format, &package), Some(kinds::ENCRYPTED));
    }
}

/// Rights management encrypts the document into a stream of its own. In a DOC the stream
/// `WordDocument` then only says so.
#[test]
fn documents_under_rights_management_are_recognized() {
    let with = |streams: &[&str]| {
        let mut compound = cfb::CompoundFile::create(Cursor::new(Vec::new())).unwrap();
        compound.create_storage("/\u{6}DataSpaces").unwrap();
        for name in streams {
            let mut stream = compound.create_stream(format!("/{name}")).unwrap();
            stream.write_all(&[1; 5_000]).unwrap();
        }
        compound.into_inner().into_inner()
    };
    let notice = Cursor::new(documents::bytes("closing-disclosure.doc"));
    let mut notice = cfb::CompoundFile::open(notice).unwrap();
    notice.create_stream("/\tDRMContent").unwrap().write_all(&[1; 5_000]).unwrap();
    for (format, bytes) in [
        (DocumentFormat::Docx, with(&["EncryptedPackage"])),
        (DocumentFormat::Doc, with(&["\tDRMContent"])),
        (DocumentFormat::Doc, with(&["\tDRMViewerContent", "Workbook"])),
        (DocumentFormat::Doc, notice.into_inner().into_inner()),
    ] {
        assert_eq!(check_bytes(format, Cursor::new(bytes)).unwrap(), Content::Encrypted);
    }
}

#[test]
fn what_stands_before_the_header_of_a_pdf_is_named() {
    const HEADERS: &str = "a PDF behind an HTTP or MIME header; send what begins with %PDF";
    const TEXT: &str = "a PDF behind a text; send what begins with %PDF";
    const BYTES: &str = "a PDF behind other bytes; send what begins with %PDF";
    let pdf = documents::bytes("deed-of-trust.pdf");
    for (before, kind) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n"[..], HEADERS),
        (b"Content-Type: application/pdf\r\nContent-Length: 5\r\n\r\n", HEADERS),
        (b"\r\n--boundary\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n", HEADERS),
        (b"MIME-Version: 1.0\nX-Mailer: x\n\n", HEADERS),
        (b"From: a@example.com\r\n\r\n", HEADERS),
        (b"Warning: undefined variable in index.php\n", TEXT),
        (b"<html>\n", TEXT),
        (b"x", TEXT),
        ("Gr\u{fc}\u{df}e ".as_bytes(), TEXT),
        (&[b' '; 1025], TEXT),
        (b"\0", BYTES),
        (b"\xEF\xBB", BYTES),
        (b"\x1B%-12345X@PJL ENTER LANGUAGE=PDF\r\n", BYTES),
    ] {
        let bytes = [before, &pdf].concat();
        let start = String::from_utf8_lossy(before);
        assert_eq!(kind_of(DocumentFormat::Pdf, &bytes), Some(kind), "{start}");
    }
    let page = b"<html>about %PDF-1.7</html>";
    assert_eq!(kind_of(DocumentFormat::Doc, page), Some("HTML; save it as .docx or PDF"));
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
