use std::fs;

use adapter_http::internals::{OrderForm, ProblemCode, TEXT_PARTS};
use arbitrary::{Result, Unstructured};
use domain::order::OrderRequest;
use memchr::memmem;
use serde_json::{Map, Value};

use crate::form::{LIMITS, read};

const BOUNDARY: &str = "b0undary";
/// Maximum number of parts: enough for too many documents and a repeated text part.
const MAX_PARTS: usize = 10;

enum Part {
    /// A JSON text, in a part of an order or of another name.
    Text(&'static str, Value),
    Document(String, Vec<u8>),
}

/// Asserts that a form is read as the parts that it was written from. The request equals that of a
/// JSON body with the same fields, and the documents keep their names and bytes. Invalid parts are
/// rejected with their problem.
pub fn form_parts(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let Ok(split_by) = input.arbitrary() else { return };
    let (mut parts, mut body) = (Vec::new(), Vec::new());
    while !input.is_empty() && parts.len() < MAX_PARTS {
        let Ok(part) = part(&mut input) else { break };
        if write(&part, &mut input, &mut body).is_err() {
            break;
        }
        parts.push(part);
    }
    body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    // Skips forms whose contents contain the boundary.
    if memmem::find_iter(&body, BOUNDARY).count() > parts.len() + 1 {
        return;
    }
    read(
        format!("multipart/form-data; boundary={BOUNDARY}").as_bytes(),
        &body,
        Some(split_by),
        |read| match (read, expected(parts)) {
            (Ok(form), Ok((request, documents))) => compare(&form, &request, &documents),
            (Err(problem), Err(code)) => assert_eq!(problem.code(), code, "{problem:?}"),
            (read, expected) => panic!(
                "{:?} should be {:?}",
                read.map(|form| form.request),
                expected.map(|(request, _)| request)
            ),
        },
    );
}

fn compare(form: &OrderForm, request: &OrderRequest, documents: &[(String, Vec<u8>)]) {
    let fields = |request| serde_json::to_value(request).unwrap();
    assert_eq!(fields(&form.request), fields(request));
    assert_eq!(form.documents.len(), documents.len());
    for (received, (name, content)) in form.documents.iter().zip(documents) {
        assert_eq!((&received.name_as_sent, received.file.size), (name, content.len() as u64));
        assert_eq!(fs::read(&received.file.path).unwrap(), *content);
    }
}

/// Size limit of a text part with an instant.
const MAX_SHORT_PART: usize = 128;

/// Names and contents.
type Documents = Vec<(String, Vec<u8>)>;

/// Returns the request and the documents of the parts, or their first problem.
fn expected(parts: Vec<Part>) -> std::result::Result<(OrderRequest, Documents), ProblemCode> {
    let (mut members, mut documents) = (Map::new(), Vec::new());
    for part in parts {
        match part {
            Part::Text(name, value) => {
                if matches!(&value, Value::String(text) if text.len() > MAX_SHORT_PART) {
                    return Err(ProblemCode::PayloadTooLarge);
                }
                let is_text_part = TEXT_PARTS.iter().any(|(part, _)| *part == name);
                if is_text_part && members.insert(name.to_owned(), value).is_some() {
                    return Err(ProblemCode::MalformedRequest);
                }
            }
            Part::Document(name, content) if name.is_empty() && content.is_empty() => {}
            Part::Document(name, content) => {
                if documents.len() == LIMITS.max_count {
                    return Err(ProblemCode::TooManyDocuments);
                }
                if content.len() as u64 > LIMITS.max_bytes {
                    return Err(ProblemCode::DocumentTooLarge);
                }
                documents.push((name, content));
            }
        }
    }
    match serde_json::from_value(Value::Object(members)) {
        Ok(request) => Ok((request, documents)),
        _ => Err(ProblemCode::MalformedRequest),
    }
}

fn part(input: &mut Unstructured<'_>) -> Result<Part> {
    if input.ratio(1_u8, 2)? {
        // Without line ends, which would start another header.
        let name = input.arbitrary::<&str>()?.replace(char::is_control, "");
        let length = input.int_in_range(0..=400)?;
        let content = if input.ratio(1_u8, 8)? {
            vec![b'\r'; length]
        } else {
            input.bytes(length.min(input.len()))?.to_vec()
        };
        return Ok(Part::Document(name, content));
    }
    let index = input.choose_index(TEXT_PARTS.len() + 1)?;
    let name = TEXT_PARTS.get(index).map_or("unknown", |(name, _)| name);
    let text = input.arbitrary::<&str>()?;
    let value = match name {
        "signingServiceId" => Value::from(input.arbitrary::<i64>()?),
        _ if name.starts_with("utc") => Value::from(text),
        _ => {
            serde_json::json!({
                "userId": input.arbitrary::<i64>()?,
                "orderContactEmail": text,
                "fileNumber": [text]
            })
        }
    };
    Ok(Part::Text(name, value))
}

/// Writes a part as clients do. Some add a length or a type, before or after the disposition.
fn write(part: &Part, input: &mut Unstructured<'_>, body: &mut Vec<u8>) -> Result<()> {
    let (name, file_name, content) = match part {
        Part::Text(name, Value::String(text)) => (*name, None, text.clone().into_bytes()),
        Part::Text(name, value) => (*name, None, value.to_string().into_bytes()),
        Part::Document(name, content) => {
            ("documents", Some(name.replace('\\', "\\\\").replace('"', "\\\"")), content.clone())
        }
    };
    let file_name = file_name.map(|name| format!("; filename=\"{name}\"")).unwrap_or_default();
    let disposition = format!("Content-Disposition: form-data; name=\"{name}\"{file_name}\r\n");
    let other = match input.int_in_range(0..=3)? {
        0 => format!("Content-Length: {}\r\n", input.arbitrary::<u8>()?),
        1 => "Content-Type: application/octet-stream\r\n".to_owned(),
        _ => String::new(),
    };
    let headers = if input.arbitrary()? { disposition + &other } else { other + &disposition };
    body.extend_from_slice(format!("--{BOUNDARY}\r\n{headers}\r\n").as_bytes());
    body.extend_from_slice(&content);
    body.extend_from_slice(b"\r\n");
    Ok(())
}
