//! The outermost middleware: request id, log line, metrics and the headers of every response.

use std::time::{Duration, Instant};

use actix_web::{
    Error, HttpMessage as _, HttpRequest,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    error::InternalError,
    http::{
        ConnectionType,
        header::{self, HeaderName, HeaderValue},
    },
    middleware::Next,
    web,
};
use tracing::Instrument as _;

use crate::{
    metrics::known_method,
    problem::{Problem, ProblemCode},
    rate_limit::Allowance,
    request_notes::{KeyNote, OrderNote, OverConcurrencyLimit, RejectedPeer, RequestId},
    state::Api,
    unread_body::{AnswerWithBody, UnreadBody},
};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Observes a request from its head to the head of its answer.
pub(crate) async fn observe(
    api: web::Data<Api>,
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let started = Instant::now();
    api.connections.request_started();
    let id = RequestId::random(&*api.entropy);
    request.extensions_mut().insert(id.clone());
    // A span of the highest level, so that every line of the request has its id.
    let span = tracing::error_span!("request", request_id = id.as_str());
    let unread = UnreadBody::share(&mut request);

    let mut response = match next.call(request).instrument(span.clone()).await {
        Ok(response) => response.map_into_boxed_body(),
        // Errors of the framework become problem responses, too.
        Err(error) => {
            let problem = if error.as_response_error().status_code().is_server_error() {
                Problem::internal()
            } else {
                Problem::malformed(error.to_string())
            };
            return Err(InternalError::from_response(error, problem.response(id.as_str())).into());
        }
    };
    let route = response.request().match_pattern().unwrap_or_else(|| "unmatched".to_owned());
    let (status, duration) = (response.status().as_u16(), started.elapsed());
    count(&api, response.request(), status, duration, &route);
    span.in_scope(|| log(response.request(), status, duration, &route));
    add_headers(&mut response, &id);
    if api.connections.are_closing() {
        response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
    }
    Ok(response.map_body(|_, answer| AnswerWithBody::new(answer, unread)).map_into_boxed_body())
}

fn count(api: &Api, request: &HttpRequest, status: u16, duration: Duration, route: &str) {
    api.metrics.answered(request.method(), route, status, duration);
    let extensions = request.extensions();
    if extensions.get() == Some(&ProblemCode::DuplicateOrder) {
        api.metrics.duplicates.inc();
    }
    if extensions.contains::<OverConcurrencyLimit>() {
        api.metrics.over_concurrency_limit.inc();
    }
}

/// Writes the log line of a request.
fn log(request: &HttpRequest, status: u16, duration: Duration, route: &str) {
    let (method, milliseconds) = (known_method(request.method()), duration.as_secs_f64() * 1e3);
    let extensions = request.extensions();
    let api_key = extensions.get::<KeyNote>().map(|key| key.0.0);
    if extensions.contains::<OverConcurrencyLimit>() {
        tracing::debug!(method, route, status, milliseconds, api_key, "concurrency limit reached");
        return;
    }
    let problem = extensions.get::<ProblemCode>().map(|code| code.as_str());
    let peer = extensions.get::<RejectedPeer>().map(|peer| tracing::field::display(peer.0));
    let order = extensions.get::<OrderNote>();
    let created = order.filter(|order| !order.replayed);
    tracing::info!(
        method,
        route,
        status,
        milliseconds,
        api_key,
        problem,
        peer,
        order_id = order.map(|order| order.order_id),
        documents = created.map(|order| order.documents),
        test = created.map(|order| order.test),
        "{}",
        match (order, created) {
            (_, Some(_)) => "order created",
            (Some(_), None) => "order created before, answered again",
            (None, None) => "answered",
        }
    );
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
