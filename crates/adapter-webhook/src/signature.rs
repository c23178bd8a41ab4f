//! Signatures of Standard Webhooks 1.0.0.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::{ports::WebhookRequest, webhook::secret::WebhookSecret};
use ring::hmac;
use time::{Duration, OffsetDateTime};

/// Greatest difference between the clocks of both sides. An older webhook may be one that was
/// overheard and is sent again.
const TOLERANCE: Duration = Duration::minutes(5);

/// Returns the value of `webhook-signature`: for each secret `v1,` and the HMAC-SHA256 of id,
/// timestamp and body in base64, separated by spaces.
pub(crate) fn sign(request: &WebhookRequest) -> String {
    let timestamp = request.timestamp.unix_timestamp().to_string();
    let signed = signed(&request.id, &timestamp, request.body.as_bytes());
    let signature = |secret: &WebhookSecret| {
        format!("v1,{}", STANDARD.encode(hmac::sign(&key(secret), &signed)))
    };
    request.secrets.iter().map(signature).collect::<Vec<_>>().join(" ")
}

/// A webhook as it arrived: header fields, empty if absent, and body.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// The `webhook-id`.
    pub id: &'a str,
    /// The `webhook-timestamp`.
    pub timestamp: &'a str,
    /// The `webhook-signature`.
    pub signature: &'a str,
    /// The bytes of the body as they came.
    pub body: &'a [u8],
}

/// The reason why a webhook was not sent by the service, now, to the endpoint of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotGenuine {
    /// A header field is missing.
    #[error("webhook-id, webhook-timestamp or webhook-signature is missing")]
    Incomplete,
    /// The timestamp is no number, or too far from the clock.
    #[error("its webhook-timestamp is more than five minutes away from the clock")]
    Old,
    /// No signature is one of the secret.
    #[error("its webhook-signature was not made with the secret of this endpoint")]
    Forged,
}

/// Checks that the service has sent a webhook to the endpoint of this secret, at most
/// five minutes ago.
pub fn verify(
    secret: &WebhookSecret,
    received: &Received<'_>,
    now: OffsetDateTime,
) -> Result<(), NotGenuine> {
    let Received { id, timestamp, signature, body } = *received;
    if id.is_empty() || timestamp.is_empty() || signature.is_empty() {
        return Err(NotGenuine::Incomplete);
    }
    let sent_at =
        timestamp.parse().ok().and_then(|sent| OffsetDateTime::from_unix_timestamp(sent).ok());
    if sent_at.is_none_or(|sent_at| (now - sent_at).abs() > TOLERANCE) {
        return Err(NotGenuine::Old);
    }
    let (key, signed) = (key(secret), signed(id, timestamp, body));
    let is_genuine = signature
        .split(' ')
        .filter_map(|signature| STANDARD.decode(signature.strip_prefix("v1,")?).ok())
        // The comparison takes constant time.
        .any(|signature| hmac::verify(&key, &signed, &signature).is_ok());
    if is_genuine { Ok(()) } else { Err(NotGenuine::Forged) }
}

fn key(secret: &WebhookSecret) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.expose())
}

/// Returns the bytes that are signed.
fn signed(id: &str, timestamp: &str, body: &[u8]) -> Vec<u8> {
    [format!("{id}.{timestamp}.").as_bytes(), body].concat()
}

#[cfg(test)]
#[path = "signature_tests.rs"]
mod tests;
