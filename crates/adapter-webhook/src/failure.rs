//! Which error an attempt has.

use std::{error::Error, io, iter};

use domain::ports::{UrlRefused, WebhookError};

use crate::resolver::NoAddress;

/// Returns the reason without any text of the error: it may contain the URL or an address.
pub(crate) fn reason(error: &reqwest::Error) -> WebhookError {
    for cause in iter::successors(Some(error as &dyn Error), |cause| cause_of(*cause)) {
        if let Some(refused) = cause.downcast_ref::<UrlRefused>() {
            return WebhookError::Refused(refused.clone());
        }
        if cause.is::<NoAddress>() {
            return WebhookError::Unresolved;
        }
        if cause.is::<rustls::Error>() {
            return WebhookError::Tls;
        }
    }
    match error {
        _ if error.is_timeout() => WebhookError::TimedOut,
        _ if error.is_connect() => WebhookError::Connect,
        _ => WebhookError::Protocol,
    }
}

/// An `io::Error` leaves the error that it wraps out of its `source`.
fn cause_of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}
