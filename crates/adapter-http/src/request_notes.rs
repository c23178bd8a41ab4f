//! Notes that handlers leave on a request for its log line and its response headers.

use std::{net::IpAddr, rc::Rc};

use actix_web::{HttpMessage as _, HttpRequest, http::header::HeaderName};
use domain::{api_key::ApiKeyId, create_order::CreatedOrder, ports::Entropy};

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum length of an id that a proxy has given.
const MAX_REQUEST_ID: usize = 128;

/// Identifies a request in its answer and in the log.
#[derive(Clone)]
pub(crate) struct RequestId(Rc<str>);

impl RequestId {
    /// Creates an id of 96 random bits.
    pub(crate) fn random(entropy: &dyn Entropy) -> Self {
        let mut bytes = [0; 16];
        entropy.fill(&mut bytes[4..]);
        Self(format!("{:024x}", u128::from_be_bytes(bytes)).into())
    }

    /// Returns the id that a proxy has given a request: one header of 1 to 128 letters, digits,
    /// `.`, `_` and `-`. Any other value is ignored.
    pub(crate) fn given(request: &HttpRequest) -> Option<Self> {
        let mut values = request.headers().get_all(X_REQUEST_ID);
        let id = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
        let sane = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_sane = (1..=MAX_REQUEST_ID).contains(&id.len()) && id.bytes().all(sane);
        is_sane.then(|| Self(id.into()))
    }

    pub(crate) fn of(request: &HttpRequest) -> Self {
        request.extensions().get::<Self>().cloned().unwrap_or_else(|| Self("unknown".into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The order that a request created, or that its answer repeats.
#[derive(Clone, Copy)]
pub(crate) struct OrderNote {
    pub(crate) order_id: i64,
    pub(crate) documents: usize,
    pub(crate) test: bool,
    pub(crate) replayed: bool,
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

/// The API key of a request.
#[derive(Clone, Copy)]
pub(crate) struct KeyNote(pub(crate) ApiKeyId);

/// The address from which an authentication failed.
#[derive(Clone, Copy)]
pub(crate) struct RejectedPeer(pub(crate) IpAddr);

/// Marks a request that exceeded the concurrency limit. It is counted and not logged, because
/// logging would increase the overload.
#[derive(Clone, Copy)]
pub(crate) struct OverConcurrencyLimit;
