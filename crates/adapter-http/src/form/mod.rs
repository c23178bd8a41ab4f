//! Multipart forms with documents (RFC 7578), read as a stream.

mod content;
mod header_names;
mod spool;
mod spool_folder;
mod strict;
mod text_parts;

use std::{
    io::{self, ErrorKind},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use actix_multipart::{Field, Multipart, MultipartError};
use actix_web::{
    HttpRequest,
    error::PayloadError,
    http::header::{self, HeaderMap, HeaderName, HeaderValue},
    web,
};
use domain::{
    api_key::Party,
    document::{Content, DocumentFormat, DocumentLimits, ReceivedDocument},
    order::OrderRequest,
    request::Unknown,
};
use encoding_rs::{Encoding, UTF_8};
use futures_util::StreamExt as _;

pub use self::{
    content::{check as check_content, check_bytes},
    spool::{Spool, SpoolGuard},
    text_parts::TEXT_PARTS,
};
use self::{
    header_names::{encoding, kind, names},
    strict::StrictForm,
    text_parts::{max_bytes as max_text_bytes, text_part},
};
use crate::{
    admission::limits::used_up,
    body,
    respond::problem::{Problem, ProblemCode},
};

/// Maximum number of parts. An order has at most 27, and forms may have fields of their own.
const MAX_PARTS: usize = 200;
/// Maximum size of what a form holds in memory until its end, in bytes: its texts and the names of its documents. An
/// order with every text at its limit has a fifth of it.
const MAX_HELD: usize = 256 * 1024;
/// Bytes of a form apart from its documents: text parts, boundaries and part headers.
const FORM_OVERHEAD: u64 = 4 * 1024 * 1024;
const CONTENT_TRANSFER_ENCODING: HeaderName = HeaderName::from_static("content-transfer-encoding");
/// Maximum length of a boundary (RFC 2046, section 5.1.1).
const MAX_BOUNDARY: usize = 70;

/// A form that was read to its end.
#[derive(Default)]
pub struct OrderForm {
    /// The text parts as a request.
    pub request: OrderRequest,
    /// The documents, in the order of their parts.
    pub documents: Vec<ReceivedDocument>,
    /// The documents' files, which are deleted when this is dropped.
    pub held: Vec<SpoolGuard>,
    /// The position of the document that this one replaces, as the client sent it; not blank.
    pub replaces: Option<String>,
}

/// The text parts that a form may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Texts {
    /// Those of an order, and any others, which are ignored.
    Order,
    /// The position of the document that the document of the form replaces.
    Replaces,
    /// None.
    None,
}

impl Texts {
    /// Finds the text part of this name.
    fn named(self, name: &str) -> Option<&'static str> {
        match self {
            Self::Order => text_part(name),
            Self::Replaces => (name == REPLACES).then_some(REPLACES),
            Self::None => None,
        }
    }
}

const REPLACES: &str = "replaces";

/// Where a form is read to.
#[derive(Debug, Clone, Copy)]
pub struct FormSpace<'a> {
    /// Stores the documents.
    pub spool: &'a Spool,
    /// Limits for the documents.
    pub limits: DocumentLimits,
    /// The party of the request.
    pub party: Party,
    /// The text parts that the form may have.
    pub texts: Texts,
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
    let body = body::limited(request, payload, max_bytes(space.limits));
    let strict = StrictForm::new(body, &boundary);
    let mut parts = Multipart::new(&multipart_headers(&boundary)?, strict);
    let (form, texts, faults) = (OrderForm::default(), Vec::new(), Vec::new());
    let mut reader = FormReader { request, space, form, texts, faults, number: 1, held: 0 };
    while let Some(part) = parts.next().await {
        let part = part.map_err(|error| reader.unreadable(&error))?;
        if reader.number > MAX_PARTS {
            return Err(Problem::malformed(format!("The form has more than {MAX_PARTS} parts.")));
        }
        reader.part(part).await?;
        reader.number += 1;
    }
    if reader.faults.is_empty() {
        Ok(reader.form)
    } else {
        Err(Problem::malformed(reader.faults.join(" ")))
    }
}

/// Returns the boundary of the `multipart/form-data` content type.
fn boundary(request: &HttpRequest) -> Result<String, Problem> {
    let mut values = request.headers().get_all(header::CONTENT_TYPE);
    let form = values.next().filter(|content_type| kind(content_type) == "multipart/form-data");
    let form = form.ok_or_else(|| {
        Problem::new(
            ProblemCode::UnsupportedMediaType,
            "The content type must be multipart/form-data; boundary=\u{2026}.",
        )
    })?;
    if values.next().is_some() {
        return Err(Problem::malformed("The request has more than one content type."));
    }
    let boundary = header_names::boundary(form)
        .map_err(|fault| Problem::malformed(format!("The content type {fault}.")))?;
    if (1..=MAX_BOUNDARY).contains(&boundary.len()) {
        Ok(boundary)
    } else {
        let detail = format!("The boundary must have 1 to {MAX_BOUNDARY} characters.");
        Err(Problem::malformed(detail))
    }
}

/// Returns the headers from which actix-multipart takes the boundary. It reads the names of parts
/// only in `form-data`, and otherwise than [`names`].
fn multipart_headers(boundary: &str) -> Result<HeaderMap, Problem> {
    let content_type = HeaderValue::try_from(format!("multipart/mixed; boundary=\"{boundary}\""));
    let content_type = content_type.map_err(|_| Problem::malformed("The boundary is invalid."))?;
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, content_type);
    Ok(headers)
}

struct FormReader<'a> {
    request: &'a HttpRequest,
    space: FormSpace<'a>,
    form: OrderForm,
    /// The names of the text parts that have arrived.
    texts: Vec<&'static str>,
    /// The faults of the documents.
    faults: Vec<String>,
    /// The number of the part that is read, from 1.
    number: usize,
    /// The bytes of its texts and names so far.
    held: usize,
}

impl FormReader<'_> {
    async fn part(&mut self, part: Field) -> Result<(), Problem> {
        let (name, file_name) = part_names(&part).map_err(|fault| self.malformed(fault))?;
        let known = self.space.texts.named(&name);
        let label = label(known, self.number);
        match (name.as_str(), file_name) {
            ("documents", Some(file_name)) => self.document(file_name, part).await,
            ("documents", None) => Err(Problem::malformed(
                "A part named documents must be a file: it has no filename.",
            )),
            // Clients give texts file names: `requests` for each part, `curl` for `@x.json`, browsers for typed ones.
            (_, Some(_)) if known.is_none() => {
                let detail = format!("{label} is a file. Files must be parts named documents.");
                Err(Problem::malformed(detail))
            }
            _ if known.is_none() && self.space.texts != Texts::Order => Err(Problem::malformed(
                format!("{label} is not named documents. The form must have documents only."),
            )),
            (name, _) => {
                let text = self.text(part, &label, max_text_bytes(name)).await?;
                self.add_text(name, text)
            }
        }
    }

    /// Counts bytes that are held until the end of the form.
    fn hold(&mut self, bytes: usize) -> Result<(), Problem> {
        self.held += bytes;
        if self.held > MAX_HELD {
            let detail = format!(
                "The texts and names of the form are larger than {MAX_HELD} bytes together."
            );
            return Err(Problem::new(ProblemCode::PayloadTooLarge, detail));
        }
        Ok(())
    }

    /// Adds a text part to the request.
    fn add_text(&mut self, name: &str, text: String) -> Result<(), Problem> {
        if name == "_charset_" && Encoding::for_label(text.as_bytes()) != Some(UTF_8) {
            return Err(self.malformed("names another charset than UTF-8"));
        }
        if let Some(known) = self.space.texts.named(name) {
            if self.texts.contains(&known) {
                return Err(Problem::malformed(format!("The form has two parts {name}.")));
            }
            self.texts.push(known);
            self.hold(text.trim().len())?;
        }
        if self.space.texts == Texts::Replaces {
            self.form.replaces = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        } else if let Err(error) = self.form.request.add_part(name, text) {
            self.faults.push(format!("The part {name} is not valid JSON: {error}."));
        } else if self.space.texts.named(name).is_none() {
            self.hold(self.form.request.unknown.last().map_or(0, Unknown::size))?;
        }
        Ok(())
    }

    async fn text(&self, mut part: Field, label: &str, max: usize) -> Result<String, Problem> {
        let encoding = encoding(part.headers()).map_err(|fault| self.malformed(fault))?;
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
        let (text, has_faults) = encoding.decode_with_bom_removal(&collected);
        if has_faults {
            return Err(Problem::malformed(format!("{label} is not {}.", encoding.name())));
        }
        Ok(text.into_owned())
    }

    async fn document(&mut self, name_as_sent: String, mut part: Field) -> Result<(), Problem> {
        // Browsers send an empty part without a name for an empty file input.
        let nothing_chosen = name_as_sent.is_empty();
        let limits = self.space.limits;
        let is_full = self.form.documents.len() == limits.max_count;
        if is_full && !nothing_chosen {
            return Err(too_many_documents(limits));
        }
        self.hold(name_as_sent.len())?;
        // The disk is full or broken, or the process has no file descriptors left.
        let not_spooled = |error: io::Error| Problem::unavailable().log(&error);
        let mut writer = self.space.spool.create(self.space.party);
        while let Some(chunk) = part.next().await {
            let chunk = chunk.map_err(|error| self.unreadable(&error))?;
            if !writer.reserve(chunk.len()) {
                return Err(used_up(self.request));
            }
            writer = writer.write(chunk).await.map_err(not_spooled)?;
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
        let (document, held) = writer.finish(name_as_sent, recognize).await.map_err(not_spooled)?;
        self.form.documents.push(document);
        self.form.held.push(held);
        Ok(())
    }

    /// Says which part is at fault, and why.
    fn malformed(&self, fault: &str) -> Problem {
        Problem::malformed(format!("Part {} of the form {fault}.", self.number))
    }

    fn unreadable(&self, error: &MultipartError) -> Problem {
        match error {
            MultipartError::Payload(PayloadError::Io(error))
                if error.kind() == ErrorKind::InvalidData =>
            {
                Problem::malformed(error.to_string())
            }
            MultipartError::Payload(PayloadError::Overflow) => {
                self.malformed("has a line that is too long")
            }
            MultipartError::Payload(error) => body::explain(error, max_bytes(self.space.limits)),
            MultipartError::Incomplete => {
                Problem::malformed("The form ends before its last boundary.")
            }
            MultipartError::Nested => self.malformed("has parts itself"),
            MultipartError::Parse(_) => self.malformed("has headers that cannot be read"),
            _ => self.malformed("does not begin and end with the boundary"),
        }
    }
}

/// Returns the field name and the file name of a part, or what is wrong with it. Its content is
/// stored as it is sent, so it must not be encoded.
fn part_names(part: &Field) -> Result<(String, Option<String>), &'static str> {
    let headers = part.headers();
    if headers.get_all(header::CONTENT_TYPE).any(|value| kind(value).starts_with("multipart/")) {
        return Err("has parts itself");
    }
    let is_plain = |value| ["7bit", "8bit", "binary"].contains(&kind(value).as_str());
    if !headers.get_all(CONTENT_TRANSFER_ENCODING).all(is_plain) {
        return Err("has a Content-Transfer-Encoding: send its bytes as they are");
    }
    let mut dispositions = headers.get_all(header::CONTENT_DISPOSITION);
    match (dispositions.next(), dispositions.next()) {
        (Some(disposition), None) => names(disposition),
        _ => Err("does not have one Content-Disposition"),
    }
}

/// Checks the content of a document against the format that its name announces.
fn recognize(name: &str, path: &Path) -> io::Result<Content> {
    let Some(format) = DocumentFormat::of_file_name(name) else { return Ok(Content::Other(None)) };
    catch_unwind(AssertUnwindSafe(|| check_content(format, path))).unwrap_or_else(|_| {
        // A file that makes a container parser panic is not a valid document. The panic hook has
        // logged the panic without its message, which may quote the file.
        tracing::error!(?format, "content check panicked");
        Ok(Content::Other(None))
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

/// Returns the label of a part in the detail of an answer. Names that an order does not have may be
/// anything, so details do not repeat them.
fn label(known: Option<&str>, number: usize) -> String {
    match known {
        Some(name) => format!("The part {name}"),
        None => format!("Part {number} of the form"),
    }
}

#[cfg(test)]
mod tests;
