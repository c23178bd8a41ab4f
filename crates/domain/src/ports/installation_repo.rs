use async_trait::async_trait;

use crate::{installation::Installation, ports::StoreError};

/// Stores the installation to which the database belongs.
///
/// # Errors
/// Every method fails with [`StoreError`] only.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait InstallationRepo: Send + Sync {
    /// Returns what identifies this database.
    ///
    /// An implementation guarantees:
    /// - It is the same in every process, after a restart, and on a standby that takes over.
    /// - It differs in a database that was restored or copied, also beside the original.
    async fn database_identity(&self) -> Result<String, StoreError>;

    /// Returns the recorded installation, if there is one.
    async fn recorded(&self) -> Result<Option<Installation>, StoreError>;

    /// Records an installation, unless one is recorded, and returns the recorded one. Of several processes
    /// at once, one records its own.
    async fn record_first(&self, installation: &Installation) -> Result<Installation, StoreError>;

    /// Replaces the recorded installation.
    async fn replace(&self, installation: &Installation) -> Result<(), StoreError>;
}
