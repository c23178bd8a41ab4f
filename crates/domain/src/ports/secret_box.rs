use crate::webhook::secret::WebhookSecret;

/// A sealed secret cannot be opened: it was sealed with a key that the box lacks or in another context, or
/// its bytes changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the secret was sealed with another key, or was changed")]
pub struct Unreadable;

/// Encrypts secrets, so that the database alone does not disclose them.
///
/// The context names what the secret belongs to. It is not stored with it.
///
/// A box has one or more keys. The first one encrypts.
///
/// An implementation guarantees:
/// - A sealed secret opens with the same context in every box that has its key.
/// - Without its key, in another context, or if one bit changed, it is [`Unreadable`].
/// - Sealing a secret twice gives different bytes, so they do not show that secrets are equal.
/// - The sealed bytes do not contain those of the secret.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
pub trait SecretBox: Send + Sync {
    /// Encrypts a secret.
    fn seal(&self, secret: &WebhookSecret, context: &str) -> Vec<u8>;

    /// Decrypts a secret.
    fn open(&self, sealed: &[u8], context: &str) -> Result<WebhookSecret, Unreadable>;

    /// Returns the place of the key that encrypted a secret among those of the box, from 0.
    fn key_of(&self, sealed: &[u8], context: &str) -> Result<usize, Unreadable>;
}
