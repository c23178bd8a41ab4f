//! The query of a list of orders, and the links to its other pages.

use domain::{
    order::{OrderId, ViolationCode, text_rule},
    ports::{Cursor, Page, PageQuery},
};

use crate::respond::{
    instants,
    paging::{DEFAULT_LIMIT, Fault, Paging, Shown, fault},
    problem::Problem,
};

const FILE_NUMBER: &str = "file_number";
const CREATED_AFTER: &str = "created_after";
const CREATED_BEFORE: &str = "created_before";

/// A valid query.
#[derive(Debug, PartialEq)]
pub(crate) struct ListQuery {
    pub(crate) page: PageQuery,
    pub(crate) paging: Paging,
}

impl ListQuery {
    /// Reads the query of a URL. Reports every parameter at fault.
    pub(crate) fn parse(query: &str) -> Result<Self, Problem> {
        let mut page = PageQuery {
            file_number: None,
            created_after: None,
            created_before: None,
            limit: DEFAULT_LIMIT,
            cursor: Cursor::Newest,
        };
        let filters = [FILE_NUMBER, CREATED_AFTER, CREATED_BEFORE];
        let paging =
            Paging::parse(query, &filters, |name, value| read_filter(&mut page, name, value))?;
        page.limit = paging.limit;
        page.cursor = paging.cursor(OrderId);
        Ok(Self { page, paging })
    }

    /// Reports that the cursor is no order of the client.
    pub(crate) fn unknown_cursor(&self) -> Problem {
        let detail = "must be the identifier of an order of this client";
        self.paging.unknown_cursor("unknown_order", detail)
    }
}

/// Returns a page as its links see it.
pub(crate) fn shown(page: &Page) -> Shown {
    let ends = page.items.first().zip(page.items.last());
    Shown {
        ends: ends.map(|(newest, oldest)| (newest.stored.id.0, oldest.stored.id.0)),
        has_older: page.has_older,
        has_newer: page.has_newer,
    }
}

/// Reads a parameter into the query.
fn read_filter(page: &mut PageQuery, name: &str, value: &str) -> Result<(), Fault> {
    let instant = || {
        let detail = "must be an RFC 3339 datetime, such as 2026-12-01T20:30:00Z; \
            a plus sign in it is written %2B";
        instants::parse(value).ok_or_else(|| fault(ViolationCode::InvalidFormat, detail))
    };
    match name {
        CREATED_AFTER => page.created_after = Some(instant()?),
        CREATED_BEFORE => page.created_before = Some(instant()?),
        _ => {
            text_rule("SigningDetailsRequest", "fileNumber")
                .check(value)
                .map_err(|(code, detail)| (code.as_str(), detail))?;
            page.file_number = Some(value.to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "list_query_tests.rs"]
mod tests;
