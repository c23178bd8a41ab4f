//! Notes that handlers leave on a request for its log line.

use std::net::IpAddr;

use actix_web::{HttpMessage as _, HttpRequest};
use domain::{api_key::ApiKeyId, order::OrderId, person::PersonId, webhook::EndpointId};

/// The notes of handlers about a request.
#[derive(Clone, Copy, Default)]
pub(crate) struct Notes {
    /// The effect of the request, as the message of its log line; `None` if it was only answered.
    pub(crate) message: Option<&'static str>,
    pub(crate) api_key: Option<ApiKeyId>,
    pub(crate) person: Option<PersonId>,
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
