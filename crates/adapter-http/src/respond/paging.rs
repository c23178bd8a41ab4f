//! The query of a list: which page the client asks for, and the links to the other pages.

use std::borrow::Cow;

use domain::{order::ViolationCode, ports::Cursor};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::respond::problem::{FieldProblem, Problem, ProblemCode};

/// Largest number of items on a page.
pub(crate) const MAX_LIMIT: usize = 100;
/// Number of items on a page, unless the client asks for another.
pub(crate) const DEFAULT_LIMIT: usize = 20;
/// Longest name of an unknown parameter that a problem repeats, in characters.
pub(crate) const LONGEST_NAME: usize = 100;

const LIMIT: &str = "limit";
const STARTING_AFTER: &str = "starting_after";
const ENDING_BEFORE: &str = "ending_before";

/// Code and detail of a parameter at fault.
pub(crate) type Fault = (&'static str, Cow<'static, str>);

/// The page that a client asks for.
#[derive(Debug, PartialEq)]
pub(crate) struct Paging {
    pub(crate) limit: usize,
    cursor: Cursor<i64>,
    /// The parameters that every page keeps: all but the cursor.
    kept: Vec<(String, String)>,
}

/// A page, as its links see it.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    /// Identifiers of the newest and the oldest item; `None` on an empty page.
    pub(crate) ends: Option<(i64, i64)>,
    /// Whether there are older items.
    pub(crate) has_older: bool,
    /// Whether there are newer items.
    pub(crate) has_newer: bool,
}

impl Paging {
    /// Reads the query of a URL. `filters` are the parameters that the list has besides its page,
    /// which `read_filter` reads by name and value. Reports every parameter at fault.
    pub(crate) fn parse(
        query: &str,
        filters: &[&str],
        mut read_filter: impl FnMut(&str, &str) -> Result<(), Fault>,
    ) -> Result<Self, Problem> {
        let mut paging = Self { limit: DEFAULT_LIMIT, cursor: Cursor::Newest, kept: Vec::new() };
        let (mut seen, mut errors) = (Vec::new(), Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name).unwrap_or_else(|| name.to_owned());
            let is_filter = filters.contains(&name.as_str());
            let read = match decode(value) {
                _ if seen.contains(&name) => Err(("repeated", "must be there once only".into())),
                None => Err(fault(ViolationCode::InvalidCharacters, "must be UTF-8")),
                Some(value) => match value.trim() {
                    "" if is_filter || is_of_page(&name) => {
                        Err(fault(ViolationCode::Blank, "must not be blank"))
                    }
                    trimmed if is_filter => read_filter(&name, trimmed).map(|()| value),
                    trimmed => paging.read(&name, trimmed).map(|()| value),
                },
            };
            match read {
                Ok(value) if ![STARTING_AFTER, ENDING_BEFORE].contains(&name.as_str()) => {
                    paging.kept.push((name.clone(), value));
                }
                Ok(_) => {}
                Err((code, detail)) => {
                    let parameter: String = name.chars().take(LONGEST_NAME).collect();
                    errors.push(FieldProblem::of_parameter(parameter, code, detail));
                }
            }
            seen.push(name);
        }
        if [STARTING_AFTER, ENDING_BEFORE].iter().all(|cursor| seen.iter().any(|it| it == cursor)) {
            let detail = "must not be together with starting_after";
            errors.push(FieldProblem::of_parameter(ENDING_BEFORE, "conflict", detail));
        }
        if errors.is_empty() {
            Ok(paging)
        } else {
            Err(Problem::invalid(ProblemCode::ValidationFailed, errors))
        }
    }

    fn read(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        match name {
            LIMIT => self.limit = limit(value)?,
            STARTING_AFTER => self.cursor = Cursor::OlderThan(identifier(value)?),
            ENDING_BEFORE => self.cursor = Cursor::NewerThan(identifier(value)?),
            _ => return Err(("unknown_parameter", "is no parameter of this path".into())),
        }
        Ok(())
    }

    /// Returns where the page begins.
    pub(crate) fn cursor<Id>(&self, id: impl FnOnce(i64) -> Id) -> Cursor<Id> {
        match self.cursor {
            Cursor::Newest => Cursor::Newest,
            Cursor::OlderThan(item) => Cursor::OlderThan(id(item)),
            Cursor::NewerThan(item) => Cursor::NewerThan(id(item)),
        }
    }

    /// Reports that the cursor is no item of the list.
    pub(crate) fn unknown_cursor(&self, code: &'static str, detail: &'static str) -> Problem {
        let parameter = match self.cursor {
            Cursor::NewerThan(_) => ENDING_BEFORE,
            Cursor::Newest | Cursor::OlderThan(_) => STARTING_AFTER,
        };
        let error = FieldProblem::of_parameter(parameter, code, detail);
        Problem::invalid(ProblemCode::ValidationFailed, vec![error])
    }

    /// Returns whether there are more items in the direction of the page.
    pub(crate) fn has_more(&self, shown: Shown) -> bool {
        match self.cursor {
            Cursor::Newest | Cursor::OlderThan(_) => shown.has_older,
            Cursor::NewerThan(_) => shown.has_newer,
        }
    }

    /// Returns the value of `Link` (RFC 8288); `None` if there is no other page.
    pub(crate) fn links(&self, path: &str, shown: Shown) -> Option<String> {
        let (newest, oldest) = shown.ends?;
        let links: Vec<String> = [
            (shown.has_older, oldest, STARTING_AFTER, "next"),
            (shown.has_newer, newest, ENDING_BEFORE, "prev"),
        ]
        .into_iter()
        .filter(|(is_there, ..)| *is_there)
        .map(|(_, id, cursor, relation)| {
            format!("<{}>; rel=\"{relation}\"", self.url(path, cursor, id))
        })
        .collect();
        (!links.is_empty()).then(|| links.join(", "))
    }

    fn url(&self, path: &str, cursor: &str, id: i64) -> String {
        let kept = self.kept.iter().map(|(name, value)| {
            format!("{name}={}&", utf8_percent_encode(value, NON_ALPHANUMERIC))
        });
        format!("{path}?{}{cursor}={id}", kept.collect::<String>())
    }
}

/// Decodes a part of the query; `None` if it is not UTF-8.
fn decode(text: &str) -> Option<String> {
    let text = text.replace('+', " ");
    percent_decode_str(&text).decode_utf8().ok().map(Cow::into_owned)
}

fn is_of_page(name: &str) -> bool {
    [LIMIT, STARTING_AFTER, ENDING_BEFORE].contains(&name)
}

/// Returns the fault of a parameter.
pub(crate) fn fault(code: ViolationCode, detail: &'static str) -> Fault {
    (code.as_str(), detail.into())
}

fn limit(text: &str) -> Result<usize, Fault> {
    let limit = digits(text).and_then(|digits| digits.parse().ok());
    limit.filter(|limit| (1..=MAX_LIMIT).contains(limit)).ok_or_else(|| {
        let detail = format!("must be an integer from 1 to {MAX_LIMIT}");
        (ViolationCode::OutOfRange.as_str(), detail.into())
    })
}

fn identifier(text: &str) -> Result<i64, Fault> {
    let id = digits(text).and_then(|digits| digits.parse().ok()).filter(|id| *id > 0);
    id.ok_or_else(|| fault(ViolationCode::InvalidFormat, "must be the identifier of an item"))
}

/// Returns the text if it has decimal digits only. `parse` alone accepts a sign.
fn digits(text: &str) -> Option<&str> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then_some(text)
}
