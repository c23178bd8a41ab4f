//! The form of every list.

use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;

use crate::respond::{
    conditional,
    paging::{Paging, Shown},
    problem::Problem,
};

/// A page of a list.
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

/// Answers with a page of the list at `url`, and with links to the other pages.
pub(crate) fn page<T: Serialize>(
    request: &HttpRequest,
    url: String,
    paging: &Paging,
    shown: Shown,
    data: impl Iterator<Item = T>,
) -> Result<HttpResponse, Problem> {
    let links = paging.links(&url, shown);
    let has_more = paging.has_more(shown);
    let list = List { object: "list", url, has_more, data: data.collect() };
    conditional::json(request, &list, links)
}
