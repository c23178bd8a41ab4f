//! `GET /api/order/{order_id}/documents.zip`: sends all documents of an order in one archive, or a part of it.

mod layout;
mod names;

use std::{convert::Infallible, io, ops::Range, sync::Arc, vec};

use actix_web::{
    HttpRequest, HttpResponse,
    body::SizedStream,
    http::{
        Method,
        header::{self, EntityTag},
    },
};
use bytes::Bytes;
use domain::{
    document::{DocumentKind, StoredDocument, sanitize_file_name},
    order::{Actor, DocumentId, OrderId, StoredOrder},
    person::Caller,
    ports::{Cause, error_chain},
    use_cases::{change_order::Changer, order_error::OrderError, read_order::ReadOrder},
};
use futures_util::{
    Stream, StreamExt as _,
    stream::{self, try_unfold},
};
use sha2::{Digest as _, Sha256};
use tracing::Span;
use zip::DateTime;

use self::layout::{Piece, StoredFile};
use crate::{
    admission::{audit::Audit, rate_limit::Policy},
    orders::{
        document_blocks::{Cut, DocumentBlocks},
        erasure::Look,
        path,
    },
    request::notes::note,
    respond::{answer::Answer, conditional, problem::Problem, range},
    state::State,
};

/// The form of archives. Change it with their bytes: nobody may continue an archive of another form.
const FORM: &[u8] = b"2";

pub(crate) async fn read(audit: Audit, request: HttpRequest, api: State) -> Answer {
    send(audit, &request, api, DocumentKind::ToSign).await
}

pub(crate) async fn read_signed(audit: Audit, request: HttpRequest, api: State) -> Answer {
    send(audit, &request, api, DocumentKind::Signed).await
}

async fn send(audit: Audit, request: &HttpRequest, api: State, kind: DocumentKind) -> Answer {
    let admitted = audit.admit(request, &api.admission, Policy::Reads).await?;
    let id = path::order_id(request)?;
    note(request, |notes| notes.order = Some(id));
    api.downloads.hold(request, admitted.caller().party()).await?;
    let (reading, caller) = (api.read_order.by(&admitted).clone(), Arc::clone(admitted.caller()));
    let is_for_other_side = Changer::of(&caller).actor != Actor::uploading(kind);
    let source = Source { api, reading, caller, is_for_other_side };
    loop {
        if let Some(response) = answer(request, &source, id, kind).await? {
            return Ok(response);
        }
        if !source.is_key_valid().await {
            return Err(Problem::invalid_token());
        }
    }
}

/// Answers with the archive; `None` if a document was withdrawn or the key revoked meanwhile, before the first
/// byte.
async fn answer(
    request: &HttpRequest,
    source: &Source,
    id: OrderId,
    kind: DocumentKind,
) -> Result<Option<HttpResponse>, Problem> {
    let order = source.reading.with_documents(source.caller.owner(), id).await?;
    let mut entries = entries(&order, kind);
    if entries.is_empty() {
        return Err(Problem::no_such_order());
    }
    let tag = tag(&entries);
    if let Some(not_modified) = conditional::not_modified(request, &tag) {
        return Ok(Some(not_modified));
    }
    for entry in &mut entries {
        if before_first_byte(source.add_crc32(entry).await)?.is_none() {
            return Ok(None);
        }
    }
    let files: Vec<_> = entries.iter().map(Entry::file).collect();
    let pieces = layout::pieces(&files);
    let size = pieces.iter().map(Piece::length).sum();
    let part = range::requested(request, &tag, size)?;
    let mut response = conditional::with_tag(part.response(), &tag);
    response
        .content_type("application/zip")
        .insert_header((header::CONTENT_DISPOSITION, disposition(&order, kind)));
    if request.method() == Method::HEAD {
        let nothing = stream::empty::<Result<_, Infallible>>();
        return Ok(Some(response.body(SizedStream::new(size, nothing))));
    }
    let pieces = layout::part(pieces, &part.bytes()).into_iter();
    let mut archive = Archive { source: source.clone(), entries, pieces, reading: None };
    let Some(first) = before_first_byte(archive.next().await)? else { return Ok(None) };
    let body = SizedStream::new(part.length(), body(first, archive));
    Ok(Some(response.body(body)))
}

/// Returns the validator of an archive: a hash of all that its bytes depend on. The SHA-256 of a document
/// stands for its size and its CRC-32.
fn tag(entries: &[Entry]) -> EntityTag {
    let mut hash = Sha256::new_with_prefix(FORM);
    for Entry { name, document, .. } in entries {
        hash.update(document.sha256.0);
        hash.update(document.created_at.unix_timestamp().to_le_bytes());
        hash.update(name);
        hash.update([0]);
    }
    EntityTag::new_strong(hex::encode(&hash.finalize()[..16]))
}

/// Returns the value of `Content-Disposition`: an archive that is named after the file number.
fn disposition(order: &StoredOrder, kind: DocumentKind) -> String {
    let file_number = order.order.file_number.as_str().replace(['/', '\\'], "_");
    let file_number = sanitize_file_name(&file_number);
    let documents = path::documents(kind);
    format!("attachment; filename=\"{file_number}-{documents}.zip\"")
}

/// A document, and its name in the archive.
struct Entry {
    id: DocumentId,
    name: String,
    document: StoredDocument,
}

impl Entry {
    fn file(&self) -> StoredFile<'_> {
        StoredFile {
            name: &self.name,
            modified: modified(&self.document),
            size: self.document.size,
            // `add_crc32` has added it.
            crc32: self.document.crc32.unwrap_or_default(),
        }
    }
}

/// Returns the documents of a kind that are not withdrawn.
fn entries(order: &StoredOrder, kind: DocumentKind) -> Vec<Entry> {
    let documents = order.documents_of(kind).iter().zip(0..);
    let stored: Vec<_> = documents.filter(|(document, _)| document.key.is_some()).collect();
    let names = names::unique(stored.iter().map(|(document, _)| *document));
    let entry = |((document, position), name): ((&StoredDocument, u32), String)| Entry {
        id: DocumentId { order: order.id, kind, position },
        name,
        document: document.clone(),
    };
    stored.into_iter().zip(names).map(entry).collect()
}

/// The reason why an archive ends before its end.
enum Failure {
    /// A document cannot be opened.
    Order(OrderError),
    /// A document ends before its end.
    Cut(Cut),
}

impl From<Cut> for Failure {
    fn from(cut: Cut) -> Self {
        Self::Cut(cut)
    }
}

/// Returns the problem of a failure before the first byte; `None` if the documents must be looked up again.
fn before_first_byte<T>(result: Result<T, Failure>) -> Result<Option<T>, Problem> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Failure::Order(OrderError::Withdrawn) | Failure::Cut(Cut::Gone)) => Ok(None),
        Err(Failure::Order(error)) => Err(error.into()),
        Err(Failure::Cut(Cut::Broken(error))) => Err(Problem::internal().log(&*error)),
    }
}

/// Where the documents come from.
#[derive(Clone)]
struct Source {
    api: State,
    reading: ReadOrder,
    caller: Arc<Caller>,
    is_for_other_side: bool,
}

impl Source {
    async fn is_key_valid(&self) -> bool {
        self.api.admission.keys.is_still_valid(&self.caller).await
    }

    /// Opens a range of the bytes of a document.
    async fn open(&self, entry: &Entry, range: Range<u64>) -> Result<DocumentBlocks, Failure> {
        let Entry { id, document, .. } = entry;
        let Some(key) = &document.key else { return Err(Failure::Order(OrderError::Withdrawn)) };
        // Each document may be too short for a look at the key while it is sent.
        if !self.is_key_valid().await {
            return Err(Cut::Gone.into());
        }
        let left = range.end.saturating_sub(range.start);
        let blocks = self.reading.bytes(self.caller.owner(), *id, key, range).await;
        if matches!(blocks, Err(OrderError::MissingObject(_))) {
            self.api.metrics.documents_missing.inc();
        }
        let keys = self.api.admission.keys.clone();
        let look = Look::at(self.reading.clone(), keys, self.caller.clone(), *id);
        Ok(DocumentBlocks { blocks: blocks.map_err(Failure::Order)?, left, look })
    }

    /// Reads a document that has no CRC-32, and stores it: the next archive has it.
    async fn add_crc32(&self, entry: &mut Entry) -> Result<(), Failure> {
        if entry.document.crc32.is_some() {
            return Ok(());
        }
        let (mut crc32, mut sha256) = (crc32fast::Hasher::new(), Sha256::new());
        let mut blocks = self.open(entry, 0..entry.document.size).await?;
        while let Some(block) = blocks.next().await? {
            crc32.update(&block);
            sha256.update(&block);
        }
        // Otherwise a reader would find the damaged bytes intact.
        if sha256.finalize()[..] != entry.document.sha256.0 {
            let error =
                format!("document {} is damaged: its SHA-256 is another", entry.id.position);
            return Err(Cut::Broken(error.into()).into());
        }
        let crc32 = crc32.finalize();
        self.reading.store_crc32(entry.id, crc32).await.map_err(Failure::Order)?;
        entry.document.crc32 = Some(crc32);
        Ok(())
    }
}

/// A document that is being sent.
struct Reading {
    id: DocumentId,
    blocks: DocumentBlocks,
    /// Whether its end is the first download by the other side.
    is_first: bool,
}

/// An archive that is being sent. It holds a block of a document, and what stands around the documents.
struct Archive {
    source: Source,
    entries: Vec<Entry>,
    /// The pieces that are not sent yet.
    pieces: vec::IntoIter<Piece>,
    reading: Option<Reading>,
}

impl Archive {
    /// Returns the next bytes of the archive; `None` after its end. Opens a document before it returns what
    /// stands before it.
    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            if let Some(reading) = &mut self.reading {
                if let Some(block) = reading.blocks.next().await? {
                    self.source.api.metrics.document_bytes_read.inc_by(block.len() as u64);
                    return Ok(Some(block));
                }
                if reading.is_first {
                    self.source.reading.note_download(reading.id);
                }
                self.reading = None;
            }
            let Some(Piece { before, file }) = self.pieces.next() else { return Ok(None) };
            if let Some((position, range)) = file
                && let Some(entry) = self.entries.get(position)
            {
                let is_first = entry.document.first_downloaded_at.is_none()
                    && self.source.is_for_other_side
                    // A part that ends the document counts, too: the reader had the beginning before.
                    && range.end == entry.document.size;
                let blocks = self.source.open(entry, range).await?;
                self.reading = Some(Reading { id: entry.id, blocks, is_first });
            }
            if !before.is_empty() {
                return Ok(Some(before));
            }
        }
    }
}

/// Returns when a document was uploaded, in UTC: an archive has no zone.
fn modified(document: &StoredDocument) -> DateTime {
    let at = document.created_at;
    let year = u16::try_from(at.year()).unwrap_or_default();
    let (hour, minute, second) = at.to_hms();
    DateTime::from_date_and_time(year, at.month().into(), at.day(), hour, minute, second)
        .unwrap_or_default()
}

/// Returns the bytes of an archive. When the store fails, the order is erased or a document withdrawn,
/// the body fails too, and actix cuts the connection: a part must not look whole.
fn body(first: Option<Bytes>, archive: Archive) -> impl Stream<Item = io::Result<Bytes>> {
    // actix reads a body outside of the span of its request.
    let span = Span::current();
    let rest = try_unfold((archive, span), |(mut archive, span)| async move {
        match archive.next().await {
            Ok(Some(bytes)) => Ok(Some((bytes, (archive, span)))),
            Ok(None) => Ok(None),
            Err(failure) => {
                span.in_scope(|| cut(&archive, failure));
                Err(io::Error::from(io::ErrorKind::UnexpectedEof))
            }
        }
    });
    stream::iter(first.map(Ok)).chain(rest)
}

/// Records that an archive ends before its end.
fn cut(archive: &Archive, failure: Failure) {
    let error: Cause = match failure {
        Failure::Cut(Cut::Gone)
        | Failure::Order(OrderError::Erased | OrderError::NoSuchOrder | OrderError::Withdrawn) => {
            tracing::info!("archive cut off: erased, withdrawn, or the key was revoked");
            return;
        }
        Failure::Order(error) => error.into(),
        Failure::Cut(Cut::Broken(error)) => error,
    };
    let document = archive.reading.as_ref().map(|reading| reading.id.position);
    tracing::error!(document, error = error_chain(&*error), "archive cut off: the store failed");
    archive.source.api.metrics.downloads_cut.inc();
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
