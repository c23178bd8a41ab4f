//! The query of a list of orders, and the links to its other pages.

use std::borrow::Cow;

use domain::{
    order::{OrderId, ViolationCode, text_rule},
    ports::{Cursor, Page, PageQuery},
};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use time::{Duration, OffsetDateTime, UtcOffset, format_description::well_known::Rfc3339};

use crate::problem::{FieldProblem, Problem, ProblemCode};

/// Largest number of orders on a page.
pub(crate) const MAX_LIMIT: usize = 100;
/// Number of orders on a page, unless the client asks for another.
pub(crate) const DEFAULT_LIMIT: usize = 20;
/// Longest name of an unknown parameter that a problem repeats, in characters.
const LONGEST_NAME: usize = 100;

const STARTING_AFTER: &str = "starting_after";
const ENDING_BEFORE: &str = "ending_before";

type Fault = (&'static str, Cow<'static, str>);

/// A valid query.
#[derive(Debug, PartialEq)]
pub(super) struct ListQuery {
    pub(super) page: PageQuery,
    /// The parameters that every page keeps: all but the cursor.
    kept: Vec<(String, String)>,
}

impl ListQuery {
    /// Reads the query of a URL. Reports every parameter at fault.
    pub(super) fn parse(query: &str) -> Result<Self, Problem> {
        let mut page = PageQuery {
            file_number: None,
            created_after: None,
            created_before: None,
            limit: DEFAULT_LIMIT,
            cursor: Cursor::Newest,
        };
        let (mut kept, mut seen, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name).unwrap_or_else(|| name.to_owned());
            let read = match decode(value) {
                _ if seen.contains(&name) => Err(("repeated", "must be there once only".into())),
                None => Err(fault(ViolationCode::InvalidCharacters, "must be UTF-8")),
                Some(value) => read(&mut page, &name, value.trim()).map(|()| value),
            };
            match read {
                Ok(value) if ![STARTING_AFTER, ENDING_BEFORE].contains(&name.as_str()) => {
                    kept.push((name.clone(), value));
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
            Ok(Self { page, kept })
        } else {
            Err(Problem::invalid(ProblemCode::ValidationFailed, errors))
        }
    }

    /// Reports that the cursor is no order of the client.
    pub(super) fn unknown_cursor(&self) -> Problem {
        let parameter = match self.page.cursor {
            Cursor::NewerThan(_) => ENDING_BEFORE,
            Cursor::Newest | Cursor::OlderThan(_) => STARTING_AFTER,
        };
        let detail = "must be the identifier of an order of this client";
        let error = FieldProblem::of_parameter(parameter, "unknown_order", detail);
        Problem::invalid(ProblemCode::ValidationFailed, vec![error])
    }

    /// Returns whether there are more orders in the direction of the page.
    pub(super) fn has_more(&self, page: &Page) -> bool {
        match self.page.cursor {
            Cursor::Newest | Cursor::OlderThan(_) => page.has_older,
            Cursor::NewerThan(_) => page.has_newer,
        }
    }

    /// Returns the value of `Link` (RFC 8288); `None` if there is no other page.
    pub(super) fn links(&self, path: &str, page: &Page) -> Option<String> {
        let older = page.orders.last().filter(|_| page.has_older);
        let newer = page.orders.first().filter(|_| page.has_newer);
        let links: Vec<String> = [(older, STARTING_AFTER, "next"), (newer, ENDING_BEFORE, "prev")]
            .into_iter()
            .filter_map(|(order, cursor, relation)| {
                let url = self.url(path, cursor, order?.stored.id);
                Some(format!("<{url}>; rel=\"{relation}\""))
            })
            .collect();
        (!links.is_empty()).then(|| links.join(", "))
    }

    fn url(&self, path: &str, cursor: &str, OrderId(id): OrderId) -> String {
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

/// Reads a parameter into the query.
fn read(page: &mut PageQuery, name: &str, value: &str) -> Result<(), Fault> {
    if value.is_empty() && is_known(name) {
        return Err(fault(ViolationCode::Blank, "must not be blank"));
    }
    match name {
        "file_number" => {
            text_rule("SigningDetailsRequest", "fileNumber")
                .check(value)
                .map_err(|(code, detail)| (code.as_str(), detail))?;
            page.file_number = Some(value.to_owned());
        }
        "created_after" => page.created_after = Some(instant(value)?),
        "created_before" => page.created_before = Some(instant(value)?),
        "limit" => page.limit = limit(value)?,
        STARTING_AFTER => page.cursor = Cursor::OlderThan(order_id(value)?),
        ENDING_BEFORE => page.cursor = Cursor::NewerThan(order_id(value)?),
        _ => return Err(("unknown_parameter", "is no parameter of this path".into())),
    }
    Ok(())
}

fn is_known(name: &str) -> bool {
    ["file_number", "created_after", "created_before", "limit", STARTING_AFTER, ENDING_BEFORE]
        .contains(&name)
}

fn fault(code: ViolationCode, detail: &'static str) -> Fault {
    (code.as_str(), detail.into())
}

/// Reads an instant. Between two microseconds it means the later one, because every order was
/// created at a whole microsecond.
fn instant(text: &str) -> Result<OffsetDateTime, Fault> {
    let invalid = || {
        let detail = "must be an RFC 3339 datetime, such as 2026-12-01T20:30:00Z; \
            a plus sign in it is written %2B";
        fault(ViolationCode::InvalidFormat, detail)
    };
    let instant = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| invalid())?;
    let instant = instant.checked_to_offset(UtcOffset::UTC).ok_or_else(invalid)?;
    let beyond = i64::from(instant.nanosecond() % 1_000);
    let rest = Duration::nanoseconds((1_000 - beyond) % 1_000);
    instant.checked_add(rest).filter(|instant| instant.year() >= 0).ok_or_else(invalid)
}

fn limit(text: &str) -> Result<usize, Fault> {
    let limit = digits(text).and_then(|digits| digits.parse().ok());
    limit.filter(|limit| (1..=MAX_LIMIT).contains(limit)).ok_or_else(|| {
        let detail = format!("must be an integer from 1 to {MAX_LIMIT}");
        (ViolationCode::OutOfRange.as_str(), detail.into())
    })
}

fn order_id(text: &str) -> Result<OrderId, Fault> {
    let id = digits(text).and_then(|digits| digits.parse().ok()).filter(|id| *id > 0);
    id.map(OrderId)
        .ok_or_else(|| fault(ViolationCode::InvalidFormat, "must be the identifier of an order"))
}

/// Returns the text if it has decimal digits only. `parse` alone accepts a sign.
fn digits(text: &str) -> Option<&str> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then_some(text)
}

#[cfg(test)]
#[path = "list_query_tests.rs"]
mod tests;
