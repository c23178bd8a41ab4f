//! What every request gets: an identifier, a line in the log, its place in the metrics, and safe
//! headers.

use std::{
    cell::RefCell,
    net::IpAddr,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use actix_web::{
    Error, HttpMessage as _, HttpRequest,
    body::{BodySize, BoxBody, MessageBody},
    dev::{Payload, ServiceRequest, ServiceResponse},
    error::{InternalError, PayloadError},
    http::{
        ConnectionType,
        header::{self, HeaderName, HeaderValue},
    },
    middleware::Next,
    web,
};
use bytes::Bytes;
use domain::{api_key::ApiKeyId, create_order::CreatedOrder};
use futures_util::{Stream, StreamExt as _};
use tracing::Instrument as _;

use crate::{
    api::Api,
    metrics::known_method,
    problem::{Problem, ProblemCode},
    rate_limit::Allowance,
};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Names a request in its answer and in the log.
#[derive(Clone)]
pub(crate) struct RequestId(Rc<str>);

impl RequestId {
    fn new(api: &Api) -> Self {
        let mut bytes = [0; 12];
        api.entropy.fill(&mut bytes);
        Self(
            format!(
                "{:024x}",
                bytes.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte))
            )
            .into(),
        )
    }

    pub(crate) fn of(request: &HttpRequest) -> Self {
        request.extensions().get::<Self>().cloned().unwrap_or_else(|| Self("unknown".into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// What the log says of a request in which an order was created, or answered again.
#[derive(Clone, Copy)]
pub(crate) struct OrderNote {
    order_id: i64,
    documents: usize,
    test: bool,
    replayed: bool,
}

impl OrderNote {
    pub(crate) fn of(CreatedOrder { stored, replayed, .. }: &CreatedOrder) -> Self {
        Self {
            order_id: stored.id.0,
            documents: stored.documents.len(),
            test: stored.is_test,
            replayed: *replayed,
        }
    }
}

/// The key that a request is made with.
#[derive(Clone, Copy)]
pub(crate) struct KeyNote(pub(crate) ApiKeyId);

/// Where a request came from whose credentials were not good.
#[derive(Clone, Copy)]
pub(crate) struct RefusedPeer(pub(crate) IpAddr);

/// A request that found no room. A line for each would make the overload worse; they are counted.
#[derive(Clone, Copy)]
pub(crate) struct TurnedAway;

/// The line of a request in the log; the only one, unless there is something strange about it.
fn log(request: &HttpRequest, status: u16, took: Duration, route: &str) {
    let (method, milliseconds) = (known_method(request.method()), took.as_secs_f64() * 1_000.0);
    let extensions = request.extensions();
    let api_key = extensions.get::<KeyNote>().map(|key| key.0.0);
    match extensions.get::<OrderNote>() {
        Some(&OrderNote { order_id, documents, test, replayed: false }) => {
            tracing::info!(
                method,
                route,
                status,
                milliseconds,
                api_key,
                order_id,
                documents,
                test,
                "order created"
            );
        }
        Some(&OrderNote { order_id, .. }) => {
            tracing::info!(
                method,
                route,
                status,
                milliseconds,
                api_key,
                order_id,
                "order created before, answered again"
            );
        }
        None if extensions.contains::<TurnedAway>() => {
            tracing::debug!(method, route, status, milliseconds, api_key, "turned away")
        }
        None => {
            let problem = extensions.get::<ProblemCode>().map(|code| code.as_str());
            let peer = extensions.get::<RefusedPeer>().map(|peer| tracing::field::display(peer.0));
            tracing::info!(method, route, status, milliseconds, api_key, problem, peer, "answered");
        }
    }
}

/// The outermost middleware of the API.
pub(crate) async fn observe(
    api: web::Data<Api>,
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let started = Instant::now();
    api.connections.begin();
    let id = RequestId::new(&api);
    request.extensions_mut().insert(id.clone());
    // Of the highest level, so that whatever is logged of a request bears its id.
    let span = tracing::error_span!("request", request_id = id.as_str());

    let body = Unread::take_from(&mut request);

    let response = next.call(request).instrument(span.clone()).await;
    let mut response = match response {
        Ok(response) => response.map_into_boxed_body(),
        // Whatever the framework refuses on its own is refused in our words.
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
    let status = response.status().as_u16();
    let took = started.elapsed();
    api.metrics.answered(response.request().method(), &route, status, took);
    span.in_scope(|| log(response.request(), status, took, &route));

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
    if api.connections.are_ending() {
        response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
    }
    Ok(response.map_body(|_, answer| Answer { answer, _unread: body }).map_into_boxed_body())
}

/// The body of a request, kept until its answer is sent: the framework closes the connection of one
/// that was not read to its end, and lets the client read the answer first. One that is dropped
/// before, and is chunked, it would go on reading for ever.
#[derive(Clone)]
struct Unread(Rc<RefCell<Payload>>);

impl Unread {
    fn take_from(request: &mut ServiceRequest) -> Self {
        let unread = Self(Rc::new(RefCell::new(request.take_payload())));
        request.set_payload(Payload::Stream { payload: Box::pin(unread.clone()) });
        unread
    }
}

impl Stream for Unread {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.borrow_mut().poll_next_unpin(context)
    }
}

/// An answer that keeps the body of its request.
struct Answer {
    answer: BoxBody,
    _unread: Unread,
}

impl MessageBody for Answer {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.answer.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.answer).poll_next(context)
    }
}
