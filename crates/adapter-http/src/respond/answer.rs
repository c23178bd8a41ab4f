//! Turns the result of a handler into a response.

use std::panic::AssertUnwindSafe;

use actix_web::{HttpMessage as _, HttpRequest, HttpResponse, http::header};
use futures_util::{FutureExt as _, future::LocalBoxFuture};
use serde::Serialize;

use crate::{request::id::RequestId, respond::problem::Problem};

/// The result of a handler.
pub(crate) type Answer = Result<HttpResponse, Problem>;

/// Runs a handler, and then `end` with its outcome. A problem becomes a problem response, and a panic an
/// internal one. The future is boxed, because actix moves it several times and a handler's future has
/// kilobytes.
pub(crate) fn answer(
    request: HttpRequest,
    handler: impl Future<Output = Answer> + 'static,
    end: impl FnOnce(&Answer) + 'static,
) -> LocalBoxFuture<'static, HttpResponse> {
    let handler = AssertUnwindSafe(handler).catch_unwind();
    async move {
        // The panic hook has logged the panic.
        let outcome = handler.await.unwrap_or_else(|_| Err(Problem::internal()));
        end(&outcome);
        outcome.unwrap_or_else(|problem| reject(&request, &problem))
    }
    .boxed_local()
}

/// Builds the response of a creation. `location` is the path of the new thing (RFC 9110, section 15.3.2).
pub(crate) fn created(location: String, record: impl Serialize) -> HttpResponse {
    HttpResponse::Created().insert_header((header::LOCATION, location)).json(record)
}

/// Builds the response of a problem, and notes its code and its faults for the log, the metrics and the counts.
pub(crate) fn reject(request: &HttpRequest, problem: &Problem) -> HttpResponse {
    request.extensions_mut().insert(problem.code());
    request.extensions_mut().insert(problem.faults());
    problem.response(&RequestId::of(request))
}
