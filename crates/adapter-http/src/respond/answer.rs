//! Turns the result of a handler into a response, and ends its access to an order.

use std::panic::AssertUnwindSafe;

use actix_web::{HttpMessage as _, HttpRequest, HttpResponse, http::StatusCode};
use domain::{
    access::{DONE, NOT_MODIFIED},
    use_cases::accesses::recorder::BegunAccess,
};
use futures_util::{FutureExt as _, future::LocalBoxFuture};

use crate::{request::id::RequestId, respond::problem::Problem};

/// The result of a handler.
pub(crate) type Answer = Result<HttpResponse, Problem>;

/// Runs a handler. A problem becomes a problem response, and a panic an internal one. The future is
/// boxed, because actix moves it several times and a handler's future has kilobytes.
pub(crate) fn answer(
    request: HttpRequest,
    handler: impl Future<Output = Answer> + 'static,
) -> LocalBoxFuture<'static, HttpResponse> {
    let handler = AssertUnwindSafe(handler).catch_unwind();
    async move {
        // The panic hook has logged the panic.
        let outcome = handler.await.unwrap_or_else(|_| Err(Problem::internal()));
        let access = request.extensions_mut().remove::<BegunAccess>();
        if let Some(access) = access {
            access.end(name(&outcome).to_owned());
        }
        outcome.unwrap_or_else(|problem| reject(&request, &problem))
    }
    .boxed_local()
}

/// Returns the name of an outcome among the accesses.
fn name(outcome: &Answer) -> &'static str {
    match outcome {
        Ok(response) if response.status() == StatusCode::NOT_MODIFIED => NOT_MODIFIED,
        Ok(_) => DONE,
        Err(problem) => problem.code().as_str(),
    }
}

/// Builds the response of a problem, and notes its code for the log and the metrics.
pub(crate) fn reject(request: &HttpRequest, problem: &Problem) -> HttpResponse {
    request.extensions_mut().insert(problem.code());
    problem.response(&RequestId::of(request))
}
