//! The outermost middleware: request id, log line, metrics and the headers of every response.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use actix_web::{
    Error, HttpMessage as _, HttpRequest,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    error::InternalError,
    http::{
        ConnectionType, Method,
        header::{self, HeaderValue},
    },
    middleware::Next,
    web,
};
use tracing::{Instrument as _, Span};

use crate::{
    access::{peer, rate_limit::Allowance},
    body::kept::{Answer, KeptBody},
    observe::{
        metrics::known_method,
        request_notes::{
            KeyNote, OrderNote, OverConcurrencyLimit, RejectedPeer, RequestId, WebhookNote,
            X_REQUEST_ID,
        },
        trace::{TraceRequests, TracedAnswer},
    },
    respond::problem::{Problem, ProblemCode},
    serve::guard::{Connection, InProgress, Refused},
    state::Api,
};

const AFTER_DOUBTFUL_END: &str = "The answer to the request before this one closes the connection. \
    Send this request on another connection.";

/// Observes a request from its head to the head of its answer.
pub(crate) async fn observe(
    api: web::Data<Api>,
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let started = Instant::now();
    let id = Some(request.request())
        .filter(|request| peer::is_trusted_proxy(request, &api.trusted_proxies))
        .and_then(RequestId::given)
        .unwrap_or_else(|| RequestId::random(&*api.entropy));
    let (id, span, traced) = begin_span(&api, &request, id);
    request.extensions_mut().insert(id.clone());
    let body = KeptBody::share(&mut request, started);
    let is_head = *request.method() == Method::HEAD;
    let connection = request.request().conn_data::<Arc<Connection>>().cloned();
    api.closing.request_started();
    let begun = connection.map(|connection| connection.begin(request.head()));
    let must_reject =
        matches!(begun, Some(None)) || request.request().conn_data::<Refused>().is_some();
    let in_progress = begun.flatten();
    let answered = if must_reject {
        Ok(request.into_response(Problem::malformed(AFTER_DOUBTFUL_END).response(&id)))
    } else {
        let answered = next.call(request).instrument(span.clone()).await;
        answered.map(ServiceResponse::map_into_boxed_body)
    };
    body.skip_arrived().await;
    let must_close = must_reject
        || api.closing.has_begun()
        || in_progress.as_ref().is_some_and(InProgress::must_close);
    let mut response = match answered {
        Ok(response) => response,
        // Errors of actix become problem responses, too.
        Err(error) => {
            let problem = if error.as_response_error().status_code().is_server_error() {
                Problem::internal()
            } else {
                Problem::malformed(error.to_string())
            };
            let mut response = problem.response(&id);
            if must_close {
                response.head_mut().set_connection_type(ConnectionType::Close);
            }
            return Err(InternalError::from_response(error, response).into());
        }
    };
    let route = response.request().match_pattern().unwrap_or_else(|| "unmatched".to_owned());
    let status = response.status().as_u16();
    count(&api, response.request(), status, body.arrived().elapsed(), &route);
    span.in_scope(|| log(&api, response.request(), status, started.elapsed(), &route));
    if let Some(traces) = traced {
        let request = response.request();
        let problem = request.extensions().get::<ProblemCode>().copied();
        let (method, status) = (known_method(request.method()), response.status());
        traces.answered(&span, &TracedAnswer { method, route: &route, status, problem });
    }
    add_headers(&mut response, &id);
    if must_close {
        response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
    }
    let keep = |_: &mut _, answer| Answer::new(answer, is_head, body, in_progress);
    Ok(response.map_body(keep).map_into_boxed_body())
}

/// Begins the span of a request, and its trace if traces are exported. Returns what exports it.
fn begin_span<'a>(
    api: &'a Api,
    request: &ServiceRequest,
    id: RequestId,
) -> (RequestId, Span, Option<&'a dyn TraceRequests>) {
    let Some(traces) = api.traces.as_deref() else {
        // A span of the highest level, so that every line of the request has its id.
        let span = tracing::error_span!("request", request_id = id.as_str());
        return (id, span, None);
    };
    let trace = traces.begin(id.as_str(), request.method(), request.headers());
    (id.in_trace(trace.id), trace.span, trace.is_exported.then_some(traces))
}

fn count(api: &Api, request: &HttpRequest, status: u16, duration: Duration, route: &str) {
    api.metrics.answered(request.method(), route, status, duration);
    let extensions = request.extensions();
    if let Some(problem) = extensions.get::<ProblemCode>() {
        api.metrics.problems.with_label_values(&[problem.as_str()]).inc();
        if *problem == ProblemCode::DuplicateOrder {
            api.metrics.duplicates.inc();
        }
    }
    if extensions.contains::<OverConcurrencyLimit>() {
        api.metrics.over_concurrency_limit.inc();
    }
}

/// Writes the log line of a request. Its level is `debug` for requests that are rejected in such
/// numbers that their lines would be a load.
fn log(api: &Api, request: &HttpRequest, status: u16, duration: Duration, route: &str) {
    let (method, milliseconds) = (known_method(request.method()), duration.as_secs_f64() * 1e3);
    let extensions = request.extensions();
    let api_key = extensions.get::<KeyNote>().map(|key| key.0.0);
    let code = extensions.get::<ProblemCode>();
    let problem = code.map(|code| code.as_str());
    let rejected = extensions.get::<RejectedPeer>().map(|peer| peer.0);
    let peer = rejected.map(tracing::field::display);
    let order = extensions.get::<OrderNote>();
    let webhook = extensions.get::<WebhookNote>();
    let message = match (order, webhook) {
        (Some(order), _) => order.message,
        (None, Some(webhook)) => webhook.message,
        _ if extensions.contains::<OverConcurrencyLimit>() => "concurrency limit reached",
        _ => "answered",
    };
    let peer_of = || peer::address(request, &api.trusted_proxies);
    let left_out = extensions.contains::<OverConcurrencyLimit>()
        || code.is_some_and(|code| code.is_cheap())
            && rejected.or_else(peer_of).is_some_and(|peer| !api.rates.may_log(peer));
    macro_rules! write_line {
        ($level:ident) => {
            tracing::$level!(
                method,
                route,
                status,
                milliseconds,
                api_key,
                problem,
                peer,
                order_id = order.map(|order| order.order_id),
                documents = order.and_then(|order| order.documents),
                document = order.and_then(|order| order.document),
                test = order.and_then(|order| order.test),
                webhook_id = webhook.map(|webhook| webhook.id.0),
                "{message}"
            )
        };
    }
    if left_out {
        write_line!(debug);
    } else {
        write_line!(info);
    }
}

fn add_headers(response: &mut ServiceResponse, id: &RequestId) {
    let allowance = response.request().extensions().get::<Allowance>().copied();
    let headers = response.headers_mut();
    for (name, value) in allowance.into_iter().flat_map(Allowance::headers) {
        headers.insert(name, value);
    }
    if let Ok(id) = HeaderValue::from_str(id.as_str()) {
        headers.insert(X_REQUEST_ID, id);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

pub(crate) mod gauges;
pub(crate) mod metrics;
pub(crate) mod ops;
pub(crate) mod request_notes;
#[cfg(test)]
#[path = "observe_tests.rs"]
mod tests;
pub(crate) mod trace;
