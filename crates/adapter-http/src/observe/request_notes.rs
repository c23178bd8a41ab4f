//! Notes that handlers leave on a request for its log line and its response headers.

use std::{net::IpAddr, rc::Rc};

use actix_web::{HttpMessage as _, HttpRequest, http::header::HeaderName};
use domain::{api_key::ApiKeyId, order::OrderId, ports::Entropy, webhook::EndpointId};

use crate::access::rate_limit::Allowance;

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum length of an id that a proxy has given.
const MAX_REQUEST_ID: usize = 128;

/// Identifies a request in its answer and in the log.
#[derive(Clone)]
pub(crate) struct RequestId {
    pub(crate) id: Rc<str>,
    /// The identifier of the trace that the request is a part of.
    pub(crate) trace: Option<Rc<str>>,
}

impl RequestId {
    /// Creates an id of 96 random bits.
    pub(crate) fn random(entropy: &dyn Entropy) -> Self {
        let mut bytes = [0; 16];
        entropy.fill(&mut bytes[4..]);
        Self::from(&*format!("{:024x}", u128::from_be_bytes(bytes)))
    }

    /// Returns the id that a proxy has given a request: one header of 1 to 128 letters, digits,
    /// `.`, `_` and `-`. Any other value is ignored.
    pub(crate) fn given(request: &HttpRequest) -> Option<Self> {
        let mut values = request.headers().get_all(X_REQUEST_ID);
        let id = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
        let sane = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_sane = (1..=MAX_REQUEST_ID).contains(&id.len()) && id.bytes().all(sane);
        is_sane.then(|| Self::from(id))
    }

    pub(crate) fn of(request: &HttpRequest) -> Self {
        request.extensions().get::<Self>().cloned().unwrap_or_else(|| Self::from("unknown"))
    }
}

impl From<&str> for RequestId {
    fn from(id: &str) -> Self {
        Self { id: id.into(), trace: None }
    }
}

/// What handlers note about a request.
#[derive(Clone, Copy, Default)]
pub(crate) struct Notes {
    /// What the request did, as the message of its log line; `None` if it was only answered.
    pub(crate) message: Option<&'static str>,
    pub(crate) api_key: Option<ApiKeyId>,
    /// What is left of the quota of the key.
    pub(crate) allowance: Option<Allowance>,
    /// The address from which an authentication failed.
    pub(crate) rejected_peer: Option<IpAddr>,
    /// Whether the request exceeded a limit of requests in progress. It is counted and not logged,
    /// because logging would increase the overload.
    pub(crate) is_over_limit: bool,
    /// The order that the request created, changed or read.
    pub(crate) order: Option<OrderId>,
    /// Number of documents that the request stored.
    pub(crate) documents: Option<usize>,
    /// Position of the document that the request read.
    pub(crate) document: Option<u32>,
    /// Whether the request created a test order.
    pub(crate) is_test: Option<bool>,
    /// The webhook that the request managed.
    pub(crate) webhook: Option<EndpointId>,
}

/// Notes something about a request.
pub(crate) fn note(request: &HttpRequest, change: impl FnOnce(&mut Notes)) {
    change(request.extensions_mut().get_or_insert_with(Notes::default));
}
