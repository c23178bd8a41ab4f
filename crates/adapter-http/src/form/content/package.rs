//! Recognizes Word documents in ZIP files (ECMA-376, part 1, section 11.3.10, and part 2).

use std::{
    cell::Cell,
    collections::HashMap,
    io::{self, BufReader, Read, Seek},
    rc::Rc,
};

use domain::document::{Content, DocumentFormat};
use percent_encoding::percent_decode_str;
use quick_xml::{
    Reader, XmlVersion,
    events::{BytesStart, Event},
};
use zip::ZipArchive;

use super::{
    budgeted::Budgeted,
    kinds::{self, decoded},
};

/// Maximum bytes to read from the directory of a ZIP file, which needs many times its size in
/// memory: about seven thousand parts, and the longest comment or other bytes behind it.
const ZIP_DIRECTORY_BUDGET: u64 = (512 + 64) * 1024;
/// Maximum bytes to read from the parts.
const CONTENT_BUDGET: u64 = 64 * 1024 * 1024;

/// Maximum inflated sizes of the parts that describe the package, and of the main part.
const MAX_DESCRIPTION: u64 = 1024 * 1024;
const MAX_MAIN_PART: u64 = 64 * 1024 * 1024;

/// Maximum inflated size that all parts may declare; a larger one is a ZIP bomb.
const MAX_INFLATED: u64 = 512 * 1024 * 1024;
/// Maximum compression ratio of a part. Parts up to [`SMALL_PART`] are exempt, because they may be
/// blank bitmaps.
const MAX_RATIO: u64 = 200;
const SMALL_PART: u64 = 16 * 1024 * 1024;

/// The content type of the main part.
const MAIN: &str =
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml";
/// The end of the type of the relationship that leads to the main part. Its beginning differs between
/// the transitional and the strict variant.
const OFFICE_DOCUMENT: &str = "/relationships/officeDocument";

/// Returns what a ZIP file holds. In a Word document a relationship or a content type names the main
/// part, the part has the content type of Word documents, and it exists. Names are compared without
/// their letter case, as Word does.
pub(super) fn content<R: Read + Seek>(file: R) -> io::Result<Content> {
    let budget = Rc::new(Cell::new(ZIP_DIRECTORY_BUDGET));
    // What is read ahead does not count.
    let file = BufReader::with_capacity(1024, file);
    let mut archive = ZipArchive::new(Budgeted { file, left: Rc::clone(&budget) })?;
    budget.set(CONTENT_BUDGET);

    let (mut inflated, mut parts) = (0_u64, HashMap::new());
    for index in 0..archive.len() {
        let part = archive.by_index_raw(index)?;
        inflated = inflated.saturating_add(part.size());
        // Word documents have no links, and a link could lead an unpacking program elsewhere.
        if part.is_symlink()
            || inflated > MAX_INFLATED
            || (part.size() > SMALL_PART && part.size() / part.compressed_size().max(1) > MAX_RATIO)
        {
            return Ok(Content::Other(None));
        }
        parts.insert(canonical(&part.name()?), index);
    }
    let mut described = |name: &str| match parts.get(name) {
        Some(index) => elements(archive.by_index(*index)?),
        None => Ok(Vec::new()),
    };
    let (types, relationships) = (described("[content_types].xml")?, described("_rels/.rels")?);
    let main_part = main_part(&types, &relationships, |part| parts.contains_key(part));
    let Some(index) = main_part.and_then(|part| parts.get(&part)) else {
        let mut start_of = |name: &str| match parts.get(name) {
            Some(index) => start(archive.by_index(*index)?),
            None => Ok(String::new()),
        };
        let (mime_type, index) = (start_of("mimetype")?, start_of("index.xml")?);
        let named = kinds::of_mime_type(&mime_type).or_else(|| kinds::of_index(&index));
        return Ok(Content::Other(named.or_else(|| kind(&parts, &types))));
    };
    // Declared sizes may be false, so the main part is inflated up to its limit.
    let length = io::copy(&mut archive.by_index(*index)?.take(MAX_MAIN_PART + 1), &mut io::sink())?;
    Ok(match length {
        1..=MAX_MAIN_PART => Content::Format(DocumentFormat::Docx),
        _ => Content::Other(None),
    })
}

/// Returns the beginning of a part that is a text.
fn start(part: impl Read) -> io::Result<String> {
    let mut start = Vec::new();
    part.take(512).read_to_end(&mut start)?;
    Ok(String::from_utf8_lossy(&start).into_owned())
}

/// Returns what a ZIP file looks like that is no Word document.
fn kind(parts: &HashMap<String, usize>, types: &[Element]) -> Option<&'static str> {
    let has = |name: &str| parts.contains_key(name);
    let is_variant = |element: &Element| {
        let value = element.attribute("ContentType").unwrap_or_default().to_ascii_lowercase();
        value.contains("macroenabled") || value.ends_with(".template.main+xml")
    };
    kinds::of_names(has).or_else(|| match () {
        // XPS and OpenXPS name the sequence of their pages so (ECMA-388, annex B). A part may have pieces.
        () if parts.keys().any(|name| name.contains(".fdseq")) => Some(kinds::XPS),
        // Pages may store a folder, which macOS shows as a document.
        () if parts.keys().any(|name| name.contains(".pages/index")) => Some(kinds::PAGES),
        () if types.iter().any(is_variant) => Some(kinds::MACROS),
        () if !types.is_empty() => None,
        () if has("word/document.xml") => Some(kinds::DAMAGED_WORD),
        () => Some(kinds::ZIP),
    })
}

/// Returns the main part if it has the content type of Word documents. It is the first that a
/// relationship leads to, or that a content type names if no relationship leads to a main part.
fn main_part(
    types: &[Element],
    relationships: &[Element],
    exists: impl FnMut(&String) -> bool,
) -> Option<String> {
    let is_main = |element: &&Element| {
        let value = element.attribute("ContentType").and_then(|value| value.split(';').next());
        value.is_some_and(|value| value.trim_end().eq_ignore_ascii_case(MAIN))
    };
    let name_of = |element: &Element| element.attribute("PartName").map(canonical);
    let leads_there = |element: &&Element| {
        element.attribute("Type").is_some_and(|value| value.ends_with(OFFICE_DOCUMENT))
            && element.attribute("TargetMode") != Some("External")
    };
    let mut targets = relationships.iter().filter(leads_there).peekable();
    if targets.peek().is_none() {
        return types.iter().find(is_main).and_then(name_of);
    }
    let part = targets.filter_map(|it| it.attribute("Target")).map(canonical).find(exists)?;
    let extension = part.rsplit_once('.').map_or("", |(_, extension)| extension);
    let by_name = types.iter().find(|element| name_of(element).as_deref() == Some(&*part));
    let by_extension = types.iter().find(|element| {
        element.attribute("Extension").is_some_and(|value| value.eq_ignore_ascii_case(extension))
    });
    by_name.or(by_extension).filter(is_main).map(|_| part)
}

/// Returns the name of a part as names are compared, from the root of the package (RFC 3986, section
/// 5.2). Some programs write backslashes, or encode a name in one place only.
fn canonical(name: &str) -> String {
    let name = percent_decode_str(name.split('#').next().unwrap_or_default()).decode_utf8_lossy();
    let mut segments = Vec::new();
    for segment in name.to_lowercase().split(['/', '\\']) {
        match segment {
            "" | "." => {}
            ".." => _ = segments.pop(),
            segment => segments.push(segment.to_owned()),
        }
    }
    segments.join("/")
}

/// The attributes of an element, without prefixes.
struct Element(Vec<(String, String)>);

impl Element {
    fn attribute(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// Reads the elements of a part in any encoding that XML readers must know.
fn elements(part: impl Read) -> io::Result<Vec<Element>> {
    let mut bytes = Vec::new();
    part.take(MAX_DESCRIPTION).read_to_end(&mut bytes)?;
    let text = decoded(&bytes);
    let mut reader = Reader::from_str(&text);
    let mut found = Vec::new();
    loop {
        match reader.read_event().map_err(io::Error::other)? {
            Event::Start(element) | Event::Empty(element) => found.push(attributes(&element)?),
            Event::Eof => return Ok(found),
            _ => {}
        }
    }
}

fn attributes(element: &BytesStart<'_>) -> io::Result<Element> {
    let mut found = Vec::new();
    for attribute in element.attributes() {
        let attribute = attribute.map_err(io::Error::other)?;
        let value =
            attribute.normalized_value(XmlVersion::Implicit1_0).map_err(io::Error::other)?;
        let name = String::from_utf8_lossy(attribute.key.local_name().into_inner()).into_owned();
        found.push((name, value.trim().to_owned()));
    }
    Ok(Element(found))
}
