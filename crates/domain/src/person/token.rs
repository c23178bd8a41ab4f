//! Random tokens that a browser holds. The service stores their hashes only.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::entropy::Entropy;

const BYTES: usize = 24;

/// A secret of 192 random bits: of an invitation, a session, or a ceremony. Its text is 32 characters of the
/// URL-safe alphabet of base64.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    text: String,
}

impl Token {
    /// Returns a new token.
    pub fn random(entropy: &dyn Entropy) -> Self {
        Self { text: BASE64_URL_SAFE_NO_PAD.encode(entropy.bytes::<BYTES>()) }
    }

    /// Reads a token. Returns `None` if the text cannot be one.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        (bytes.len() == BYTES).then(|| Self { text: text.to_owned() })
    }

    /// Returns the hash that the service stores. The token is long and random, so one round of SHA-256 protects it.
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(&self.text).into())
    }

    /// Returns the token for its holder, who gets it once.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Compares in constant time with a text that a browser sent.
    pub fn is(&self, text: &str) -> bool {
        self.text.as_bytes().ct_eq(text.as_bytes()).into()
    }
}

/// SHA-256 of a [`Token`]. Knowing it gives nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenHash(pub [u8; 32]);

conceal!(Token, TokenHash);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::CountingEntropy;

    #[test]
    fn token_has_192_bits_and_is_read_back() {
        let entropy = CountingEntropy::default();
        let [first, second] = [(); 2].map(|()| Token::random(&entropy));
        assert!(first != second && first.hash() != second.hash());
        assert_eq!(first.expose().len(), 32);
        assert!(Token::parse(first.expose()).is_some_and(|read| read.hash() == first.hash()));
        assert!(first.is(first.expose()) && !first.is(second.expose()));
    }

    #[test]
    fn other_texts_are_no_tokens() {
        let long = "A".repeat(33);
        for text in ["", "abc", "+AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", &long, "é"] {
            assert!(Token::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn debug_text_has_no_secret() {
        let token = Token::random(&CountingEntropy::default());
        assert_eq!(format!("{token:?} {:?}", token.hash()), "Token(…) TokenHash(…)");
    }
}
