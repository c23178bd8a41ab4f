//! Use case: erase orders for an operator, with their documents.

use std::{ops::AddAssign, sync::Arc};

use time::OffsetDateTime;

use crate::{
    access::{
        AccessKind, DONE,
        recorder::{ActorAccesses, BegunAccess},
    },
    order::OrderId,
    ports::{BlobStore, Clock, OrderAdmin, StoreError, UploadLedger},
    use_cases::intake::remove_condemned,
};

/// Maximum number of orders in a batch. For each, the store reads the oldest orders of every client.
const BATCH: usize = 1_000;

/// Time within which every instance ends the requests that receive or send documents of an erased order.
pub const NOTICED: std::time::Duration = std::time::Duration::from_secs(2);

/// The number of erased orders and documents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Erasure {
    /// Orders.
    pub orders: usize,
    /// Documents of these orders.
    pub documents: usize,
    /// Documents whose objects could not be deleted yet. The sweeper deletes them.
    pub left: usize,
}

impl AddAssign for Erasure {
    fn add_assign(&mut self, other: Self) {
        self.orders += other.orders;
        self.documents += other.documents;
        self.left += other.left;
    }
}

/// Erases orders. Any number of processes may do so at the same time.
#[derive(Clone)]
pub struct EraseOrders {
    /// Erases orders.
    pub admin: Arc<dyn OrderAdmin>,
    /// Records the objects to delete.
    pub uploads: Arc<dyn UploadLedger>,
    /// Stores documents.
    pub blobs: Arc<dyn BlobStore>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Begins the accesses that erase them.
    pub accesses: Option<ActorAccesses>,
}

impl EraseOrders {
    /// Erases an order. Returns `None` if there is no such order or it was erased before.
    ///
    /// The order is erased when the call returns. An object that cannot be deleted now is left to
    /// the sweeper of a running service.
    pub async fn erase(&self, id: OrderId) -> Result<Option<Erasure>, StoreError> {
        let access = self.accesses.as_ref().map(|it| it.begin(AccessKind::Erase, id));
        let row = access.as_ref().map(BegunAccess::done);
        let erased = self.admin.erase(id, self.clock.now(), row).await;
        if let Some(access) = access {
            access.end(outcome(&erased).to_owned());
        }
        let Some(condemned) = erased? else { return Ok(None) };
        let documents = condemned.len();
        // After an error, the sweeper tries again.
        let (deleted, _) = remove_condemned(&*self.blobs, &*self.uploads, condemned).await;
        Ok(Some(Erasure { orders: 1, documents, left: documents - deleted }))
    }

    /// Erases up to 1,000 orders that were created before `instant`, the oldest first. Returns what
    /// it erased; no orders when there are no more.
    pub async fn erase_batch(&self, instant: OffsetDateTime) -> Result<Erasure, StoreError> {
        let mut erased = Erasure::default();
        loop {
            let ids = self.admin.created_before(instant, BATCH).await?;
            let is_last = ids.is_empty();
            for id in ids {
                erased += self.erase(id).await?.unwrap_or_default();
            }
            // Another process may have erased the whole batch meanwhile.
            if is_last || erased.orders > 0 {
                return Ok(erased);
            }
        }
    }
}

/// Returns the outcome of the access that erases an order.
fn outcome<T>(erased: &Result<Option<T>, StoreError>) -> &'static str {
    match erased {
        Ok(Some(_)) => DONE,
        Ok(None) => "not_found",
        Err(StoreError::Unavailable(_)) => "unavailable",
        Err(StoreError::Internal(_)) => "internal",
    }
}

#[cfg(test)]
#[path = "erase_orders_tests.rs"]
mod tests;
