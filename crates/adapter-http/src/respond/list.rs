//! Lists: the query that asks for a page, and the answer with links to the other pages.

use std::{borrow::Cow, str::FromStr};

use actix_web::{HttpRequest, HttpResponse};
use domain::{
    ports::{Cursor, ListPlace, Page},
    request::{Fault, ViolationCode},
};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::Serialize;
use time::OffsetDateTime;

use crate::respond::{
    conditional, instants,
    problem::{FieldProblem, Problem, ProblemCode},
};

/// Largest number of items on a page.
pub(crate) const MAX_LIMIT: usize = 100;
/// Number of items on a page, unless the client asks for another.
pub(crate) const DEFAULT_LIMIT: usize = 20;
/// Longest name of an unknown parameter that a problem repeats, in characters.
pub(crate) const LONGEST_NAME: usize = 100;

const LIMIT: &str = "limit";
const STARTING_AFTER: &str = "starting_after";
const ENDING_BEFORE: &str = "ending_before";
const CURSORS: [&str; 2] = [STARTING_AFTER, ENDING_BEFORE];
/// The start of the order of a cursor.
const AT: &str = "at";

/// The parameters of a URL. Each is read once, by its name and its rule. One that is never read is unknown.
pub(crate) struct Parameters {
    sent: Vec<Parameter>,
    /// Conflicts between parameters, and missing ones.
    conflicts: Vec<FieldProblem>,
}

struct Parameter {
    name: String,
    /// `None` if it is not UTF-8.
    value: Option<String>,
    reading: Reading,
}

enum Reading {
    Unread,
    Read,
    Repeated,
    AtFault(&'static str, Cow<'static, str>),
}

impl Parameters {
    /// Reads the query of a URL.
    pub(crate) fn of(query: &str) -> Self {
        let mut sent: Vec<Parameter> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name).unwrap_or_else(|| name.to_owned());
            let is_repeated = sent.iter().any(|other| other.name == name);
            let reading = if is_repeated { Reading::Repeated } else { Reading::Unread };
            sent.push(Parameter { name, value: decode(value), reading });
        }
        Self { sent, conflicts: Vec::new() }
    }

    /// Reads a parameter by its rule. Returns `None` if it is not there or at fault.
    pub(crate) fn read<T>(
        &mut self,
        name: &str,
        rule: impl FnOnce(&str) -> Result<T, Fault>,
    ) -> Option<T> {
        let found = self.sent.iter_mut().find(|parameter| parameter.name == name)?;
        let read = match found.value.as_deref().map(str::trim) {
            None => Err(not_utf8()),
            Some("") => Err((ViolationCode::Blank, "must not be blank".into())),
            Some(text) => rule(text),
        };
        match read {
            Ok(value) => {
                found.reading = Reading::Read;
                Some(value)
            }
            Err((code, detail)) => {
                found.reading = Reading::AtFault(code.as_str(), detail);
                None
            }
        }
    }

    /// Reads the only parameter of a path, which must be there, by its rule.
    pub(crate) fn only<T>(
        query: &str,
        name: &'static str,
        rule: impl FnOnce(&str) -> Result<T, Fault>,
    ) -> Result<T, Problem> {
        let mut parameters = Self::of(query);
        let read = parameters.read(name, rule);
        if !parameters.has(name) {
            let code = ViolationCode::Required.as_str();
            let missing = FieldProblem::of_parameter(name, code, "is required");
            parameters.conflicts.push(missing);
        }
        parameters.end()?;
        read.ok_or_else(Problem::internal)
    }

    fn has(&self, name: &str) -> bool {
        self.sent.iter().any(|parameter| parameter.name == name)
    }

    /// Notes that a parameter contradicts another.
    pub(crate) fn conflict(&mut self, name: &'static str, detail: &'static str) {
        self.conflicts.push(FieldProblem::of_parameter(name, "conflict", detail));
    }

    /// Reads the number of items on a page.
    pub(crate) fn limit(&mut self) -> usize {
        self.read(LIMIT, limit).unwrap_or(DEFAULT_LIMIT)
    }

    /// Reads the start that the order of the cursor had when it was listed, in the order of appointments.
    pub(crate) fn cursor_starts(&mut self, by_appointment: bool) -> Option<OffsetDateTime> {
        let starts = self.read(AT, instant)?;
        if !by_appointment || !CURSORS.iter().any(|cursor| self.has(cursor)) {
            self.conflict(AT, "must be together with order_by=appointment and a cursor");
        }
        Some(starts)
    }

    /// Reads the page, and ends. `least` is the smallest identifier of the list.
    pub(crate) fn paging(mut self, least: i64) -> Result<Paging, Problem> {
        let limit = self.limit();
        let older = self.read(STARTING_AFTER, |text| identifier(text, least));
        let newer = self.read(ENDING_BEFORE, |text| identifier(text, 0));
        if CURSORS.iter().all(|cursor| self.has(cursor)) {
            self.conflict(ENDING_BEFORE, "must not be together with starting_after");
        }
        let cursor = older.map(Cursor::OlderThan).or(newer.map(Cursor::NewerThan));
        Ok(Paging { limit, cursor: cursor.unwrap_or_default(), kept: self.end()? })
    }

    /// Reports every parameter at fault, in the order of the query. Returns the parameters that every page
    /// keeps: all but the cursor.
    pub(crate) fn end(self) -> Result<Vec<(String, String)>, Problem> {
        let (mut errors, mut kept) = (Vec::new(), Vec::new());
        for Parameter { name, value, reading } in self.sent {
            let (code, detail) = match (reading, value) {
                (Reading::Read, Some(value)) => {
                    if !CURSORS.contains(&name.as_str()) && name != AT {
                        kept.push((name, value));
                    }
                    continue;
                }
                (Reading::AtFault(code, detail), _) => (code, detail),
                (Reading::Repeated, _) => ("repeated", "must be there once only".into()),
                (_, None) => {
                    let (code, detail) = not_utf8();
                    (code.as_str(), detail)
                }
                (Reading::Unread, Some(_)) => {
                    ("unknown_parameter", "is no parameter of this path".into())
                }
            };
            let name: String = name.chars().take(LONGEST_NAME).collect();
            errors.push(FieldProblem::of_parameter(name, code, detail));
        }
        errors.extend(self.conflicts);
        if errors.is_empty() {
            Ok(kept)
        } else {
            Err(Problem::invalid(ProblemCode::ValidationFailed, errors))
        }
    }
}

fn not_utf8() -> Fault {
    (ViolationCode::InvalidCharacters, "must be UTF-8".into())
}

/// Decodes a part of the query; `None` if it is not UTF-8.
fn decode(text: &str) -> Option<String> {
    let text = text.replace('+', " ");
    percent_decode_str(&text).decode_utf8().ok().map(Cow::into_owned)
}

/// The page that a client asks for.
#[derive(Debug, PartialEq)]
pub(crate) struct Paging {
    pub(crate) limit: usize,
    cursor: Cursor<i64>,
    /// The parameters that every page keeps: all but the cursor.
    kept: Vec<(String, String)>,
}

impl Paging {
    /// Reads the query of a list without filters.
    pub(crate) fn parse(query: &str) -> Result<Self, Problem> {
        Parameters::of(query).paging(1)
    }

    /// Reads the query of a list whose identifiers are texts, and that is read from the newest item on.
    /// Returns also the item after which the page begins.
    pub(crate) fn parse_older<Id: FromStr>(query: &str) -> Result<(Self, Option<Id>), Problem> {
        let mut parameters = Parameters::of(query);
        let detail = "must be the identifier of an item";
        let id =
            |text: &str| text.parse().map_err(|_| (ViolationCode::InvalidFormat, detail.into()));
        let after = parameters.read(STARTING_AFTER, id);
        let limit = parameters.limit();
        let kept = parameters.end()?;
        Ok((Self { limit, cursor: Cursor::Newest, kept }, after))
    }

    /// Returns where the page begins.
    pub(crate) fn cursor<Id>(&self, id: impl FnOnce(i64) -> Id) -> Cursor<Id> {
        match self.cursor {
            Cursor::Newest => Cursor::Newest,
            Cursor::OlderThan(item) => Cursor::OlderThan(id(item)),
            Cursor::NewerThan(item) => Cursor::NewerThan(id(item)),
        }
    }

    fn is_toward_newer(&self) -> bool {
        matches!(self.cursor, Cursor::NewerThan(_))
    }

    /// Reports that the cursor is no item of the list.
    pub(crate) fn unknown_cursor(&self, code: &'static str, detail: &'static str) -> Problem {
        let parameter = if self.is_toward_newer() { ENDING_BEFORE } else { STARTING_AFTER };
        let error = FieldProblem::of_parameter(parameter, code, detail);
        Problem::invalid(ProblemCode::ValidationFailed, vec![error])
    }

    /// Returns the value of `Link` (RFC 8288) of a page of items; `None` if there is no other page.
    fn links<Id: ToString>(&self, path: &str, ids: &[Id], others: Others) -> Option<String> {
        let stopped = |is_there| {
            others.stopped_at.filter(|_| self.is_toward_newer() == is_there).map(cursor_of)
        };
        let oldest = stopped(false).or_else(|| ids.last().map(ToString::to_string));
        let oldest = oldest.filter(|_| others.older);
        let newest = stopped(true).or_else(|| ids.first().map(ToString::to_string));
        let newest = newest.filter(|_| others.newer);
        let kept = self.kept.iter().map(|(name, value)| {
            format!("{name}={}&", utf8_percent_encode(value, NON_ALPHANUMERIC))
        });
        let page = format!("{path}?{}", kept.collect::<String>());
        let next = oldest.map(|id| format!("<{page}{STARTING_AFTER}={id}>; rel=\"next\""));
        let prev = newest.map(|id| format!("<{page}{ENDING_BEFORE}={id}>; rel=\"prev\""));
        let links = [next, prev];
        let links = links.into_iter().flatten().collect::<Vec<_>>();
        (!links.is_empty()).then(|| links.join(", "))
    }
}

/// The neighbours of a page.
#[derive(Clone, Copy)]
pub(crate) struct Others {
    /// Whether there are older items.
    pub(crate) older: bool,
    /// Whether there are newer items.
    pub(crate) newer: bool,
    /// The last item that was looked at, if the next page begins behind it.
    pub(crate) stopped_at: Option<ListPlace>,
}

impl<T> From<&Page<T>> for Others {
    fn from(page: &Page<T>) -> Self {
        Self { older: page.has_older, newer: page.has_newer, stopped_at: page.stopped_at }
    }
}

/// Returns a place as the cursor in a link has it. In the order of appointments the start stands beside the
/// identifier, so that the next page begins there, also if the order has moved meanwhile.
pub(crate) fn cursor_of(ListPlace { id, starts }: ListPlace) -> String {
    let at = starts.map(|starts| format!("&{AT}={}", instants::timestamp(starts)));
    format!("{id}{}", at.unwrap_or_default())
}

/// Reads an instant.
pub(crate) fn instant(text: &str) -> Result<OffsetDateTime, Fault> {
    let detail = "must be an RFC 3339 datetime, such as 2026-12-01T20:30:00Z; \
        a plus sign in it is written %2B";
    instants::parse(text).ok_or((ViolationCode::InvalidFormat, detail.into()))
}

fn limit(text: &str) -> Result<usize, Fault> {
    digits(text).filter(|limit| (1..=MAX_LIMIT).contains(limit)).ok_or_else(|| {
        let detail = format!("must be an integer from 1 to {MAX_LIMIT}");
        (ViolationCode::OutOfRange, detail.into())
    })
}

fn identifier(text: &str, least: i64) -> Result<i64, Fault> {
    let detail = "must be the identifier of an item";
    let id = digits(text).filter(|id| *id >= least);
    id.ok_or((ViolationCode::InvalidFormat, detail.into()))
}

/// Reads a number of decimal digits. `parse` alone accepts a sign.
fn digits<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

#[derive(Serialize)]
struct List<T> {
    object: &'static str,
    url: String,
    has_more: bool,
    /// Whether all of what may be listed was looked at; `None` for lists that always do.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_complete: Option<bool>,
    data: Vec<T>,
}

/// Answers with a list of one page at `url`.
pub(crate) fn whole<T: Serialize>(
    request: &HttpRequest,
    url: String,
    data: impl Iterator<Item = T>,
) -> Result<HttpResponse, Problem> {
    let data = data.collect();
    let list = List { object: "list", url, has_more: false, is_complete: None, data };
    conditional::json(request, &list, None)
}

/// Answers with a page of the list at `url`, and with links to older and to newer pages, if there are
/// any. The newest item comes first; each has its identifier beside it.
pub(crate) fn page<Id: ToString, T: Serialize>(
    request: &HttpRequest,
    url: String,
    paging: &Paging,
    others: Others,
    items: impl Iterator<Item = (Id, T)>,
) -> Result<HttpResponse, Problem> {
    bounded_page(request, url, paging, others, None, items)
}

/// Answers like [`page`], and says whether the list has all that it could have.
pub(crate) fn bounded_page<Id: ToString, T: Serialize>(
    request: &HttpRequest,
    url: String,
    paging: &Paging,
    others: Others,
    is_complete: Option<bool>,
    items: impl Iterator<Item = (Id, T)>,
) -> Result<HttpResponse, Problem> {
    let (ids, data): (Vec<Id>, Vec<T>) = items.unzip();
    let links = paging.links(&url, &ids, others);
    let has_more = if paging.is_toward_newer() { others.newer } else { others.older };
    let list = List { object: "list", url, has_more, is_complete, data };
    conditional::json(request, &list, links)
}
