/// Provides randomness that is fit for secrets.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
pub trait Entropy: Send + Sync {
    /// Fills the buffer with random bytes.
    fn fill(&self, bytes: &mut [u8]);
}
