//! The identifier of a request.

use std::rc::Rc;

use actix_web::{HttpMessage as _, HttpRequest, http::header::HeaderName};
use domain::ports::Entropy;

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
