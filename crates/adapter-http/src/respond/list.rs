//! Lists: the query that asks for a page, and the answer with links to the other pages.

use std::{borrow::Cow, str::FromStr};

use actix_web::{HttpRequest, HttpResponse};
use domain::{
    ports::{Cursor, Page},
    request::ViolationCode,
};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::Serialize;

use crate::respond::{
    conditional,
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

/// Code and detail of a parameter at fault.
pub(crate) type Fault = (&'static str, Cow<'static, str>);

/// The page that a client asks for.
#[derive(Debug, PartialEq)]
pub(crate) struct Paging {
    pub(crate) limit: usize,
    cursor: Cursor<i64>,
    /// The smallest identifier of the list.
    least: i64,
    /// The parameters that every page keeps: all but the cursor.
    kept: Vec<(String, String)>,
}

impl Paging {
    /// Reads the query of a URL. `filters` are the parameters that the list has besides its page,
    /// which `read_filter` reads by name and value. Reports every parameter at fault.
    pub(crate) fn parse(
        query: &str,
        filters: &[&str],
        read_filter: impl FnMut(&str, &str) -> Result<(), Fault>,
    ) -> Result<Self, Problem> {
        Self::parse_from(1, query, filters, read_filter)
    }

    /// Like [`Self::parse`], for a list whose identifiers begin with another number than 1.
    pub(crate) fn parse_from(
        least: i64,
        query: &str,
        filters: &[&str],
        read_filter: impl FnMut(&str, &str) -> Result<(), Fault>,
    ) -> Result<Self, Problem> {
        let mut errors = Vec::new();
        let paging = Self::read_all(least, query, filters, &mut errors, read_filter);
        if errors.is_empty() {
            Ok(paging)
        } else {
            Err(Problem::invalid(ProblemCode::ValidationFailed, errors))
        }
    }

    /// Like [`Self::parse_from`], for a list that has more rules. Adds a problem for each parameter at
    /// fault; the caller reports them.
    pub(crate) fn read_all(
        least: i64,
        query: &str,
        filters: &[&str],
        errors: &mut Vec<FieldProblem>,
        mut read_filter: impl FnMut(&str, &str) -> Result<(), Fault>,
    ) -> Self {
        let (limit, cursor) = (DEFAULT_LIMIT, Cursor::Newest);
        let mut paging = Self { limit, cursor, least, kept: Vec::new() };
        let mut seen = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name).unwrap_or_else(|| name.to_owned());
            let is_filter = filters.contains(&name.as_str());
            let read = if seen.contains(&name) {
                Err(("repeated", "must be there once only".into()))
            } else {
                paging.read(&name, value, is_filter, &mut read_filter)
            };
            if let Err((code, detail)) = read {
                let parameter: String = name.chars().take(LONGEST_NAME).collect();
                errors.push(FieldProblem::of_parameter(parameter, code, detail));
            }
            seen.push(name);
        }
        if CURSORS.iter().all(|cursor| seen.iter().any(|name| name == cursor)) {
            let detail = "must not be together with starting_after";
            errors.push(FieldProblem::of_parameter(ENDING_BEFORE, "conflict", detail));
        }
        paging
    }

    fn read(
        &mut self,
        name: &str,
        value: &str,
        is_filter: bool,
        read_filter: &mut impl FnMut(&str, &str) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let value = decode(value)
            .ok_or_else(|| fault(ViolationCode::InvalidCharacters, "must be UTF-8"))?;
        let text = value.trim();
        let is_known = is_filter || name == LIMIT || CURSORS.contains(&name);
        match name {
            _ if is_known && text.is_empty() => {
                return Err(fault(ViolationCode::Blank, "must not be blank"));
            }
            _ if is_filter => read_filter(name, text)?,
            LIMIT => self.limit = limit(text)?,
            STARTING_AFTER => self.cursor = Cursor::OlderThan(identifier(text, self.least)?),
            ENDING_BEFORE => self.cursor = Cursor::NewerThan(identifier(text, 0)?),
            _ => return Err(unknown_parameter()),
        }
        if !CURSORS.contains(&name) {
            self.kept.push((name.to_owned(), value));
        }
        Ok(())
    }

    /// Reads the query of a list whose identifiers are texts, and that is read from the newest item on.
    /// Returns also the item after which the page begins.
    pub(crate) fn parse_older<Id: FromStr>(query: &str) -> Result<(Self, Option<Id>), Problem> {
        let mut after = None;
        let paging = Self::parse(query, &CURSORS, |name, value| {
            if name == ENDING_BEFORE {
                return Err(unknown_parameter());
            }
            let detail = "must be the identifier of an item";
            let read = value.parse::<Id>().map_err(|_| fault(ViolationCode::InvalidFormat, detail));
            after = Some(read?);
            Ok(())
        })?;
        Ok((paging, after))
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
            let at = others.stopped_at.filter(|_| self.is_toward_newer() == is_there);
            at.as_ref().map(ToString::to_string)
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
    /// The last item that a search has read, if it goes on there.
    pub(crate) stopped_at: Option<i64>,
}

impl<T> From<&Page<T>> for Others {
    fn from(page: &Page<T>) -> Self {
        Self { older: page.has_older, newer: page.has_newer, stopped_at: page.stopped_at }
    }
}

/// Decodes a part of the query; `None` if it is not UTF-8.
fn decode(text: &str) -> Option<String> {
    let text = text.replace('+', " ");
    percent_decode_str(&text).decode_utf8().ok().map(Cow::into_owned)
}

/// Returns the fault of a parameter.
pub(crate) fn fault(code: ViolationCode, detail: &'static str) -> Fault {
    (code.as_str(), detail.into())
}

fn unknown_parameter() -> Fault {
    ("unknown_parameter", "is no parameter of this path".into())
}

fn limit(text: &str) -> Result<usize, Fault> {
    digits(text).filter(|limit| (1..=MAX_LIMIT).contains(limit)).ok_or_else(|| {
        let detail = format!("must be an integer from 1 to {MAX_LIMIT}");
        (ViolationCode::OutOfRange.as_str(), detail.into())
    })
}

fn identifier(text: &str, least: i64) -> Result<i64, Fault> {
    let detail = "must be the identifier of an item";
    let id = digits(text).filter(|id| *id >= least);
    id.ok_or_else(|| fault(ViolationCode::InvalidFormat, detail))
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
    data: Vec<T>,
}

/// Answers with a list of one page at `url`.
pub(crate) fn whole<T: Serialize>(
    request: &HttpRequest,
    url: String,
    data: impl Iterator<Item = T>,
) -> Result<HttpResponse, Problem> {
    let list = List { object: "list", url, has_more: false, data: data.collect() };
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
    let (ids, data): (Vec<Id>, Vec<T>) = items.unzip();
    let links = paging.links(&url, &ids, others);
    let has_more = if paging.is_toward_newer() { others.newer } else { others.older };
    conditional::json(request, &List { object: "list", url, has_more, data }, links)
}
