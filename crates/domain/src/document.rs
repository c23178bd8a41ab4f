//! Documents of an order: accepted formats, file names, limits, and object keys.

mod object_key;

use std::{fmt, path::PathBuf};

use time::OffsetDateTime;

pub use self::object_key::ObjectKey;
use crate::person::Doer;

/// A format that the service accepts (spec section 4.2, document rule 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentFormat {
    /// Portable Document Format.
    Pdf,
    /// Word 6 to 2003.
    Doc,
    /// Word 2007 and later.
    Docx,
    /// JPEG, as `.jpg` or `.jpeg`.
    Jpeg,
    /// Portable Network Graphics.
    Png,
}

impl DocumentFormat {
    /// Returns the format of a file name's extension. Letter case does not matter.
    pub fn of_file_name(name: &str) -> Option<Self> {
        let (_, extension) = last_component(name).rsplit_once('.')?;
        match extension.to_ascii_lowercase().as_str() {
            "pdf" => Some(Self::Pdf),
            "doc" => Some(Self::Doc),
            "docx" => Some(Self::Docx),
            "jpg" | "jpeg" => Some(Self::Jpeg),
            "png" => Some(Self::Png),
            _ => None,
        }
    }

    /// Returns the media type of the format (IANA registry).
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Pdf => "application/pdf",
            Self::Doc => "application/msword",
            Self::Docx => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
        }
    }
}

/// Returns the last component of a path of any system, without surrounding white space.
pub fn last_component(name: &str) -> &str {
    name.rsplit(['/', '\\']).next().unwrap_or_default().trim()
}

/// Maximum length of a stored file name in characters.
pub const MAX_FILE_NAME_CHARS: usize = 120;

/// Length of the longest accepted extension, with its dot.
const LONGEST_EXTENSION: usize = ".docx".len();

/// Returns the name under which a document is stored (spec section 4.2, document rule 2):
///
/// - Directories are dropped.
/// - Every character other than ASCII letters, digits, `.`, `-` and `_` becomes `_`.
/// - A leading dot gets a `_` before it.
/// - At most [`MAX_FILE_NAME_CHARS`] characters remain. The extension is kept.
pub fn sanitize_file_name(name: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let mut safe: String =
        last_component(name).chars().map(|c| if is_safe(c) { c } else { '_' }).collect();
    if safe.is_empty() {
        safe.push_str("document");
    }
    if safe.starts_with('.') {
        safe.insert(0, '_');
    }
    let extension = match safe.rfind('.') {
        Some(dot) if safe.len() - dot <= LONGEST_EXTENSION => safe.split_off(dot),
        _ => String::new(),
    };
    safe.truncate(MAX_FILE_NAME_CHARS - extension.len());
    safe + &extension
}

// File names may contain names of signers.
conceal!(ReceivedDocument, StoredDocument);

/// Limits of the documents of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentLimits {
    /// Maximum number of documents.
    pub max_count: usize,
    /// Maximum size of one document in bytes.
    pub max_bytes: u64,
}

impl Default for DocumentLimits {
    /// Returns 20 documents of 10 MiB (spec section 8).
    fn default() -> Self {
        Self { max_count: 20, max_bytes: 10 * 1024 * 1024 }
    }
}

/// Maximum number of documents of one kind of an order, with those that were added later, replaced and
/// withdrawn.
pub const MAX_DOCUMENTS_PER_ORDER: usize = 100;

/// SHA-256 of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sha256Digest(pub [u8; 32]);

impl fmt::Display for Sha256Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex::encode(self.0))
    }
}

/// A complete file on local disk that waits to be stored. It may become the object itself. Its
/// creator removes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpooledFile {
    /// Its path.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256.
    pub sha256: Sha256Digest,
    /// Its CRC-32, as ZIP archives have it.
    pub crc32: u32,
}

/// The content of a document, as its bytes show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// A file of this format.
    Format(DocumentFormat),
    /// A Word document that opens with a password or a permission only.
    Encrypted,
    /// Another content: what it looks like and what to do, such as "RTF; save it as PDF", if known.
    Other(Option<&'static str>),
}

/// A document as it was received, not checked yet.
#[derive(Clone, PartialEq, Eq)]
pub struct ReceivedDocument {
    /// File name, as the client sent it.
    pub name_as_sent: String,
    /// The bytes.
    pub file: SpooledFile,
    /// The content, as the bytes show it.
    pub content: Content,
}

/// A fault of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentFault {
    /// The file has no bytes.
    Empty,
    /// The extension is not accepted.
    UnsupportedExtension,
    /// The content does not match the extension. The text says what it looks like and what to do.
    ContentMismatch(Option<&'static str>),
    /// The content is encrypted.
    Encrypted,
    /// The scanner has found malware.
    Infected,
    /// The scanner does not accept a file of this size.
    TooLargeToScan,
}

impl DocumentFault {
    /// Returns the name in a problem response.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty_document",
            Self::UnsupportedExtension => "unsupported_extension",
            Self::ContentMismatch(_) => "content_mismatch",
            Self::Encrypted => "encrypted_document",
            Self::Infected => "infected_document",
            Self::TooLargeToScan => "too_large_to_scan",
        }
    }
}

impl ReceivedDocument {
    /// Returns the format. Extension and content must agree.
    pub fn format(&self) -> Result<DocumentFormat, DocumentFault> {
        let announced = DocumentFormat::of_file_name(&self.name_as_sent)
            .ok_or(DocumentFault::UnsupportedExtension)?;
        match self.content {
            _ if self.file.size == 0 => Err(DocumentFault::Empty),
            Content::Format(content) if content == announced => Ok(announced),
            Content::Encrypted => Err(DocumentFault::Encrypted),
            Content::Other(kind) => Err(DocumentFault::ContentMismatch(kind)),
            Content::Format(_) => Err(DocumentFault::ContentMismatch(None)),
        }
    }
}

/// Who uploads a document to an order. The documents of each kind have positions of their own, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DocumentKind {
    /// The client uploads it, to be signed.
    ToSign,
    /// The signing service uploads it, after the signing.
    Signed,
}

impl DocumentKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::ToSign, Self::Signed];
}

/// A stored document. Its position in the order is its position in the request.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredDocument {
    /// Key in the blob store; `None` when the document is withdrawn.
    pub key: Option<ObjectKey>,
    /// Sanitized file name.
    pub name: String,
    /// File name, as the client sent it; empty when the document is withdrawn.
    pub name_as_sent: String,
    /// Media type.
    pub media_type: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the bytes.
    pub sha256: Sha256Digest,
    /// CRC-32 of the bytes, as ZIP archives have it. Version 0.1.0 stores none.
    pub crc32: Option<u32>,
    /// The instant when the order was created, or the document added to it.
    pub created_at: OffsetDateTime,
    /// The position of the document that stands in its place.
    pub replaced_by: Option<u32>,
    /// The instant when it was withdrawn. Its bytes are gone.
    pub withdrawn_at: Option<OffsetDateTime>,
    /// Whether the retention withdrew it, and not its side.
    pub is_erased: bool,
    /// The instant when the other side first read it whole.
    pub first_downloaded_at: Option<OffsetDateTime>,
    /// The key or the person who uploaded it; `None` for version 0.1.0, and for a document that came with its
    /// order. Their own side sees the name.
    pub by: Option<Doer>,
}

impl StoredDocument {
    /// Returns whether it is the one to use: neither replaced nor withdrawn.
    pub fn is_current(&self) -> bool {
        self.key.is_some() && self.replaced_by.is_none()
    }

    /// Returns whether its side withdrew it after the other side had read it.
    pub fn is_recalled(&self) -> bool {
        self.withdrawn_at.is_some() && !self.is_erased && self.first_downloaded_at.is_some()
    }
}

/// The numbers of the documents of an order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DocumentCounts {
    /// Documents to sign, without withdrawn ones.
    pub documents: usize,
    /// Documents in force that the signing service has read whole.
    pub fetched: usize,
    /// Documents in force that the signing service has not read whole.
    pub unfetched: usize,
    /// Signed documents, without withdrawn ones.
    pub signed: usize,
}

impl DocumentCounts {
    /// Counts the documents to sign and the signed ones.
    pub fn of(documents: &[StoredDocument], signed: &[StoredDocument]) -> Self {
        let is_fetched = |document: &StoredDocument| document.first_downloaded_at.is_some();
        let fetched = documents.iter().filter(|it| it.is_current() && is_fetched(it)).count();
        let unfetched = documents.iter().filter(|it| it.is_current() && !is_fetched(it)).count();
        let documents = stored_count(documents);
        Self { documents, fetched, unfetched, signed: stored_count(signed) }
    }

    /// Returns the number of documents in force: neither replaced nor withdrawn.
    pub fn in_force(self) -> usize {
        self.fetched + self.unfetched
    }
}

/// Returns the number of documents whose bytes are stored, also of replaced ones.
pub fn stored_count(documents: &[StoredDocument]) -> usize {
    documents.iter().filter(|document| document.key.is_some()).count()
}

/// Returns the name of a withdrawn document: the name that it had may be personal data.
pub fn withdrawn_name(name: &str) -> String {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    sanitize_file_name(&format!("document.{extension}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_support::document;

    #[test]
    fn replaced_and_withdrawn_documents_are_not_in_force() {
        let at = OffsetDateTime::UNIX_EPOCH;
        let paper = |is_fetched: bool| StoredDocument {
            first_downloaded_at: is_fetched.then_some(at),
            ..document("a", at)
        };
        let replaced = |is_fetched| StoredDocument { replaced_by: Some(1), ..paper(is_fetched) };
        let withdrawn = StoredDocument { key: None, withdrawn_at: Some(at), ..paper(true) };
        for (documents, stored, fetched, unfetched) in [
            (vec![], 0, 0, 0),
            (vec![paper(true), paper(false)], 2, 1, 1),
            (vec![replaced(false), paper(true)], 2, 1, 0),
            (vec![replaced(true), paper(false)], 2, 0, 1),
            (vec![replaced(true), withdrawn], 1, 0, 0),
        ] {
            let counts = DocumentCounts { documents: stored, fetched, unfetched, signed: 0 };
            assert_eq!(DocumentCounts::of(&documents, &[]), counts);
            assert_eq!(counts.in_force(), fetched + unfetched);
        }
    }

    #[test]
    fn file_names_are_sanitized() {
        for (sent, stored) in [
            ("Deed of Trust (final).pdf", "Deed_of_Trust__final_.pdf"),
            ("../../etc/passwd.pdf", "passwd.pdf"),
            ("C:\\Users\\jane\\deed.PDF", "deed.PDF"),
            ("договор.docx", "_______.docx"),
            ("a\"b;name=evil.png", "a_b_name_evil.png"),
            (".pdf", "_.pdf"),
            ("...pdf", "_...pdf"),
            ("..", "_.."),
            ("", "document"),
            ("noextension", "noextension"),
            ("two.dots.pdf", "two.dots.pdf"),
            ("nul\0.pdf", "nul_.pdf"),
        ] {
            assert_eq!(sanitize_file_name(sent), stored, "{sent:?}");
        }
    }

    #[test]
    fn long_names_keep_their_extension() {
        let name = sanitize_file_name(&format!("{}.docx", "é".repeat(500)));
        assert_eq!(name.len(), MAX_FILE_NAME_CHARS);
        assert!(name.ends_with("_.docx"));
        assert_eq!(
            sanitize_file_name(&format!("{}.pdf", "a".repeat(116))),
            format!("{}.pdf", "a".repeat(116))
        );
        assert_eq!(
            sanitize_file_name(&format!("{}.pdf", "a".repeat(117))),
            format!("{}.pdf", "a".repeat(116))
        );
        // Not an accepted extension.
        let long = format!("{}.{}", "a".repeat(60), "b".repeat(100));
        assert_eq!(sanitize_file_name(&long), long[..MAX_FILE_NAME_CHARS]);
        assert_eq!(
            sanitize_file_name(&format!("a.{}", "b".repeat(200))),
            format!("a.{}", "b".repeat(118))
        );
    }

    #[test]
    fn digest_is_shown_in_hexadecimal() {
        assert_eq!(Sha256Digest([0xa5; 32]).to_string(), "a5".repeat(32));
    }

    #[test]
    fn faults_have_names_for_programs() {
        let faults = [
            DocumentFault::Empty,
            DocumentFault::UnsupportedExtension,
            DocumentFault::ContentMismatch(None),
            DocumentFault::Encrypted,
            DocumentFault::Infected,
            DocumentFault::TooLargeToScan,
        ];
        assert_eq!(
            faults.map(DocumentFault::as_str),
            [
                "empty_document",
                "unsupported_extension",
                "content_mismatch",
                "encrypted_document",
                "infected_document",
                "too_large_to_scan",
            ]
        );
    }

    #[test]
    fn extension_is_case_insensitive() {
        for (name, format) in [
            ("a.pdf", DocumentFormat::Pdf),
            ("a.PDF", DocumentFormat::Pdf),
            ("a.Doc", DocumentFormat::Doc),
            ("a.docx", DocumentFormat::Docx),
            ("a.jpg", DocumentFormat::Jpeg),
            ("a.JPEG", DocumentFormat::Jpeg),
            ("a.b.png", DocumentFormat::Png),
            (" a.pdf ", DocumentFormat::Pdf),
        ] {
            assert_eq!(DocumentFormat::of_file_name(name), Some(format), "{name}");
        }
        for name in "|pdf|a|a.|a.pdf.exe|a.txt|a.pdf/|a.pdf/b|dir.pdf\\b|a.pdf\0".split('|') {
            assert_eq!(DocumentFormat::of_file_name(name), None, "{name:?}");
        }
    }

    #[test]
    fn extension_and_content_must_agree() {
        let file =
            SpooledFile { path: PathBuf::new(), size: 1, sha256: Sha256Digest([0; 32]), crc32: 0 };
        let received = |name: &str, size, content| {
            ReceivedDocument {
                name_as_sent: name.to_owned(),
                file: SpooledFile { size, ..file.clone() },
                content,
            }
            .format()
        };
        let (pdf, png) =
            (Content::Format(DocumentFormat::Pdf), Content::Format(DocumentFormat::Png));
        assert_eq!(received("a.pdf", 1, pdf), Ok(DocumentFormat::Pdf));
        for (name, size, content, fault) in [
            ("a.pdf", 1, png, DocumentFault::ContentMismatch(None)),
            ("a.pdf", 1, Content::Other(Some("RTF")), DocumentFault::ContentMismatch(Some("RTF"))),
            ("a.exe", 1, pdf, DocumentFault::UnsupportedExtension),
            ("a.pdf", 0, Content::Other(None), DocumentFault::Empty),
            ("a.doc", 1, Content::Encrypted, DocumentFault::Encrypted),
        ] {
            assert_eq!(received(name, size, content), Err(fault), "{name} {content:?}");
        }
    }

    proptest! {
        #[test]
        fn every_name_becomes_safe(name in "\\PC{0,200}|.{0,200}|[./\\\\ a-z\\x00]{0,300}") {
            let safe = sanitize_file_name(&name);
            prop_assert!(!safe.is_empty() && safe.len() <= MAX_FILE_NAME_CHARS);
            prop_assert!(!safe.starts_with('.'));
            prop_assert!(
                safe.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
            );
            prop_assert_eq!(sanitize_file_name(&safe), safe);
        }

        #[test]
        fn accepted_extension_is_kept(
            stem in ".{0,300}",
            extension in "pdf|DOC|docx|jpg|JPEG|png",
        ) {
            let name = format!("{stem}.{extension}");
            let safe = sanitize_file_name(&name);
            let ending = format!(".{extension}");
            prop_assert!(safe.ends_with(&ending));
            prop_assert_eq!(
                DocumentFormat::of_file_name(&safe),
                DocumentFormat::of_file_name(&name)
            );
        }
    }
}
