//! Multipart forms with documents (RFC 7578), read as a stream.

mod part_names;
mod text_parts;

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
};

use actix_web::{HttpRequest, http::header, web};
use bytes::Bytes;
use domain::{
    api_key::ApiKeyId,
    document::{Content, DocumentFormat, DocumentLimits, ReceivedDocument},
    order::OrderRequest,
};
use futures_util::FutureExt as _;

pub use self::text_parts::TEXT_PARTS;
use self::{
    part_names::names,
    text_parts::{TextParts, is_text_part, max_bytes as max_text_bytes},
};
use crate::{
    body::Body,
    budget::used_up,
    content,
    parts::{PartHead, Parts},
    problem::{Problem, ProblemCode},
    spool::{Spool, SpoolError, SpoolGuard, SpoolWriter, Spooled, Start},
};

/// Maximum number of parts. An order has at most 27, and forms may have fields of their own.
const MAX_PARTS: usize = 200;
/// Bytes of a form apart from its documents: text parts, boundaries and part headers.
const FORM_OVERHEAD: u64 = 4 * 1024 * 1024;
/// Maximum length of a boundary (RFC 2046, section 5.1.1).
const MAX_BOUNDARY: usize = 70;

/// The form of an order, read to its end.
pub struct OrderForm {
    /// The text parts as a request.
    pub request: OrderRequest,
    /// The documents.
    pub uploads: Uploads,
}

/// The documents of a form that was read to its end.
pub struct Uploads {
    /// The documents, in the order of their parts.
    pub documents: Vec<ReceivedDocument>,
    /// What the documents hold until they are stored.
    pub held: Held,
}

/// The spooled files of a form, which are deleted when it is dropped.
pub struct Held {
    _guards: Vec<SpoolGuard>,
}

/// Where a form is read to.
#[derive(Debug, Clone, Copy)]
pub struct FormSpace<'a> {
    /// Stores the documents.
    pub spool: &'a Spool,
    /// Limits for the documents.
    pub limits: DocumentLimits,
    /// The key of the request.
    pub key: ApiKeyId,
}

/// Returns the size limit of a whole form in bytes. It includes one document more than the limit,
/// so that `too_many_documents` is reported before `payload_too_large`.
pub(crate) fn max_bytes(limits: DocumentLimits) -> u64 {
    limits.max_bytes.saturating_mul(limits.max_count as u64 + 1).saturating_add(FORM_OVERHEAD)
}

/// Reads the form of an order.
pub async fn read(
    request: &HttpRequest,
    payload: web::Payload,
    space: FormSpace<'_>,
) -> Result<OrderForm, Problem> {
    let mut texts = TextParts::default();
    let uploads = read_parts(request, payload, space, Some(&mut texts)).await?;
    Ok(OrderForm { request: texts.into_request()?, uploads })
}

/// Reads a form that has documents only.
pub(crate) async fn read_documents(
    request: &HttpRequest,
    payload: web::Payload,
    space: FormSpace<'_>,
) -> Result<Uploads, Problem> {
    read_parts(request, payload, space, None).await
}

/// Reads a form. Without `texts`, a text part is an error.
async fn read_parts(
    request: &HttpRequest,
    payload: web::Payload,
    space: FormSpace<'_>,
    texts: Option<&mut TextParts>,
) -> Result<Uploads, Problem> {
    let boundary = boundary(request)?;
    let body = Body::new(request, payload, max_bytes(space.limits));
    let parts = Parts::new(body.clone(), &boundary);
    let mut reader = FormReader {
        request,
        space,
        body,
        parts,
        texts,
        documents: Vec::new(),
        guards: Vec::new(),
    };
    let mut count = 0;
    while let Some(part) = reader.parts.next().await.map_err(|error| reader.body.explain(&error))? {
        count += 1;
        if count > MAX_PARTS {
            return Err(Problem::malformed(format!("The form has more than {MAX_PARTS} parts.")));
        }
        reader.part(part, count).await?;
    }
    reader.body.finish().await?;
    let held = Held { _guards: reader.guards };
    Ok(Uploads { documents: reader.documents, held })
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
    parts: Parts<Body>,
    /// `None` if the form has documents only.
    texts: Option<&'a mut TextParts>,
    documents: Vec<ReceivedDocument>,
    guards: Vec<SpoolGuard>,
}

impl FormReader<'_> {
    /// Reads a part. The first part has number 1.
    async fn part(&mut self, part: PartHead, number: usize) -> Result<(), Problem> {
        let (name, file_name) = names(&part)?;
        // Thousands of parameters take more memory than the form holds, and content may be slow.
        drop(part);
        match (name.as_str(), file_name) {
            ("documents", Some(file_name)) => self.document(file_name).await,
            ("documents", None) => Err(Problem::malformed(
                "A part named documents must be a file: it has no filename.",
            )),
            // Browsers give a typed text that a script appends the file name `blob`.
            (name, Some(file_name)) if !(file_name == "blob" && is_text_part(name)) => {
                Err(Problem::malformed(format!(
                    "{} is a file. Files must be parts named documents.",
                    label(name, number)
                )))
            }
            (name, _) => {
                if self.texts.is_none() {
                    return Err(Problem::malformed(format!(
                        "{} is not named documents. The form must have documents only.",
                        label(name, number)
                    )));
                }
                let text = self.text(&label(name, number), max_text_bytes(name)).await?;
                self.texts.as_mut().map_or(Ok(()), |texts| texts.add(name, text))
            }
        }
    }

    async fn text(&mut self, label: &str, max: usize) -> Result<String, Problem> {
        let mut collected = Vec::new();
        while let Some(chunk) = self.content().await? {
            if collected.len() + chunk.len() > max {
                return Err(Problem::new(
                    ProblemCode::PayloadTooLarge,
                    format!("{label} is larger than {max} bytes."),
                ));
            }
            collected.extend_from_slice(&chunk);
        }
        String::from_utf8(collected)
            .map_err(|_| Problem::malformed(format!("{label} is not UTF-8.")))
    }

    async fn document(&mut self, name_as_sent: String) -> Result<(), Problem> {
        // Browsers send an empty part without a name for an empty file input.
        let nothing_chosen = name_as_sent.is_empty();
        let is_full = self.documents.len() == self.space.limits.max_count;
        if is_full && !nothing_chosen {
            return Err(too_many_documents(self.space.limits));
        }
        let mut writer = self.space.spool.create(self.space.key);
        while self.store_next(&mut writer).await? {
            if is_full && writer.size() > 0 {
                return Err(too_many_documents(self.space.limits));
            }
            if writer.size() > self.space.limits.max_bytes {
                return Err(document_too_large(&name_as_sent, self.space.limits));
            }
        }
        if nothing_chosen && writer.size() == 0 {
            return Ok(());
        }
        let format = DocumentFormat::of_file_name(&name_as_sent);
        let check = move |start: Start<'_>| recognize(format, start);
        let Spooled { file, checked: content, guard } =
            writer.finish(check).await.map_err(|error| self.not_spooled(error))?;
        self.documents.push(ReceivedDocument { name_as_sent, file, content });
        self.guards.push(guard);
        Ok(())
    }

    /// Returns the next bytes of the part.
    async fn content(&mut self) -> Result<Option<Bytes>, Problem> {
        self.parts.content().await.map_err(|error| self.body.explain(&error))
    }

    /// Stores the next bytes of the part. Returns `false` at its end.
    async fn store_next(&mut self, writer: &mut SpoolWriter) -> Result<bool, Problem> {
        if let Some(content) = self.content().now_or_never() {
            return self.store(content?, writer).await;
        }
        writer.pause().await.map_err(|error| self.not_spooled(error))?;
        let content = self.content().await?;
        self.store(content, writer).await
    }

    async fn store(
        &self,
        content: Option<Bytes>,
        writer: &mut SpoolWriter,
    ) -> Result<bool, Problem> {
        let Some(content) = content else { return Ok(false) };
        writer.write(content).await.map_err(|error| self.not_spooled(error))?;
        Ok(true)
    }

    fn not_spooled(&self, error: SpoolError) -> Problem {
        match error {
            SpoolError::Full => used_up(self.request),
            SpoolError::Io(error) => spool_failed(&error),
        }
    }
}

/// Checks the content against the format that the extension names.
fn recognize(format: Option<DocumentFormat>, start: Start<'_>) -> io::Result<Content> {
    let Some(format) = format else { return Ok(Content::Other) };
    catch_unwind(AssertUnwindSafe(|| content::check_with_start(format, start.bytes, start.path)))
        .unwrap_or_else(|_| {
            // A file that makes a container parser panic is not a valid document. The panic hook
            // has logged the panic without its message, which may quote the file.
            tracing::error!(?format, "content check panicked");
            Ok(Content::Other)
        })
}

/// Reports that the disk is full or broken, or that the process has no file descriptors left.
fn spool_failed(error: &io::Error) -> Problem {
    Problem::unavailable().log(error)
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
#[path = "form_tests.rs"]
mod tests;
