//! Signatures of Standard Webhooks 1.0.0.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::{ports::WebhookRequest, webhook::secret::WebhookSecret};
use ring::hmac;

/// Returns the value of `webhook-signature`: for each secret `v1,` and the HMAC-SHA256 of id,
/// timestamp and body in base64, separated by spaces.
pub(crate) fn sign(request: &WebhookRequest) -> String {
    let signed = format!("{}.{}.{}", request.id, request.timestamp.unix_timestamp(), request.body);
    let signature = |secret: &WebhookSecret| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose());
        format!("v1,{}", STANDARD.encode(hmac::sign(&key, signed.as_bytes())))
    };
    request.secrets.iter().map(signature).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[path = "signature_tests.rs"]
mod tests;
