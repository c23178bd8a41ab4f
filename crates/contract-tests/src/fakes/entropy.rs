use std::sync::atomic::{AtomicU64, Ordering};

use domain::ports::Entropy;
use sha2::{Digest as _, Sha256};

/// Entropy that looks random, never repeats, and is the same in every run.
#[derive(Debug, Default)]
pub struct CountingEntropy(AtomicU64);

impl Entropy for CountingEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(32) {
            let block = Sha256::digest(self.0.fetch_add(1, Ordering::Relaxed).to_le_bytes());
            chunk.copy_from_slice(&block[..chunk.len()]);
        }
    }
}
