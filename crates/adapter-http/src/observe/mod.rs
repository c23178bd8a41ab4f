//! The outermost middleware: request id, log line, metrics and the headers of every response.

use std::{
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use actix_web::{
    Error, HttpMessage as _, HttpRequest,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        ConnectionType, Method,
        header::{self, HeaderValue},
    },
    middleware::Next,
};
use bytes::Bytes;
use tracing::{Instrument as _, Span};

use crate::{
    admission::{limits::Share, peer, rate_limit::Allowance},
    body::held::{AnswerBody, HeldBody},
    guard::Connection,
    request::{
        id::{RequestId, X_REQUEST_ID},
        metrics::known_method,
        notes::Notes,
        trace::{TraceRequests, TracedAnswer},
    },
    respond::{
        answer::reject,
        problem::{Problem, ProblemCode},
    },
    state::{Api, State},
};

const AFTER_LAST: &str = "The answer to the request before this one closes the connection. \
    Send this request on another connection.";

/// Observes a request from its head to the head of its answer.
pub(crate) async fn observe(
    api: State,
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let started = Instant::now();
    let (id, span, traced) = begin_span(&api, request.request());
    request.extensions_mut().insert(id.clone());
    let mut body = HeldBody::share(&mut request, started);
    let is_head = *request.method() == Method::HEAD;
    let connection = request.request().conn_data::<Arc<Connection>>().cloned();
    api.closing.request_started();
    let in_progress = connection.as_ref().map(|connection| connection.begin(request.head()));
    let mut response = if let Some(None) = in_progress {
        let answer = reject(request.request(), &Problem::malformed(AFTER_LAST));
        request.into_response(answer)
    } else {
        next.call(request).instrument(span.clone()).await?.map_into_boxed_body()
    };
    let duration = body.arrived().elapsed();
    if !body.skip_arrived().await
        && let Some(connection) = &connection
    {
        connection.discard_rest();
    }
    let route = response.request().match_pattern().unwrap_or_else(|| "unmatched".to_owned());
    let status = response.status().as_u16();
    count(&api, response.request(), status, duration, &route);
    rejected::count(&api, response.request());
    span.in_scope(|| log(&api, response.request(), status, started.elapsed(), &route));
    if let Some(traces) = traced {
        let request = response.request();
        let problem = request.extensions().get::<ProblemCode>().map(|code| code.as_str());
        let (method, status) = (known_method(request.method()), response.status());
        traces.answered(&span, &TracedAnswer { method, route: &route, status, problem });
    }
    add_headers(&mut response, &id);
    if api.closing.has_begun() || connection.is_some_and(|connection| connection.must_close()) {
        response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
    }
    let permit = response.request().extensions_mut().remove::<Share>();
    let request = (body, in_progress.flatten(), permit);
    let keep =
        |_: &mut _, content| AnswerBody { content, rest: Bytes::new(), is_head, _request: request };
    Ok(response.map_body(keep).map_into_boxed_body())
}

/// Begins the span of a request, and its trace if traces are exported. Returns what exports it.
fn begin_span<'a>(
    api: &'a Api,
    request: &HttpRequest,
) -> (RequestId, Span, Option<&'a dyn TraceRequests>) {
    let is_proxy = |peer: SocketAddr| peer::is_proxy(peer.ip(), &api.admission.proxies.trusted);
    let is_from_proxy = request.peer_addr().is_some_and(is_proxy);
    let given = is_from_proxy.then(|| RequestId::given(request)).flatten();
    let id = given.unwrap_or_else(|| RequestId::random(&*api.entropy));
    let Some(traces) = api.traces.as_deref() else {
        // A span of the highest level, so that every line of the request has its id.
        let span = tracing::error_span!("request", request_id = &*id.id);
        return (id, span, None);
    };
    let trace = traces.begin(&id.id, request.method(), request.headers());
    let id = RequestId { trace: trace.id.map(Rc::from), ..id };
    (id, trace.span, trace.is_exported.then_some(traces))
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
    if extensions.get::<Notes>().is_some_and(|notes| notes.is_over_limit) {
        api.metrics.over_concurrency_limit.inc();
    }
}

/// Returns whether a client can cause an answer in any number: at no cost, or with no key and no session.
fn is_in_numbers(code: ProblemCode, notes: &Notes) -> bool {
    let is_stranger = notes.api_key.is_none() && notes.person.is_none();
    code.is_cheap() || is_stranger && code.status().is_client_error()
}

/// Writes the log line of a request. Its level is `debug` for requests that are rejected in such
/// numbers that their lines would be a load.
fn log(api: &Api, request: &HttpRequest, status: u16, duration: Duration, route: &str) {
    let (method, milliseconds) = (known_method(request.method()), duration.as_secs_f64() * 1e3);
    let extensions = request.extensions();
    let notes = extensions.get::<Notes>().copied().unwrap_or_default();
    let code = extensions.get::<ProblemCode>();
    let problem = code.map(|code| code.as_str());
    let peer = notes.rejected_peer.map(tracing::field::display);
    let usual = if notes.is_over_limit { "concurrency limit reached" } else { "answered" };
    let message = notes.message.unwrap_or(usual);
    let peer_of = || peer::address(request, &api.admission.proxies);
    let left_out = notes.is_over_limit
        || code.is_some_and(|code| is_in_numbers(*code, &notes))
            && notes
                .rejected_peer
                .or_else(peer_of)
                .is_some_and(|peer| !api.admission.rates.may_log(peer));
    macro_rules! write_line {
        ($level:ident) => {
            tracing::$level!(
                method,
                route,
                status,
                milliseconds,
                api_key = notes.api_key.map(|key| key.0),
                person = notes.person.map(|person| person.0),
                problem,
                peer,
                order_id = notes.order.map(|order| order.0),
                documents = notes.documents,
                document = notes.document,
                test = notes.is_test,
                webhook_id = notes.webhook.map(|webhook| webhook.0),
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
    let quota = allowance.into_iter().flat_map(Allowance::headers);
    for (name, value) in quota.chain([(X_REQUEST_ID, id.id.to_string())]) {
        // Names, digits and identifiers are always valid values.
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

pub(crate) mod gauges;
mod rejected;
#[cfg(test)]
mod tests;
