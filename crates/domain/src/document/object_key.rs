//! Keys of objects in the blob store.

use crate::entropy::Entropy;

/// The key of an object in the blob store. It is random, so no text of a client becomes a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey(String);

impl ObjectKey {
    /// Returns a new key of 128 random bits.
    pub fn random(entropy: &dyn Entropy) -> Self {
        let name = hex::encode(entropy.bytes::<16>());
        // A folder per first two digits keeps folders on local disk small.
        Self(format!("{}/{name}", &name[..2]))
    }

    /// Returns a key that was read from storage.
    pub fn from_stored(key: String) -> Self {
        Self(key)
    }

    /// Returns the key as text; `/` separates folders.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::CountingEntropy;

    #[test]
    fn object_key_is_random() {
        let key = ObjectKey::random(&CountingEntropy::default());
        assert_eq!(key.as_str(), "00/000102030405060708090a0b0c0d0e0f");
        assert_eq!(ObjectKey::from_stored(key.as_str().to_owned()), key);
    }
}
