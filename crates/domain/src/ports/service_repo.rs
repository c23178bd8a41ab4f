use async_trait::async_trait;

use crate::ports::StoreError;
use crate::{order::SigningServiceId, signing_service::SigningService};

/// The answer to whether a signing service has a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It has a record.
    Recorded,
    /// It has none, but others have.
    Unknown,
    /// There is no record at all.
    NoRecords,
}

/// Stores the records of signing services.
///
/// An implementation guarantees that every change is durable when the call returns.
///
/// # Errors
/// Every method fails with [`StoreError`] only.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait ServiceRepo: Send + Sync {
    /// Stores a new record. Returns `false` if its number has one.
    async fn add(&self, service: &SigningService) -> Result<bool, StoreError>;

    /// Replaces the record of a number. Returns `false` if there is none.
    async fn change(&self, service: &SigningService) -> Result<bool, StoreError>;

    /// Removes a record. Orders and keys of the number stay. Returns `false` if there is none.
    async fn remove(&self, id: SigningServiceId) -> Result<bool, StoreError>;

    /// Returns those of the services that have a record, in no particular order.
    async fn find(&self, ids: &[SigningServiceId]) -> Result<Vec<SigningService>, StoreError>;

    /// Returns what the records tell about a number.
    async fn standing(&self, id: SigningServiceId) -> Result<Standing, StoreError>;

    /// Returns every record, by number.
    async fn all(&self) -> Result<Vec<SigningService>, StoreError>;
}
