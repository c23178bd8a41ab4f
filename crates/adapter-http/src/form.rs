//! The multipart form of an order with documents (RFC 7578), read as a stream.

use std::{future::Future, io};

use actix_multipart::{Field as Part, Multipart, MultipartConfig};
use actix_web::{FromRequest as _, HttpRequest, dev::Payload, http::header, web};
use domain::{
    document::{DocumentFormat, DocumentLimits, ReceivedDocument},
    order::{Field, JsonType, OrderRequest},
};
use futures_util::{FutureExt as _, StreamExt as _};
use serde::de::DeserializeOwned;
use tempfile::TempPath;
use tokio::{task::spawn_blocking, time::timeout};

use crate::{
    body::{Body, PATIENCE},
    content,
    part_lengths::WithoutPartLengths,
    problem::{Problem, ProblemCode, logged},
    spool::{Spool, Spooled},
};

/// Bytes of one part that is text.
pub(crate) const MAX_TEXT_PART: usize = 256 * 1024;
/// Parts of a form; an order has 27 at the most, and forms may have fields of their own.
const MAX_PARTS: usize = 200;
/// Bytes of a form beside its documents: text parts, boundaries and part headers.
const FORM_OVERHEAD: u64 = 4 * 1024 * 1024;
/// Parts that are texts, with the type of what they hold.
pub(crate) const TEXT_PARTS: [(&str, &str); 7] = [
    ("signingContactsFormData", "application/json"),
    ("signingDetailsFormData", "application/json"),
    ("signingServiceId", "text/plain"),
    ("utcTimeDate", "text/plain"),
    ("utcStartTimeDate", "text/plain"),
    ("utcEndTimeDate", "text/plain"),
    ("requestedBy", "application/json"),
];
/// Characters of a boundary (RFC 2046 section 5.1.1).
const MAX_BOUNDARY: usize = 70;

/// A form that was read to its end.
pub(crate) struct OrderForm {
    pub(crate) request: OrderRequest,
    pub(crate) documents: Vec<ReceivedDocument>,
    /// Keep the documents on disk; dropped, they are gone.
    pub(crate) guards: Vec<TempPath>,
}

/// How the parser reads a form: its buffer is what an upload holds in memory, and the most that the
/// headers of a part may have.
pub(crate) fn parser_config() -> MultipartConfig {
    MultipartConfig::new().buffer_limit(16 * 1024)
}

/// Bytes of a whole form: one document more than there may be, so that one too many is told from
/// too large.
pub(crate) fn cap(limits: DocumentLimits) -> u64 {
    limits.max_bytes.saturating_mul(limits.max_count as u64 + 1).saturating_add(FORM_OVERHEAD)
}

/// Reads the form of a request.
pub(crate) async fn read(
    request: &HttpRequest,
    payload: web::Payload,
    spool: &Spool,
    limits: DocumentLimits,
) -> Result<OrderForm, Problem> {
    let boundary = boundary(request)?;
    let body = Body::new(request, payload, cap(limits));
    let mut form: Payload =
        Payload::Stream { payload: Box::pin(WithoutPartLengths::new(body.clone(), &boundary)) };
    let mut parts = Multipart::from_request(request, &mut form)
        .await
        .map_err(|error| Problem::malformed(format!("The form is broken: {error}.")))?;
    let mut reader = FormReader {
        spool,
        limits,
        body,
        form: TextParts::default(),
        documents: Vec::new(),
        guards: Vec::new(),
    };
    let mut count = 0;
    while let Some(part) = reader.patiently(parts.next()).await? {
        let part = part.map_err(|error| reader.body.explain(&error))?;
        count += 1;
        if count > MAX_PARTS {
            return Err(Problem::malformed(format!("The form has more than {MAX_PARTS} parts.")));
        }
        reader.part(part, count).await?;
    }
    reader.body.finish().await?;
    Ok(OrderForm {
        request: reader.form.into_request()?,
        documents: reader.documents,
        guards: reader.guards,
    })
}

/// The one boundary of `multipart/form-data`, or what is wrong with the content type.
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
        _ if values.next().is_some() => Err(Problem::malformed("The content type is given twice.")),
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
    spool: &'a Spool,
    limits: DocumentLimits,
    body: Body,
    form: TextParts,
    documents: Vec<ReceivedDocument>,
    guards: Vec<TempPath>,
}

impl FormReader<'_> {
    async fn patiently<T>(&self, next: impl Future<Output = T>) -> Result<T, Problem> {
        timeout(PATIENCE, next).await.map_err(|_| Problem::malformed("The form stopped arriving."))
    }

    /// Reads a part, the first of which is number 1.
    async fn part(&mut self, part: Part, number: usize) -> Result<(), Problem> {
        let (name, file_name) = names(&part)?;
        match (name.as_str(), file_name) {
            ("documents", Some(file_name)) => self.document(part, file_name).await,
            ("documents", None) => Err(Problem::malformed(
                "A part named documents must be a file: it has no filename.",
            )),
            // Browsers send a text that a script appends with its type as a file of this name.
            (name, Some(file_name))
                if file_name == "blob" && TEXT_PARTS.iter().any(|(known, _)| *known == name) =>
            {
                let text = self.text(part, &named(name, number)).await?;
                self.form.set(name, text)
            }
            (name, Some(_)) => Err(Problem::malformed(format!(
                "{} is a file; files are parts named documents.",
                named(name, number)
            ))),
            (name, None) => {
                let text = self.text(part, &named(name, number)).await?;
                self.form.set(name, text)
            }
        }
    }

    async fn text(&self, mut part: Part, named: &str) -> Result<String, Problem> {
        let mut collected = Vec::new();
        while let Some(chunk) = self.patiently(part.next()).await? {
            collected.extend_from_slice(&chunk.map_err(|error| self.body.explain(&error))?);
            if collected.len() > MAX_TEXT_PART {
                return Err(Problem::new(
                    ProblemCode::PayloadTooLarge,
                    format!("{named} is larger than {MAX_TEXT_PART} bytes."),
                ));
            }
        }
        String::from_utf8(collected)
            .map_err(|_| Problem::malformed(format!("{named} is not UTF-8.")))
    }

    async fn document(&mut self, mut part: Part, name_as_sent: String) -> Result<(), Problem> {
        let DocumentLimits { max_count, max_bytes } = self.limits;
        // What browsers send for a file input in which nothing was chosen.
        let nothing_chosen = name_as_sent.is_empty();
        if self.documents.len() == max_count && !nothing_chosen {
            return Err(Problem::new(
                ProblemCode::TooManyDocuments,
                format!("At most {max_count} documents can be sent with an order."),
            ));
        }
        let mut writer = self.spool.create();
        loop {
            let next = if let Some(next) = part.next().now_or_never() {
                next
            } else {
                writer.pause().await.map_err(|error| spool_failed(&error))?;
                self.patiently(part.next()).await?
            };
            let Some(chunk) = next else { break };
            writer
                .write(chunk.map_err(|error| self.body.explain(&error))?)
                .await
                .map_err(|error| spool_failed(&error))?;
            if writer.size() > max_bytes {
                let detail = format!(
                    "The document {} is larger than {max_bytes} bytes.",
                    quoted(&name_as_sent)
                );
                return Err(Problem::new(ProblemCode::DocumentTooLarge, detail));
            }
        }
        if nothing_chosen && writer.size() == 0 {
            return Ok(());
        }
        let Spooled { file, guard } =
            writer.finish().await.map_err(|error| spool_failed(&error))?;
        let content = recognize(&name_as_sent, file.path.clone()).await?;
        self.documents.push(ReceivedDocument { name_as_sent, file, content });
        self.guards.push(guard);
        Ok(())
    }
}

/// The format that the name announces, if the content is of it.
async fn recognize(
    name: &str,
    path: std::path::PathBuf,
) -> Result<Option<DocumentFormat>, Problem> {
    let Some(format) = DocumentFormat::of_file_name(name) else { return Ok(None) };
    if let Ok(checked) = spawn_blocking(move || content::is(format, &path)).await {
        return checked.map(|is| is.then_some(format)).map_err(|error| spool_failed(&error));
    }
    // A reader of containers that breaks on a file has said enough about the file. The panic hook
    // has told of the place; what the panic says may quote the file.
    tracing::error!(?format, "content check panicked");
    Ok(None)
}

/// The disk is full or broken, or files have run out: nothing that the client could mend.
fn spool_failed(error: &io::Error) -> Problem {
    logged(error, Problem::unavailable())
}

/// A part, as the client is told of it. A name that an order does not know may be anything, so it
/// is not repeated.
fn named(name: &str, number: usize) -> String {
    if TEXT_PARTS.iter().any(|(known, _)| *known == name) {
        format!("The part {name}")
    } else {
        format!("Part {number} of the form")
    }
}

/// The name of a client's own file in an answer to it, cut to a length that a person reads.
fn quoted(text: &str) -> String {
    let cut: String = text.chars().take(200).collect();
    format!("\u{201c}{cut}\u{201d}")
}

/// Field name and file name of a part, each given once.
fn names(part: &Part) -> Result<(String, Option<String>), Problem> {
    let disposition = part
        .content_disposition()
        .ok_or_else(|| Problem::malformed("A part has no Content-Disposition."))?;
    let (mut names, mut file_names, mut extended) = (Vec::new(), Vec::new(), Vec::new());
    for parameter in &disposition.parameters {
        names.extend(parameter.as_name());
        file_names.extend(parameter.as_filename());
        extended.extend(parameter.as_filename_ext());
    }
    let repeated_header = part.headers().get_all(header::CONTENT_DISPOSITION).count() > 1;
    match (&names[..], &file_names[..], &extended[..]) {
        _ if repeated_header => {
            Err(Problem::malformed("A part has more than one Content-Disposition."))
        }
        ([name], [], []) => Ok(((*name).to_owned(), None)),
        ([name], [file_name], [] | [_]) => {
            // Both are the same but for backslashes, unless the header has a file name where there
            // is none.
            let same = |written: &String| written.replace('\\', "") == file_name.replace('\\', "");
            Ok((
                (*name).to_owned(),
                Some(
                    written_file_name(part).filter(same).unwrap_or_else(|| (*file_name).to_owned()),
                ),
            ))
        }
        // RFC 7578 section 4.2 forbids the extended form, but older clients send it alone for names
        // beyond ASCII.
        ([name], [], [file_name]) => match String::from_utf8(file_name.value.clone()) {
            Ok(file_name) if !file_name.contains('\0') => Ok(((*name).to_owned(), Some(file_name))),
            _ => Err(Problem::malformed("A filename* is not UTF-8 without NUL.")),
        },
        _ => Err(Problem::malformed("A part has more than one name or file name.")),
    }
}

/// The quoted file name of a part as browsers write it: a backslash escapes a quote or a backslash,
/// and stands for itself before anything else, as in `C:\deed.pdf`. The parser of the framework
/// takes it for an escape always.
fn written_file_name(part: &Part) -> Option<String> {
    let header =
        std::str::from_utf8(part.headers().get(header::CONTENT_DISPOSITION)?.as_bytes()).ok()?;
    let (mut rest, mut quoted, mut begins) = (header, false, false);
    // Only a parameter outside of quotes is meant: another one's value may hold the same text.
    let written = loop {
        if begins
            && !quoted
            && rest.get(..10).is_some_and(|name| name.eq_ignore_ascii_case("filename=\""))
        {
            break &rest[10..];
        }
        let mut characters = rest.chars();
        let character = characters.next()?;
        begins = matches!(character, ';' | ' ' | '\t');
        match character {
            '"' => quoted = !quoted,
            '\\' if quoted && characters.as_str().starts_with(['"', '\\']) => {
                let _ = characters.next();
            }
            _ => {}
        }
        rest = characters.as_str();
    };
    let (mut name, mut characters) = (String::new(), written.chars().peekable());
    loop {
        match characters.next()? {
            '"' => return Some(name),
            '\\' => {
                name.push(characters.next_if(|next| matches!(next, '"' | '\\')).unwrap_or('\\'))
            }
            character => name.push(character),
        }
    }
}

/// The text parts of an order's form, as they arrive.
#[derive(Default)]
struct TextParts {
    contacts: Option<String>,
    details: Option<String>,
    signing_service_id: Option<String>,
    utc_time: Option<String>,
    utc_start: Option<String>,
    utc_end: Option<String>,
    requested_by: Option<String>,
}

impl TextParts {
    /// Keeps a part; one that an order does not know is ignored.
    fn set(&mut self, name: &str, text: String) -> Result<(), Problem> {
        let create = match name {
            "signingContactsFormData" => &mut self.contacts,
            "signingDetailsFormData" => &mut self.details,
            "signingServiceId" => &mut self.signing_service_id,
            "utcTimeDate" => &mut self.utc_time,
            "utcStartTimeDate" => &mut self.utc_start,
            "utcEndTimeDate" => &mut self.utc_end,
            "requestedBy" => &mut self.requested_by,
            _ => return Ok(()),
        };
        match create.replace(text) {
            None => Ok(()),
            Some(_) => Err(Problem::malformed(format!("The part {name} is sent twice."))),
        }
    }

    fn into_request(self) -> Result<OrderRequest, Problem> {
        let text = |text: Option<String>| text.map_or(Field::Absent, Field::Value);
        Ok(OrderRequest {
            signing_contacts_form_data: json("signingContactsFormData", self.contacts.as_deref())?,
            signing_details_form_data: json("signingDetailsFormData", self.details.as_deref())?,
            signing_service_id: self
                .signing_service_id
                .map_or(Field::Absent, |id| Field::from_decimal(&id)),
            utc_time_date: text(self.utc_time),
            utc_start_time_date: text(self.utc_start),
            utc_end_time_date: text(self.utc_end),
            requested_by: json("requestedBy", self.requested_by.as_deref())?,
        })
    }
}

/// Reads a part that is JSON; a blank one is as good as none.
fn json<T: for<'de> JsonType<'de>>(name: &str, text: Option<&str>) -> Result<Field<T>, Problem>
where
    Field<T>: DeserializeOwned,
{
    match text.map(str::trim) {
        None | Some("") => Ok(Field::Absent),
        Some(text) => serde_json::from_str(text).map_err(|error| {
            Problem::malformed(format!("The part {name} is not valid JSON: {error}."))
        }),
    }
}

#[cfg(test)]
#[path = "form_tests.rs"]
mod tests;
