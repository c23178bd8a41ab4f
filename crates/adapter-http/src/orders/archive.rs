//! `GET /api/order/{order_id}/documents.zip`: sends all documents of an order in one archive.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    io::{self, Write},
    mem,
    rc::Rc,
    sync::Arc,
    vec,
};

use actix_web::{
    HttpRequest, HttpResponse,
    body::{BodyStream, MessageBody},
    http::{
        Method,
        header::{self, EntityTag},
    },
};
use bytes::Bytes;
use domain::{
    api_key::ApiKey,
    document::{DocumentKind, StoredDocument, sanitize_file_name},
    order::{Actor, DocumentId, StoredOrder},
    ports::{Cause, error_chain},
    use_cases::{change_order::Changer, order_error::OrderError, read_order::ReadOrder},
};
use futures_util::{
    StreamExt as _,
    stream::{self, try_unfold},
};
use sha2::{Digest as _, Sha256};
use tracing::Span;
use zip::{
    CompressionMethod, DateTime, ZipWriter,
    write::{SimpleFileOptions, StreamWriter},
};

use crate::{
    admission::{audit::Audit, rate_limit::Policy},
    orders::{
        document_blocks::{Cut, DocumentBlocks},
        erasure::Look,
        path,
    },
    request::notes::note,
    respond::{answer::Answer, conditional, problem::Problem},
    state::State,
};

/// The folder of documents that others replace, so that nobody prints them by mistake.
const REPLACED: &str = "replaced/";

/// Names of devices, which are no names of files on Windows. `0` stands for any digit.
const DEVICES: [&str; 6] = ["AUX", "CON", "NUL", "PRN", "COM0", "LPT0"];

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
    let (reading, owner) = (api.read_order.by(&admitted).clone(), admitted.owner());
    let order = reading.with_documents(owner, id).await?;
    let entries = entries(&order, kind);
    if entries.is_empty() {
        return Err(Problem::no_such_order());
    }
    let tag = tag(&entries);
    if let Some(not_modified) = conditional::not_modified(request, &tag) {
        return Ok(not_modified);
    }
    let mut response = conditional::with_tag(HttpResponse::Ok(), &tag);
    response
        .content_type("application/zip")
        .insert_header((header::CONTENT_DISPOSITION, disposition(&order, kind)));
    if request.method() == Method::HEAD {
        return Ok(response.body(BodyStream::new(stream::empty::<io::Result<Bytes>>())));
    }
    let is_for_other_side = Changer::of(admitted.key()).actor != Actor::uploading(kind);
    let key = Arc::clone(admitted.key());
    let mut archive = Archive::new(api, reading, key, is_for_other_side, entries);
    // Failures before the first byte are problems.
    if !archive.open_next().await.map_err(Failure::into_problem)? {
        return Err(Problem::no_such_order());
    }
    Ok(response.body(body(archive)))
}

/// Returns the validator of an archive: a hash of all that its bytes depend on.
fn tag(entries: &[Entry]) -> EntityTag {
    let mut hash = Sha256::new();
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

/// Returns the documents of a kind that are not withdrawn. Their names differ also where file systems
/// ignore the letter case.
fn entries(order: &StoredOrder, kind: DocumentKind) -> Vec<Entry> {
    let mut taken = BTreeSet::new();
    let documents = order.documents_of(kind).iter().zip(0..);
    let stored = documents.filter(|(document, _)| document.key.is_some());
    stored
        .map(|(document, position)| {
            let folder = if document.is_current() { "" } else { REPLACED };
            let name = unique_name(&format!("{folder}{}", file_name(&document.name)), &mut taken);
            let id = DocumentId { order: order.id, kind, position };
            Entry { id, name, document: document.clone() }
        })
        .collect()
}

/// Returns the name of a document as a name of a file on any system.
fn file_name(name: &str) -> String {
    let stem = name.split('.').next().unwrap_or_default().to_ascii_uppercase();
    let is_device = DEVICES.contains(&&*stem.replace(|c: char| c.is_ascii_digit(), "0"));
    if is_device { format!("_{name}") } else { name.to_owned() }
}

/// Returns a name that is not taken, with a number before its extension if it must differ.
fn unique_name(name: &str, taken: &mut BTreeSet<String>) -> String {
    let (stem, extension) = match name.rfind('.') {
        Some(dot) => name.split_at(dot),
        None => (name, ""),
    };
    let mut unique = name.to_owned();
    let mut number = 2_u32;
    while !taken.insert(unique.to_ascii_lowercase()) {
        unique = format!("{stem}_{number}{extension}");
        number = number.saturating_add(1);
    }
    unique
}

/// The reason why an archive ends before its end.
enum Failure {
    /// A document cannot be opened.
    Order(OrderError),
    /// A document ends before its end, or the archive cannot be written.
    Cut(Cut),
}

impl From<Cut> for Failure {
    fn from(cut: Cut) -> Self {
        Self::Cut(cut)
    }
}

impl Failure {
    fn into_problem(self) -> Problem {
        match self {
            Self::Order(error) => error.into(),
            Self::Cut(Cut::Gone) => OrderError::Erased.into(),
            Self::Cut(Cut::Broken(error)) => Problem::internal().log(&*error),
        }
    }
}

/// The output of the archive since it was last taken.
#[derive(Clone, Default)]
struct Output(Rc<RefCell<Vec<u8>>>);

impl Output {
    fn take(&self) -> Bytes {
        mem::take(&mut *self.0.borrow_mut()).into()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A document that is being sent.
struct Reading {
    id: DocumentId,
    blocks: DocumentBlocks,
    is_first: bool,
}

/// An archive that is being sent. It holds a block of a document, and the directory of the archive.
struct Archive {
    api: State,
    read_order: ReadOrder,
    key: Arc<ApiKey>,
    is_for_other_side: bool,
    waiting: vec::IntoIter<Entry>,
    reading: Option<Reading>,
    output: Output,
    /// None after its end.
    writer: Option<ZipWriter<StreamWriter<Output>>>,
}

impl Archive {
    fn new(
        api: State,
        read_order: ReadOrder,
        key: Arc<ApiKey>,
        is_for_other_side: bool,
        entries: Vec<Entry>,
    ) -> Self {
        let output = Output::default();
        let writer = Some(ZipWriter::new_stream(output.clone()));
        let waiting = entries.into_iter();
        Self { api, read_order, key, is_for_other_side, waiting, reading: None, output, writer }
    }

    /// Opens the next document; `false` if there is none. Leaves out one that is withdrawn meanwhile.
    async fn open_next(&mut self) -> Result<bool, Failure> {
        let Some(writer) = &mut self.writer else { return Ok(false) };
        let keys = &self.api.admission.keys;
        // Each document may be too short for a look at the key while it is sent.
        if !keys.is_still_valid(&self.key).await {
            return Err(Cut::Gone.into());
        }
        for Entry { id, name, document } in self.waiting.by_ref() {
            let Some(key) = &document.key else { continue };
            let reading = &self.read_order;
            let blocks = match reading.bytes(self.key.owner(), id, key, 0..document.size).await {
                Ok(blocks) => blocks,
                Err(OrderError::Withdrawn) => continue,
                Err(error) => {
                    if matches!(error, OrderError::MissingObject(_)) {
                        self.api.metrics.documents_missing.inc();
                    }
                    return Err(Failure::Order(error));
                }
            };
            // The documents are compressed already.
            let options = SimpleFileOptions::default()
                .compression_method(CompressionMethod::Stored)
                .last_modified_time(modified(&document));
            writer.start_file(name, options).map_err(|error| Cut::Broken(error.into()))?;
            self.reading = Some(Reading {
                id,
                blocks: DocumentBlocks {
                    blocks,
                    left: document.size,
                    look: Look::at(reading.clone(), keys.clone(), self.key.clone(), id),
                },
                is_first: document.first_downloaded_at.is_none(),
            });
            return Ok(true);
        }
        Ok(false)
    }

    /// Returns the next bytes of the archive; `None` after its end.
    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let Some(reading) = &mut self.reading else {
                if self.open_next().await? {
                    continue;
                }
                let Some(writer) = self.writer.take() else { return Ok(None) };
                writer.finish().map_err(|error| Cut::Broken(error.into()))?;
                return Ok(Some(self.output.take()));
            };
            if let Some(block) = reading.blocks.next().await? {
                self.api.metrics.document_bytes_read.inc_by(block.len() as u64);
                if let Some(writer) = &mut self.writer {
                    writer.write_all(&block).map_err(|error| Cut::Broken(error.into()))?;
                }
                return Ok(Some(self.output.take()));
            }
            if reading.is_first && self.is_for_other_side {
                self.read_order.note_download(reading.id);
            }
            self.reading = None;
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
fn body(archive: Archive) -> impl MessageBody + 'static {
    // actix reads a body outside of the span of its request.
    let span = Span::current();
    let bytes = try_unfold((archive, span), |(mut archive, span)| async move {
        match archive.next().await {
            Ok(Some(bytes)) => Ok(Some((bytes, (archive, span)))),
            Ok(None) => Ok(None),
            Err(failure) => {
                span.in_scope(|| cut(&archive, failure));
                Err(io::Error::from(io::ErrorKind::UnexpectedEof))
            }
        }
    });
    BodyStream::new(bytes.boxed_local())
}

/// Records that an archive ends before its end.
fn cut(archive: &Archive, failure: Failure) {
    let error: Cause = match failure {
        Failure::Cut(Cut::Gone) | Failure::Order(OrderError::Erased | OrderError::NoSuchOrder) => {
            tracing::info!("archive cut off: erased, withdrawn, or the key was revoked");
            return;
        }
        Failure::Order(error) => error.into(),
        Failure::Cut(Cut::Broken(error)) => error,
    };
    let document = archive.reading.as_ref().map(|reading| reading.id.position);
    tracing::error!(document, error = error_chain(&*error), "archive cut off: the store failed");
    archive.api.metrics.downloads_cut.inc();
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
