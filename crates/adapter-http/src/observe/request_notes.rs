//! Notes that handlers leave on a request for its log line and its response headers.

use std::{net::IpAddr, rc::Rc};

use actix_web::{HttpMessage as _, HttpRequest, http::header::HeaderName};
use domain::{
    api_key::ApiKeyId,
    order::OrderId,
    orders::{add_documents::AddedDocuments, create_order::CreatedOrder},
    ports::Entropy,
    webhook::EndpointId,
};

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum length of an id that a proxy has given.
const MAX_REQUEST_ID: usize = 128;

/// Identifies a request in its answer and in the log.
#[derive(Clone)]
pub(crate) struct RequestId {
    id: Rc<str>,
    trace: Option<Rc<str>>,
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

    /// Adds the identifier of the trace.
    pub(crate) fn in_trace(self, trace: Option<String>) -> Self {
        Self { trace: trace.map(Rc::from), ..self }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.id
    }

    /// Returns the identifier of the trace that the request is a part of.
    pub(crate) fn trace(&self) -> Option<&str> {
        self.trace.as_deref()
    }
}

impl From<&str> for RequestId {
    fn from(id: &str) -> Self {
        Self { id: id.into(), trace: None }
    }
}

/// The order that a request created, changed or read.
#[derive(Clone, Copy)]
pub(crate) struct OrderNote {
    pub(crate) order_id: i64,
    /// What the request did, as the message of its log line.
    pub(crate) message: &'static str,
    /// Number of documents that the request stored.
    pub(crate) documents: Option<usize>,
    /// Position of the document that the request read.
    pub(crate) document: Option<u32>,
    /// Whether the request created a test order.
    pub(crate) test: Option<bool>,
}

impl OrderNote {
    /// Notes an order that was created, or whose creation is answered again.
    pub(crate) fn created(CreatedOrder { stored, replayed, .. }: &CreatedOrder) -> Self {
        let note = Self::read(stored.id, None);
        if *replayed {
            return Self { message: "order created before, answered again", ..note };
        }
        Self {
            message: "order created",
            documents: Some(stored.documents.len()),
            test: Some(stored.is_test),
            ..note
        }
    }

    /// Notes an order that got documents, or whose addition is answered again.
    pub(crate) fn added(
        AddedDocuments { order_id, documents, replayed, .. }: &AddedDocuments,
    ) -> Self {
        let note = Self::read(*order_id, None);
        if *replayed {
            return Self { message: "documents added before, answered again", ..note };
        }
        Self { message: "documents added", documents: Some(documents.len()), ..note }
    }

    /// Notes an order that was read, or one of its documents.
    pub(crate) fn read(order: OrderId, document: Option<u32>) -> Self {
        Self { order_id: order.0, message: "answered", documents: None, document, test: None }
    }

    /// Leaves the note on a request.
    pub(crate) fn leave(self, request: &HttpRequest) {
        request.extensions_mut().insert(self);
    }
}

/// The webhook that a request managed.
#[derive(Clone, Copy)]
pub(crate) struct WebhookNote {
    pub(crate) id: EndpointId,
    /// What the request did, as the message of its log line.
    pub(crate) message: &'static str,
}

impl WebhookNote {
    /// Leaves the note on a request.
    pub(crate) fn leave(self, request: &HttpRequest) {
        request.extensions_mut().insert(self);
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
