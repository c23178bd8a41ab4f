//! The names of a part: its field name and its file name.

use actix_web::http::header::{ContentDisposition, HeaderValue};

use crate::problem::Problem;

/// Returns the field name and the file name that a `Content-Disposition` has. Each may occur only
/// once.
pub(super) fn names(
    parsed: &ContentDisposition,
    written: &HeaderValue,
) -> Result<(String, Option<String>), Problem> {
    let (mut names, mut file_names, mut extended) = (Vec::new(), Vec::new(), Vec::new());
    for parameter in &parsed.parameters {
        names.extend(parameter.as_name());
        file_names.extend(parameter.as_filename());
        extended.extend(parameter.as_filename_ext());
    }
    match (&names[..], &file_names[..], &extended[..]) {
        ([name], [], []) => Ok(((*name).to_owned(), None)),
        ([name], [file_name], [] | [_]) => {
            // The two may differ in backslashes only. Otherwise `written_file_name` found another
            // text than actix.
            let same = |written: &String| written.replace('\\', "") == file_name.replace('\\', "");
            let written = written_file_name(written).filter(same);
            let file_name = written.unwrap_or_else(|| (*file_name).to_owned());
            Ok(((*name).to_owned(), Some(file_name)))
        }
        // RFC 7578, section 4.2, forbids `filename*`, but older clients send it alone for names
        // beyond ASCII.
        ([name], [], [file_name]) => match String::from_utf8(file_name.value.clone()) {
            Ok(file_name) if !file_name.contains('\0') => Ok(((*name).to_owned(), Some(file_name))),
            _ => Err(Problem::malformed("A filename* is not UTF-8 without NUL.")),
        },
        _ => Err(Problem::malformed("A part does not have one name, and one file name at most.")),
    }
}

/// Returns the quoted file name of a part as browsers write it. A backslash escapes a quote or a
/// backslash. Before anything else it is a plain character, as in `C:\deed.pdf`. actix treats every
/// backslash as an escape.
fn written_file_name(disposition: &HeaderValue) -> Option<String> {
    let header = str::from_utf8(disposition.as_bytes()).ok()?;
    let (mut rest, mut quoted, mut parameter_starts) = (header, false, false);
    // Searches outside of quotes only: the value of another parameter may contain the same text.
    let written = loop {
        if parameter_starts
            && !quoted
            && rest.get(..10).is_some_and(|name| name.eq_ignore_ascii_case("filename=\""))
        {
            break &rest[10..];
        }
        let mut characters = rest.chars();
        let character = characters.next()?;
        parameter_starts = matches!(character, ';' | ' ' | '\t');
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
                let escaped = characters.next_if(|next| matches!(next, '"' | '\\'));
                name.push(escaped.unwrap_or('\\'));
            }
            character => name.push(character),
        }
    }
}
