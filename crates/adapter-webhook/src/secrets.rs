//! Secrets at rest.

use std::{fmt, str::FromStr, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::{
    ports::{Entropy, SecretBox, Unreadable},
    webhook::secret::WebhookSecret,
};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

const KEY_BYTES: usize = 32;

/// The key that encrypts secrets: 32 random bytes, as text in base64.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretsKey([u8; KEY_BYTES]);

/// The text is no key. It is not repeated.
#[derive(Debug, thiserror::Error)]
#[error("must be 32 bytes in base64, such as `openssl rand -base64 32` prints")]
pub struct InvalidKey;

impl SecretsKey {
    /// Returns a new key.
    pub fn random(entropy: &dyn Entropy) -> Self {
        let mut bytes = [0; KEY_BYTES];
        entropy.fill(&mut bytes);
        Self(bytes)
    }

    /// Returns the text that [`FromStr`] reads.
    pub fn to_text(&self) -> String {
        STANDARD.encode(self.0)
    }
}

impl FromStr for SecretsKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let bytes = STANDARD.decode(text.trim()).map_err(|_| InvalidKey)?;
        bytes.try_into().map(Self).map_err(|_| InvalidKey)
    }
}

impl fmt::Debug for SecretsKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretsKey(…)")
    }
}

/// Encrypts secrets with AES-256-GCM. A sealed secret is a random nonce, the encrypted bytes and
/// their tag. The context is authenticated, so a secret cannot move to another client.
pub struct SealedSecrets {
    key: LessSafeKey,
    entropy: Arc<dyn Entropy>,
}

impl SealedSecrets {
    /// Returns the box of a key.
    pub fn new(key: &SecretsKey, entropy: Arc<dyn Entropy>) -> Self {
        let Ok(key) = UnboundKey::new(&AES_256_GCM, &key.0) else {
            unreachable!("the key has the length that the algorithm asks for")
        };
        Self { key: LessSafeKey::new(key), entropy }
    }
}

impl SecretBox for SealedSecrets {
    fn seal(&self, secret: &WebhookSecret, context: &str) -> Vec<u8> {
        let mut nonce = [0; NONCE_LEN];
        self.entropy.fill(&mut nonce);
        let mut text = *secret.expose();
        let sealed = self.key.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(context),
            &mut text,
        );
        let Ok(tag) = sealed else { unreachable!("only gigabytes are too long to be encrypted") };
        [&nonce[..], &text, tag.as_ref()].concat()
    }

    fn open(&self, sealed: &[u8], context: &str) -> Result<WebhookSecret, Unreadable> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(Unreadable)?;
        let mut text = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.key.open_in_place(nonce, Aad::from(context), &mut text);
        let bytes: [u8; WebhookSecret::BYTES] =
            opened.map_err(|_| Unreadable)?.try_into().map_err(|_| Unreadable)?;
        Ok(WebhookSecret::from(bytes))
    }
}

#[cfg(test)]
mod tests {
    use contract_tests::{fakes::CountingEntropy, secret_box::SecretBoxFixture};

    use super::*;

    struct Fixture;

    impl SecretBoxFixture for Fixture {
        fn with_key(&self, key: u8) -> Box<dyn SecretBox> {
            let key = SecretsKey([key; KEY_BYTES]);
            Box::new(SealedSecrets::new(&key, Arc::new(CountingEntropy::default())))
        }
    }

    contract_tests::contract!(secret_box, Fixture);

    #[test]
    fn key_reads_its_own_text() {
        let key = SecretsKey::random(&CountingEntropy::default());
        assert_eq!(format!("{}\n", key.to_text()).parse::<SecretsKey>().unwrap(), key);
    }

    #[test]
    fn other_texts_are_no_key() {
        for text in ["", "secret", "c2VjcmV0", &STANDARD.encode([1; 31]), &STANDARD.encode([1; 33])]
        {
            let error = text.parse::<SecretsKey>().unwrap_err();
            assert!(text.is_empty() || !format!("{error} {error:?}").contains(text), "{text}");
        }
    }

    #[test]
    fn debug_hides_the_key() {
        assert_eq!(format!("{:?}", SecretsKey([7; KEY_BYTES])), "SecretsKey(…)");
    }
}
