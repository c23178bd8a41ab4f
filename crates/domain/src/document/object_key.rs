//! Keys of objects in the blob store.

use std::sync::{Mutex, PoisonError};

use crate::{hex, ports::Entropy};

/// The key of an object in the blob store. It is random, so no text of a client becomes a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey(String);

impl ObjectKey {
    /// Returns a new key of 128 random bits.
    pub fn random(entropy: &dyn Entropy) -> Self {
        let mut bytes = [0; 16];
        entropy.fill(&mut bytes);
        let name = hex::encode(&bytes);
        // A folder per first two digits keeps folders on local disk small.
        Self(format!("{}/{name}", &name[..2]))
    }

    /// Returns a new key in the folder of another: 120 random bits.
    fn random_beside(other: &Self, entropy: &dyn Entropy) -> Self {
        let Self(key) = Self::random(entropy);
        // Both have the folder, the slash, and a name that starts like the folder.
        Self(format!("{}{}", &other.0[..5], &key[5..]))
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

/// Makes object keys. Those made after each other are in one folder, so that on local disk
/// documents that arrive together share the sync of their folder. It changes, so that folders grow
/// evenly.
#[derive(Debug, Default)]
pub struct ObjectKeys(Mutex<Option<Row>>);

/// Keys in one folder.
#[derive(Debug)]
struct Row {
    first: ObjectKey,
    left: usize,
}

impl ObjectKeys {
    /// Keys in a row.
    const IN_A_ROW: usize = 256;

    /// Returns a new key.
    pub fn next(&self, entropy: &dyn Entropy) -> ObjectKey {
        let mut row = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *row {
            Some(Row { first, left }) if *left > 0 => {
                *left -= 1;
                ObjectKey::random_beside(first, entropy)
            }
            _ => {
                let first = ObjectKey::random(entropy);
                *row = Some(Row { first: first.clone(), left: Self::IN_A_ROW - 1 });
                first
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashSet,
        sync::atomic::{AtomicU64, Ordering},
    };

    use super::*;
    use crate::test_support::CountingEntropy;

    #[test]
    fn object_key_is_random() {
        let key = ObjectKey::random(&CountingEntropy::default());
        assert_eq!(key.as_str(), "00/000102030405060708090a0b0c0d0e0f");
        assert_eq!(ObjectKey::from_stored(key.as_str().to_owned()), key);
    }

    /// Gives different bytes each time.
    struct Sequence(AtomicU64);

    impl Entropy for Sequence {
        fn fill(&self, bytes: &mut [u8]) {
            let number = self.0.fetch_add(1, Ordering::Relaxed);
            bytes.fill(u8::try_from(number % 251).unwrap());
            bytes[8..].copy_from_slice(&number.to_be_bytes());
        }
    }

    #[test]
    fn keys_in_a_row_differ_and_share_a_folder_that_changes() {
        let (keys, entropy) = (ObjectKeys::default(), Sequence(AtomicU64::new(1)));
        let made: Vec<ObjectKey> =
            (0..=ObjectKeys::IN_A_ROW).map(|_| keys.next(&entropy)).collect();
        let folders: Vec<&str> = made
            .iter()
            .map(|key| {
                let (folder, name) = key.as_str().split_once('/').unwrap();
                assert!(name.starts_with(folder) && name.len() == 32, "{key:?}");
                folder
            })
            .collect();
        let (row, next) = folders.split_at(ObjectKeys::IN_A_ROW);
        assert!(row.iter().all(|folder| *folder == row[0]));
        assert_ne!(next[0], row[0]);
        assert_eq!(made.iter().collect::<HashSet<_>>().len(), made.len());
    }
}
