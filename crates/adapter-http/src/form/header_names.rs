//! Header values with parameters: the `Content-Type` of a form and of its parts, and their
//! `Content-Disposition` (RFC 2183, RFC 7578, RFC 9110).
//!
//! Values that programs read in different ways are rejected: a scanner or proxy before the service would
//! see another form, and the recipient of a document another name. Values that only one client writes in a
//! form of its own are read, because its users cannot change it.

use actix_web::http::header::{self, HeaderMap, HeaderValue};
use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use encoding_rs::{Encoding, UTF_8};
use percent_encoding::percent_decode_str;

/// The fault of a value, as the end of a sentence.
type Fault = &'static str;

const BLANKS: [char; 2] = [' ', '\t'];

/// A parameter of a header value.
#[derive(Clone)]
struct Parameter {
    /// In lower case.
    name: String,
    text: String,
    has_backslash: bool,
}

/// Returns what a value has before its parameters, in lower case.
pub(super) fn kind(value: &HeaderValue) -> String {
    let text = String::from_utf8_lossy(value.as_bytes());
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns the boundary of a content type.
pub(super) fn boundary(content_type: &HeaderValue) -> Result<String, Fault> {
    let parameters = parameters(content_type)?;
    if parameters.iter().any(|parameter| parameter.name.starts_with("boundary*")) {
        return Err("has a boundary in pieces or with a charset");
    }
    match &values(&parameters, "boundary")[..] {
        [] => Err("has no boundary"),
        [boundary] if boundary.has_backslash || boundary.text.contains('"') => {
            Err("has a boundary with a backslash or a quote")
        }
        [boundary] if !boundary.text.is_ascii() => Err("has a boundary that is not ASCII"),
        [boundary] if boundary.text.ends_with(' ') => Err("has a boundary with a blank at its end"),
        [boundary] => Ok(boundary.text.clone()),
        _ => Err("has more than one boundary"),
    }
}

/// Returns the encoding of a text part with these headers.
pub(super) fn encoding(headers: &HeaderMap) -> Result<&'static Encoding, Fault> {
    let content_types = headers.get_all(header::CONTENT_TYPE).map(parameters);
    let parameters = content_types.collect::<Result<Vec<_>, _>>()?.concat();
    match &values(&parameters, "charset")[..] {
        [] => Ok(UTF_8),
        [charset] if charset.text.eq_ignore_ascii_case("us-ascii") => Ok(UTF_8),
        [charset] => Encoding::for_label(charset.text.as_bytes()).ok_or("has an unknown charset"),
        _ => Err("has more than one charset"),
    }
}

/// Returns the field name and the file name that a disposition has.
pub(super) fn names(disposition: &HeaderValue) -> Result<(String, Option<String>), Fault> {
    if kind(disposition) != "form-data" {
        return Err("is not form-data");
    }
    let parameters = parameters(disposition)?;
    let others = ["name*", "filename*"];
    let is_other = |name: &str| name != "filename*" && others.iter().any(|it| name.starts_with(it));
    if parameters.iter().any(|parameter| is_other(&parameter.name)) {
        return Err("has a name in pieces or with a charset, which forms do not have");
    }
    let name = match &values(&parameters, "name")[..] {
        [name] if name.has_backslash => return Err("has a backslash in its name"),
        [name] => name.text.clone(),
        [] => return Err("has no name"),
        _ => return Err("has more than one name"),
    };
    let file_name =
        match (&values(&parameters, "filename")[..], &values(&parameters, "filename*")[..]) {
            ([], []) => None,
            // RFC 7578, section 4.2, forbids `filename*`, but clients send it for names beyond ASCII.
            ([], [extended]) => {
                Some(extended_text(&extended.text).ok_or("has a filename* that is not valid")?)
            }
            ([plain], []) => Some(plain_text(&plain.text)),
            ([plain], [extended]) => {
                Some(extended_text(&extended.text).unwrap_or_else(|| plain_text(&plain.text)))
            }
            _ => return Err("has more than one file name"),
        };
    Ok((name, file_name))
}

fn values<'a>(parameters: &'a [Parameter], name: &str) -> Vec<&'a Parameter> {
    parameters.iter().filter(|parameter| parameter.name == name).collect()
}

/// Reads the parameters of a value. Nothing may follow a quoted text but blanks and a semicolon:
/// others read such a value in another way.
fn parameters(value: &HeaderValue) -> Result<Vec<Parameter>, Fault> {
    let text =
        str::from_utf8(value.as_bytes()).map_err(|_| "has a header parameter that is not UTF-8")?;
    let mut rest = text.find(';').map_or("", |at| &text[at..]);
    let mut parameters = Vec::new();
    while !rest.is_empty() {
        rest = rest.strip_prefix(';').ok_or("has something behind the value of a parameter")?;
        rest = rest.trim_start_matches(BLANKS);
        // A semicolon may be the last character.
        if rest.is_empty() || rest.starts_with(';') {
            continue;
        }
        let (name, value) = rest.split_once('=').ok_or("has a parameter without a value")?;
        let name = name.trim_end_matches(BLANKS).to_ascii_lowercase();
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err("has a parameter without a value");
        }
        let value = value.trim_start_matches(BLANKS);
        let (text, has_backslash, after) = if let Some(quoted) = value.strip_prefix('"') {
            quoted_text(quoted).ok_or("has a quote without its end")?
        } else {
            let is_extended = name == "filename*";
            let is_end = |c| c == ';' || (BLANKS.contains(&c) && !is_extended);
            let (text, after) = value.split_at(value.find(is_end).unwrap_or(value.len()));
            // Some clients leave out the quotes that these characters of a boundary need. Others
            // encode few characters of a file name.
            let may_have = |byte| is_extended || name == "boundary" && b"(),/:=?".contains(&byte);
            if !text.bytes().all(|byte| is_token(byte) || !byte.is_ascii() || may_have(byte)) {
                return Err("has a value that needs quotes around it");
            }
            (text.to_owned(), false, after)
        };
        parameters.push(Parameter { name, text, has_backslash });
        rest = after.trim_start_matches(BLANKS);
    }
    Ok(parameters)
}

/// Returns whether a byte may stand in a token (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Reads a quoted text as browsers write it, and returns what follows. A backslash escapes a quote or
/// a backslash; before anything else it is a plain character, as in `C:\deed.pdf`.
fn quoted_text(quoted: &str) -> Option<(String, bool, &str)> {
    let (mut text, mut characters) = (String::new(), quoted.chars());
    loop {
        match characters.next()? {
            '"' => {
                return Some((
                    text,
                    quoted[..quoted.len() - characters.as_str().len()].contains('\\'),
                    characters.as_str(),
                ));
            }
            '\\' if characters.as_str().starts_with(['"', '\\']) => text.extend(characters.next()),
            character => text.push(character),
        }
    }
}

/// Decodes the value of `filename*` (RFC 8187), which some clients put in quotes.
fn extended_text(value: &str) -> Option<String> {
    let mut pieces = value.trim_end_matches(BLANKS).splitn(3, '\'');
    let (charset, _language, encoded) = (pieces.next()?, pieces.next()?, pieces.next()?);
    let name = in_utf8(charset, percent_decoded(encoded)?)?;
    String::from_utf8(name).ok().filter(|name| !encoded.contains('"') && is_name(name))
}

/// Decodes the value of `filename`. Some clients encode every character of it but the unreserved
/// ones (RFC 7578, section 2); browsers encode quotes and line ends only.
fn plain_text(text: &str) -> String {
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
    let name = percent_decoded(text).filter(|_| text.bytes().all(is_unreserved));
    let name = name.and_then(|name| String::from_utf8(name).ok()).filter(|name| is_name(name));
    let decoded = || text.replace("%22", "\"").replace("%0A", "\n").replace("%0D", "\r");
    name.unwrap_or_else(|| decoded_words(&decoded()))
}

/// Decodes a text whose percent signs all begin an escape.
fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let is_escape = |escape: &str| {
        escape.len() >= 2 && escape.bytes().take(2).all(|byte| byte.is_ascii_hexdigit())
    };
    text.split('%').skip(1).all(is_escape).then(|| percent_decode_str(text).collect())
}

/// Decodes the encoded words of a text (RFC 2047), if that gives a name. .NET sends names beyond ASCII
/// so; without this, the console and the notary would see `=?utf-8?B?…`.
fn decoded_words(text: &str) -> String {
    let (mut decoded, mut rest, mut behind_word) = (Vec::new(), text, false);
    while let Some(character) = rest.chars().next() {
        // Blanks between two words belong to neither.
        let next = if behind_word { rest.trim_start_matches(BLANKS) } else { rest };
        if let Some((word, after)) = encoded_word(next) {
            decoded.extend(word);
            (rest, behind_word) = (after, true);
        } else {
            let (written, after) = rest.split_at(character.len_utf8());
            decoded.extend_from_slice(written.as_bytes());
            (rest, behind_word) = (after, false);
        }
    }
    // A character may be split between two words.
    String::from_utf8(decoded).ok().filter(|name| is_name(name)).unwrap_or_else(|| text.to_owned())
}

/// Decodes the word that a text starts with, and returns what follows.
fn encoded_word(text: &str) -> Option<(Vec<u8>, &str)> {
    let (charset, rest) = text.strip_prefix("=?")?.split_once('?')?;
    let (encoding, rest) = rest.split_once('?')?;
    let (encoded, after) = rest.split_once("?=")?;
    let bytes = match encoding {
        "B" | "b" => BASE64_STANDARD_NO_PAD.decode(encoded.trim_end_matches('=')).ok()?,
        "Q" | "q" => {
            let escaped = encoded.replace('_', " ").replace('%', "%25").replace('=', "%");
            percent_decode_str(&escaped).collect()
        }
        _ => return None,
    };
    // A language may stand behind the charset (RFC 2231).
    Some((in_utf8(charset.split('*').next()?, bytes)?, after))
}

/// Returns a text in UTF-8, unless its charset is unknown or its bytes are not valid in it.
fn in_utf8(charset: &str, bytes: Vec<u8>) -> Option<Vec<u8>> {
    let encoding = Encoding::for_label(charset.as_bytes())?;
    if encoding == UTF_8 {
        // A character may be split between two words.
        return Some(bytes);
    }
    let text = encoding.decode_without_bom_handling_and_without_replacement(&bytes)?;
    Some(text.into_owned().into_bytes())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains('\0')
}

#[cfg(test)]
#[path = "header_names_tests.rs"]
mod tests;
