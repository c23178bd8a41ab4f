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

impl SecretsKey {
    /// Reads one or more keys with commas or white space between them. The first one encrypts.
    ///
    /// # Errors
    /// One is no key, or there is none.
    pub fn list(text: &str) -> Result<Vec<Self>, InvalidKey> {
        let separates = |character: char| character == ',' || character.is_whitespace();
        let keys = text.split(separates).filter(|key| !key.is_empty());
        let keys = keys.map(str::parse).collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() { Err(InvalidKey) } else { Ok(keys) }
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
/// their tag. It does not name its key: the tag shows which one fits. The context is authenticated, so a secret
/// cannot move to another client.
pub struct SealedSecrets {
    first: LessSafeKey,
    others: Vec<LessSafeKey>,
    entropy: Arc<dyn Entropy>,
}

impl SealedSecrets {
    /// Returns the box of some keys; `None` without one. The first key encrypts, and all decrypt.
    pub fn new(keys: &[SecretsKey], entropy: Arc<dyn Entropy>) -> Option<Self> {
        let key = |key: &SecretsKey| {
            let Ok(key) = UnboundKey::new(&AES_256_GCM, &key.0) else {
                unreachable!("the key has the length that the algorithm asks for")
            };
            LessSafeKey::new(key)
        };
        let (first, others) = keys.split_first()?;
        Some(Self { first: key(first), others: others.iter().map(key).collect(), entropy })
    }

    /// Decrypts a secret. Returns the place of its key, too.
    fn find(&self, sealed: &[u8], context: &str) -> Result<(usize, WebhookSecret), Unreadable> {
        let keys = std::iter::once(&self.first).chain(&self.others).enumerate();
        let mut opened = keys.filter_map(|(at, key)| Some((at, open(key, sealed, context)?)));
        opened.next().ok_or(Unreadable)
    }
}

fn open(key: &LessSafeKey, sealed: &[u8], context: &str) -> Option<WebhookSecret> {
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
    let mut text = sealed.to_vec();
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let opened = key.open_in_place(nonce, Aad::from(context), &mut text).ok()?;
    Some(WebhookSecret::from(<[u8; WebhookSecret::BYTES]>::try_from(&*opened).ok()?))
}

impl SecretBox for SealedSecrets {
    fn seal(&self, secret: &WebhookSecret, context: &str) -> Vec<u8> {
        let mut nonce = [0; NONCE_LEN];
        self.entropy.fill(&mut nonce);
        let mut text = *secret.expose();
        let sealed = self.first.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(context),
            &mut text,
        );
        let Ok(tag) = sealed else { unreachable!("only gigabytes are too long to be encrypted") };
        [&nonce[..], &text, tag.as_ref()].concat()
    }

    fn open(&self, sealed: &[u8], context: &str) -> Result<WebhookSecret, Unreadable> {
        self.find(sealed, context).map(|(_, secret)| secret)
    }

    fn key_of(&self, sealed: &[u8], context: &str) -> Result<usize, Unreadable> {
        self.find(sealed, context).map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use contract_tests::{fakes::CountingEntropy, secret_box::SecretBoxFixture};

    use super::*;

    struct Fixture;

    impl SecretBoxFixture for Fixture {
        fn with_keys(&self, keys: &[u8]) -> Box<dyn SecretBox> {
            let keys: Vec<_> = keys.iter().map(|&key| SecretsKey([key; KEY_BYTES])).collect();
            Box::new(SealedSecrets::new(&keys, Arc::new(CountingEntropy::default())).unwrap())
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
    fn keys_are_separated_by_commas_or_lines() {
        let keys = [1, 2, 3].map(|key| SecretsKey([key; KEY_BYTES]));
        let [one, two, three] = keys.clone().map(|key| key.to_text());
        assert_eq!(SecretsKey::list(&format!("{one}, {two}\n{three}\n")).unwrap(), keys);
        for text in ["", " \n", ",", &format!("{one},half"), &format!("{one}{two}")] {
            SecretsKey::list(text).unwrap_err();
        }
        assert!(SealedSecrets::new(&[], Arc::new(CountingEntropy::default())).is_none());
    }

    #[test]
    fn debug_hides_the_key() {
        assert_eq!(format!("{:?}", SecretsKey([7; KEY_BYTES])), "SecretsKey(…)");
    }
}
