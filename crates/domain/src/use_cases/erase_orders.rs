//! Use case: erase orders for an operator, with their documents.

use std::{
    ops::AddAssign,
    sync::{Arc, mpsc},
};

use time::OffsetDateTime;

use crate::{
    access::{AccessKind, DONE},
    document::ObjectKey,
    order::{Due, OrderId, Retained},
    ports::{
        AccessOf, BlobStore, Clock, ErasureOutcome, FoundDue, OrderAdmin, StoreError, UploadLedger,
    },
    use_cases::{
        accesses::recorder::{ActorAccesses, BegunAccess},
        intake::remove_condemned,
    },
};

/// Maximum number of orders in a batch.
const BATCH: usize = 1_000;

/// Maximum number of orders that a transaction of the retention erases.
pub(crate) const DUE_BATCH: usize = 20;

/// Time within which every instance ends the requests that receive or send documents of an erased order.
pub const NOTICED: std::time::Duration = std::time::Duration::from_secs(2);

/// The number of erased orders and documents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Erasure {
    /// Orders.
    pub orders: usize,
    /// Documents of these orders.
    pub documents: usize,
    /// The objects of documents that could not be deleted yet. The sweeper deletes them.
    pub left: Vec<ObjectKey>,
    /// Orders that are on hold, and stay.
    pub held: usize,
}

impl AddAssign for Erasure {
    fn add_assign(&mut self, other: Self) {
        self.orders += other.orders;
        self.documents += other.documents;
        self.left.extend(other.left);
        self.held += other.held;
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
    /// Erases an order, unless it is on hold. Erases nothing if there is no such order or it was erased
    /// before.
    ///
    /// The order is erased when the call returns. An object that cannot be deleted now is left to
    /// the sweeper of a running service.
    pub async fn erase(&self, id: OrderId) -> Result<Erasure, StoreError> {
        let access = self.accesses.as_ref().map(|it| it.begin(AccessKind::Erase, id));
        let row = access.as_ref().map(BegunAccess::done);
        let erased = self.admin.erase(id, self.clock.now(), row).await;
        if let Some(access) = access {
            access.end(outcome(&erased).to_owned());
        }
        match erased? {
            ErasureOutcome::Erased(condemned) => Ok(self.delete(1, condemned).await),
            ErasureOutcome::NotFound => Ok(Erasure::default()),
            ErasureOutcome::Held => Ok(Erasure { held: 1, ..Erasure::default() }),
        }
    }

    /// Deletes the objects of erased orders.
    async fn delete(&self, orders: usize, condemned: Vec<ObjectKey>) -> Erasure {
        let documents = condemned.len();
        // After an error, the sweeper tries again.
        let (left, _) = remove_condemned(&*self.blobs, &*self.uploads, condemned).await;
        Erasure { orders, documents, left, held: 0 }
    }

    /// Erases up to 1,000 orders after an identifier that were created before `instant`, the oldest first.
    /// Returns what it erased, and the last identifier; `None` if there are no more.
    pub async fn erase_batch(
        &self,
        instant: OffsetDateTime,
        after: OrderId,
    ) -> Result<Option<(Erasure, OrderId)>, StoreError> {
        let ids = self.admin.created_before(instant, after, BATCH).await?;
        let Some(&last) = ids.last() else { return Ok(None) };
        let mut erased = Erasure::default();
        for id in ids {
            erased += self.erase(id).await?;
        }
        Ok(Some((erased, last)))
    }

    /// Looks at the next orders after an identifier, and erases up to [`DUE_BATCH`] that are due, or their
    /// documents. Returns also after which order the next look begins, if there are later ones; `None` if
    /// another instance does this at the same time.
    pub(crate) async fn erase_due(
        &self,
        due: Due,
        after: OrderId,
    ) -> Result<Option<(Erasure, Option<OrderId>)>, StoreError> {
        let FoundDue { orders: found, looked_at } = self.admin.due(due, after, DUE_BATCH).await?;
        let Some(&last) = found.last() else { return Ok(Some((Erasure::default(), looked_at))) };
        let next = if found.len() == DUE_BATCH { Some(last) } else { looked_at };
        let kind = match due.what {
            Retained::Orders => AccessKind::Erase,
            Retained::Documents => AccessKind::EraseDocuments,
        };
        let (begins, begun) = mpsc::channel();
        let accesses = self.accesses.clone();
        let access_of: AccessOf = Arc::new(move |id| {
            let access = accesses.as_ref()?.begin(kind, id);
            let row = access.done();
            // The receiver outlives the call.
            let _ = begins.send(access);
            Some(row)
        });
        let erased = self.admin.erase_due(due, found, access_of).await;
        // An instance that erases nothing has begun none.
        for access in begun.try_iter() {
            access.end(erased.as_ref().map_or_else(failure, |_| DONE).to_owned());
        }
        let Some(erased) = erased? else { return Ok(None) };
        // Behind long histories, the store has left out the rest.
        let next = erased.orders.last().filter(|&&erased| erased < last).copied().or(next);
        let erasure = self.delete(erased.orders.len(), erased.condemned).await;
        Ok(Some((erasure, next)))
    }
}

/// Returns the outcome of the access that erases an order.
fn outcome(erased: &Result<ErasureOutcome, StoreError>) -> &'static str {
    match erased {
        Ok(ErasureOutcome::Erased(_)) => DONE,
        Ok(ErasureOutcome::NotFound) => "not_found",
        Ok(ErasureOutcome::Held) => "order_on_hold",
        Err(error) => failure(error),
    }
}

fn failure(error: &StoreError) -> &'static str {
    match error {
        StoreError::Unavailable(_) => "unavailable",
        StoreError::Internal(_) => "internal",
    }
}

#[cfg(test)]
#[path = "erase_orders_tests.rs"]
mod tests;
