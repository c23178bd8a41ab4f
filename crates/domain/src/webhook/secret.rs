//! The secret of a webhook endpoint, with which the service signs what it sends there.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use subtle::ConstantTimeEq as _;

use crate::entropy::Entropy;

/// Beginning of every secret as text (Standard Webhooks 1.0.0).
const PREFIX: &str = "whsec_";

/// A secret of 256 random bits. Equality takes constant time.
#[derive(Clone)]
pub struct WebhookSecret([u8; Self::BYTES]);

impl WebhookSecret {
    /// Length in bytes.
    pub const BYTES: usize = 32;

    /// Returns a new secret.
    pub fn random(entropy: &dyn Entropy) -> Self {
        Self(entropy.bytes())
    }

    /// Returns the text that the client configures its receiver with: `whsec_` and the bytes in
    /// base64. The client sees it once.
    pub fn to_text(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(self.0))
    }

    /// Returns the bytes, which sign.
    pub fn expose(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

impl From<[u8; Self::BYTES]> for WebhookSecret {
    fn from(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }
}

impl PartialEq for WebhookSecret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for WebhookSecret {}

conceal!(WebhookSecret);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_the_prefix_and_base64() {
        let secret = WebhookSecret::from([0xfb; 32]);
        assert_eq!(secret.to_text(), "whsec_+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/s=");
    }

    #[test]
    fn debug_hides_the_secret() {
        assert_eq!(format!("{:?}", WebhookSecret::from([7; 32])), "WebhookSecret(…)");
    }
}
