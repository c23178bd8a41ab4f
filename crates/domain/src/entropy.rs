//! The port of randomness. Models take it, too, so it stands beside them; [`crate::ports`] exports it.

/// Provides randomness that is fit for secrets.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
pub trait Entropy: Send + Sync {
    /// Fills the buffer with random bytes.
    fn fill(&self, bytes: &mut [u8]);
}

impl dyn Entropy + '_ {
    /// Returns random bytes.
    pub(crate) fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// Returns a random number from 0 to 1.
    pub(crate) fn fraction(&self) -> f64 {
        f64::from(u32::from_le_bytes(self.bytes())) / f64::from(u32::MAX)
    }
}
