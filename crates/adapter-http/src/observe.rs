//! What every request gets: an identifier, a line in the log, its place in the metrics, and safe headers.

use std::{rc::Rc, time::Instant};

use actix_web::{
    Error, HttpMessage as _, HttpRequest,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    error::InternalError,
    http::header::{self, HeaderName, HeaderValue},
    middleware::Next,
    web,
};
use tracing::Instrument as _;

use crate::{api::Api, problem::Problem};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Names a request in its answer and in the log.
#[derive(Clone)]
pub(crate) struct RequestId(Rc<str>);

impl RequestId {
    fn new(api: &Api) -> Self {
        let mut bytes = [0; 12];
        api.entropy.fill(&mut bytes);
        Self(format!("{:024x}", bytes.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte))).into())
    }

    pub(crate) fn of(request: &HttpRequest) -> Self {
        request.extensions().get::<Self>().cloned().unwrap_or_else(|| Self("unknown".into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The outermost middleware of the API.
pub(crate) async fn observe(request: ServiceRequest, next: Next<impl MessageBody + 'static>) -> Result<ServiceResponse<BoxBody>, Error> {
    let Some(api) = request.app_data::<web::Data<Api>>().cloned() else { return Err(actix_web::error::ErrorInternalServerError("no API")) };
    let started = Instant::now();
    let id = RequestId::new(&api);
    request.extensions_mut().insert(id.clone());
    let method = request.method().clone();
    let span = tracing::info_span!("request", request_id = id.as_str());

    let response = next.call(request).instrument(span.clone()).await;
    let mut response = match response {
        Ok(response) => response.map_into_boxed_body(),
        // Whatever the framework refuses on its own is refused in our words.
        Err(error) => {
            let problem = if error.as_response_error().status_code().is_server_error() { Problem::internal() } else { Problem::malformed(error.to_string()) };
            return Err(InternalError::from_response(error, problem.response(id.as_str())).into());
        }
    };
    let route = response.request().match_pattern().unwrap_or_else(|| "unmatched".to_owned());
    let status = response.status().as_u16();
    let took = started.elapsed();
    api.metrics.answered(&method, &route, status, took);
    span.in_scope(|| tracing::info!(method = method.as_str(), route, status, milliseconds = took.as_secs_f64() * 1_000.0, "answered"));

    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(id.as_str()) {
        headers.insert(X_REQUEST_ID, id);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
