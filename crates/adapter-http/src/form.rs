//! Multipart forms with documents (RFC 7578), read as a stream.

mod content;
mod part_names;
mod spool;
mod spool_folder;
mod strict;
mod text_parts;

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use actix_multipart::{Field, Multipart, MultipartError};
use actix_web::{HttpRequest, http::header, web};
use domain::{
    api_key::ClientId,
    document::{Content, DocumentFormat, DocumentLimits, ReceivedDocument},
    order::OrderRequest,
};
use futures_util::StreamExt as _;

pub use self::{
    content::{check as check_content, check_bytes},
    spool::{Spool, SpoolGuard},
    text_parts::TEXT_PARTS,
};
use self::{
    part_names::names,
    spool::{SpoolError, Spooled},
    strict::StrictForm,
    text_parts::{TextParts, is_text_part, max_bytes as max_text_bytes},
};
use crate::{
    access::limits::used_up,
    body::Body,
    respond::problem::{Problem, ProblemCode},
};

/// Maximum number of parts. An order has at most 27, and forms may have fields of their own.
const MAX_PARTS: usize = 200;
/// Bytes of a form apart from its documents: text parts, boundaries and part headers.
const FORM_OVERHEAD: u64 = 4 * 1024 * 1024;
/// Maximum length of a boundary (RFC 2046, section 5.1.1).
const MAX_BOUNDARY: usize = 70;

/// A form that was read to its end.
pub struct OrderForm {
    /// The text parts as a request.
    pub request: OrderRequest,
    /// The documents, in the order of their parts.
    pub documents: Vec<ReceivedDocument>,
    /// The documents' files, which are deleted when this is dropped.
    pub held: Vec<SpoolGuard>,
}

/// Where a form is read to.
#[derive(Debug, Clone, Copy)]
pub struct FormSpace<'a> {
    /// Stores the documents.
    pub spool: &'a Spool,
    /// Limits for the documents.
    pub limits: DocumentLimits,
    /// The client of the request.
    pub client: ClientId,
    /// Whether the form may have text parts.
    pub has_texts: bool,
}

/// Returns the size limit of a whole form in bytes. It includes one document more than the limit,
/// so that `too_many_documents` is reported before `payload_too_large`.
pub(crate) fn max_bytes(limits: DocumentLimits) -> u64 {
    limits.max_bytes.saturating_mul(limits.max_count as u64 + 1).saturating_add(FORM_OVERHEAD)
}

/// Reads the form of an order, or of documents only.
pub async fn read(
    request: &HttpRequest,
    payload: web::Payload,
    space: FormSpace<'_>,
) -> Result<OrderForm, Problem> {
    let boundary = boundary(request)?;
    let body = Body::new(request, payload, max_bytes(space.limits));
    let strict = StrictForm::new(body.clone(), &boundary);
    let mut form = Multipart::new(request.headers(), strict);
    let (texts, documents, held) = (TextParts::default(), Vec::new(), Vec::new());
    let mut reader = FormReader { request, space, body, texts, documents, held };
    let mut count = 0;
    while let Some(part) = form.next().await {
        let part = part.map_err(|error| reader.unreadable(&error))?;
        count += 1;
        if count > MAX_PARTS {
            return Err(Problem::malformed(format!("The form has more than {MAX_PARTS} parts.")));
        }
        reader.part(part, count).await?;
    }
    let FormReader { body, texts, documents, held, .. } = reader;
    body.finish().await?;
    Ok(OrderForm { request: texts.into_request()?, documents, held })
}

/// Returns the boundary of the `multipart/form-data` content type.
fn boundary(request: &HttpRequest) -> Result<String, Problem> {
    let mut values = request.headers().get_all(header::CONTENT_TYPE);
    let content_type =
        values.next().and_then(|value| value.to_str().ok()?.parse::<mime::Mime>().ok());
    let form = content_type.filter(|content_type| {
        content_type.essence_str() == mime::MULTIPART_FORM_DATA.essence_str()
    });
    let form = form.ok_or_else(|| {
        Problem::new(
            ProblemCode::UnsupportedMediaType,
            "The content type must be multipart/form-data.",
        )
    })?;
    let boundaries: Vec<_> = form.params().filter(|(name, _)| *name == mime::BOUNDARY).collect();
    match boundaries[..] {
        _ if values.next().is_some() => {
            Err(Problem::malformed("The request has more than one content type."))
        }
        [] => Err(Problem::malformed("The content type has no boundary.")),
        [(_, boundary)] if (1..=MAX_BOUNDARY).contains(&boundary.as_str().len()) => {
            Ok(boundary.as_str().to_owned())
        }
        [_] => Err(Problem::malformed(format!(
            "The boundary must have 1 to {MAX_BOUNDARY} characters."
        ))),
        _ => Err(Problem::malformed("The content type has more than one boundary.")),
    }
}

struct FormReader<'a> {
    request: &'a HttpRequest,
    space: FormSpace<'a>,
    body: Body,
    texts: TextParts,
    documents: Vec<ReceivedDocument>,
    held: Vec<SpoolGuard>,
}

impl FormReader<'_> {
    /// Reads a part. The first part has number 1.
    async fn part(&mut self, part: Field, number: usize) -> Result<(), Problem> {
        let (name, file_name) = part_names(&part)?;
        let label = label(&name, number);
        match (name.as_str(), file_name) {
            ("documents", Some(file_name)) => self.document(file_name, part).await,
            ("documents", None) => Err(Problem::malformed(
                "A part named documents must be a file: it has no filename.",
            )),
            // Browsers give a typed text that a script appends the file name `blob`.
            (name, Some(file_name)) if !(file_name == "blob" && is_text_part(name)) => {
                let detail = format!("{label} is a file. Files must be parts named documents.");
                Err(Problem::malformed(detail))
            }
            _ if !self.space.has_texts => Err(Problem::malformed(format!(
                "{label} is not named documents. The form must have documents only."
            ))),
            (name, _) => {
                let text = self.text(part, &label, max_text_bytes(name)).await?;
                self.texts.add(name, text)
            }
        }
    }

    async fn text(&self, mut part: Field, label: &str, max: usize) -> Result<String, Problem> {
        let mut collected = Vec::new();
        while let Some(chunk) = part.next().await {
            collected.extend_from_slice(&chunk.map_err(|error| self.unreadable(&error))?);
            if collected.len() > max {
                return Err(Problem::new(
                    ProblemCode::PayloadTooLarge,
                    format!("{label} is larger than {max} bytes."),
                ));
            }
        }
        String::from_utf8(collected)
            .map_err(|_| Problem::malformed(format!("{label} is not UTF-8.")))
    }

    async fn document(&mut self, name_as_sent: String, mut part: Field) -> Result<(), Problem> {
        // Browsers send an empty part without a name for an empty file input.
        let nothing_chosen = name_as_sent.is_empty();
        let limits = self.space.limits;
        let is_full = self.documents.len() == limits.max_count;
        if is_full && !nothing_chosen {
            return Err(too_many_documents(limits));
        }
        let mut writer = self.space.spool.create(self.space.client);
        while let Some(chunk) = part.next().await {
            let chunk = chunk.map_err(|error| self.unreadable(&error))?;
            writer.write(chunk).await.map_err(|error| self.not_spooled(error))?;
            if is_full && writer.size() > 0 {
                return Err(too_many_documents(limits));
            }
            if writer.size() > limits.max_bytes {
                return Err(document_too_large(&name_as_sent, limits));
            }
        }
        if nothing_chosen && writer.size() == 0 {
            return Ok(());
        }
        let format = DocumentFormat::of_file_name(&name_as_sent);
        let check = move |path: &Path| recognize(format, path);
        let Spooled { file, content, guard } =
            writer.finish(check).await.map_err(|error| self.not_spooled(error))?;
        self.documents.push(ReceivedDocument { name_as_sent, file, content });
        self.held.push(guard);
        Ok(())
    }

    fn unreadable(&self, error: &MultipartError) -> Problem {
        match error {
            MultipartError::Payload(error) => self.body.explain(error),
            error => Problem::malformed(format!("The body could not be read: {error}.")),
        }
    }

    fn not_spooled(&self, error: SpoolError) -> Problem {
        match error {
            SpoolError::Full => used_up(self.request),
            // The disk is full or broken, or the process has no file descriptors left.
            SpoolError::Io(error) => Problem::unavailable().log(&error),
        }
    }
}

/// Returns the field name and the file name of a part. actix-multipart looks only at the first
/// `Content-Type`, which must not be nested, and the first `Content-Disposition`.
fn part_names(part: &Field) -> Result<(String, Option<String>), Problem> {
    let mut types = part.headers().get_all(header::CONTENT_TYPE);
    if types.any(|value| value.as_bytes().to_ascii_lowercase().starts_with(b"multipart/")) {
        return Err(Problem::malformed("A part has parts itself."));
    }
    let mut dispositions = part.headers().get_all(header::CONTENT_DISPOSITION);
    match (part.content_disposition(), dispositions.next(), dispositions.next()) {
        (Some(parsed), Some(written), None) => names(parsed, written),
        _ => Err(Problem::malformed("A part does not have one Content-Disposition.")),
    }
}

/// Checks the content against the format that the extension names.
fn recognize(format: Option<DocumentFormat>, path: &Path) -> io::Result<Content> {
    let Some(format) = format else { return Ok(Content::Other) };
    catch_unwind(AssertUnwindSafe(|| check_content(format, path))).unwrap_or_else(|_| {
        // A file that makes a container parser panic is not a valid document. The panic hook has
        // logged the panic without its message, which may quote the file.
        tracing::error!(?format, "content check panicked");
        Ok(Content::Other)
    })
}

/// Reports a form with more documents than the limit.
pub(crate) fn too_many_documents(limits: DocumentLimits) -> Problem {
    Problem::new(
        ProblemCode::TooManyDocuments,
        format!("A request can have at most {} documents.", limits.max_count),
    )
}

/// Reports a document that is larger than the limit. Names the file, cut to a readable length.
pub(crate) fn document_too_large(name: &str, limits: DocumentLimits) -> Problem {
    let name: String = name.chars().take(200).collect();
    Problem::new(
        ProblemCode::DocumentTooLarge,
        format!("The document \u{201c}{name}\u{201d} is larger than {} bytes.", limits.max_bytes),
    )
}

/// Returns the label of a part in an answer. Names that an order does not have may be anything, so
/// they are not repeated.
fn label(name: &str, number: usize) -> String {
    if is_text_part(name) {
        format!("The part {name}")
    } else {
        format!("Part {number} of the form")
    }
}

#[cfg(test)]
#[path = "form/tests.rs"]
mod tests;
