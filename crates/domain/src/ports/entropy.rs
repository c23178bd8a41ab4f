/// A source of randomness fit for secrets.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
pub trait Entropy: Send + Sync {
    /// Fills the bytes with random ones.
    fn fill(&self, bytes: &mut [u8]);
}
