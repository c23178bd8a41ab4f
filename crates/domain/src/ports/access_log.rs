use std::net::IpAddr;

use async_trait::async_trait;
use time::{Duration, OffsetDateTime};

use crate::{
    access::{Access, AccessId, PublicAccessId, RunId},
    api_key::Owner,
    order::OrderId,
    person::Doer,
    ports::{MaybeErased, StoreError},
};

/// The accesses that an operator asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessFilter {
    /// Only accesses of this order.
    pub order: Option<OrderId>,
    /// Only accesses since this instant.
    pub since: Option<OffsetDateTime>,
    /// Only accesses by this key or person.
    pub by: Option<Doer>,
    /// Only accesses of this address.
    pub address: Option<IpAddr>,
}

/// Numbers of a run that no row has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingAccesses {
    /// The run.
    pub run: RunId,
    /// The first and the last missing number.
    pub numbers: (u64, u64),
    /// The instants of the rows before and after; `None` if there is none.
    pub between: (Option<OffsetDateTime>, Option<OffsetDateTime>),
    /// The instant of the last row of the run; `None` if it has none.
    pub last_at: Option<OffsetDateTime>,
    /// Whether the run has ended in an orderly way. If it has not, the last rows may be lost by a crash.
    pub has_ended: bool,
}

/// A key or a person that has read more orders than the operator expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusyReader {
    /// The key or the person.
    pub doer: Doer,
    /// How many different orders.
    pub orders: u64,
}

/// Maximum time without a sign of life of a run. One that is silent for longer was killed.
pub const MAX_SILENCE: Duration = Duration::DAY;

/// Stores who has read or changed what. Rows are never changed.
///
/// # Errors
/// Every method fails with [`StoreError`] only.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait AccessLog: Send + Sync {
    /// Stores accesses of one run in one atomic, durable step. Leaves out those that the transaction of a
    /// change has stored under their numbers. [`Self::of_order`] never reads a refusal of a key whose party is
    /// no side of its order: however many there are, they take it no time.
    async fn store(&self, accesses: &[Access]) -> Result<(), StoreError>;

    /// Stores that a run has ended at this instant, with this number.
    async fn end(&self, run: RunId, last_number: u64, at: OffsetDateTime)
    -> Result<(), StoreError>;

    /// Stores that a run was alive at this instant, if it has an access that is stored.
    async fn note_alive(&self, run: RunId, at: OffsetDateTime) -> Result<(), StoreError>;

    /// Returns up to `limit` accesses before `before`, newest first. Accesses of a kind that this version does
    /// not know are left out, here and in [`Self::of_order`].
    async fn list(
        &self,
        filter: &AccessFilter,
        before: Option<AccessId>,
        limit: usize,
    ) -> Result<Vec<Access>, StoreError>;

    /// Returns up to `limit` accesses of an order before `before`, newest first: those of its client, of its
    /// signing service and of operators, not those of strangers. `None` if the owner has no such order. The
    /// inner `None` if `before` is not one of these accesses: one of another order, or a removed one.
    async fn of_order(
        &self,
        owner: Owner,
        order: OrderId,
        before: Option<PublicAccessId>,
        limit: usize,
    ) -> Result<Option<MaybeErased<Option<Vec<Access>>>>, StoreError>;

    /// Removes up to `limit` accesses before `instant`, the oldest first, in one atomic step, so that their
    /// numbers are not missing. Returns how many. When no older one is left, forgets the runs that ended
    /// before `instant`, and those whose last sign of life is [`MAX_SILENCE`] older.
    async fn remove_before(
        &self,
        instant: OffsetDateTime,
        limit: usize,
    ) -> Result<usize, StoreError>;

    /// Returns the numbers that are missing, up to `limit` gaps. Those of runs that have ended come first, and
    /// then the oldest: a running instance may have gaps for a while. Reads all rows.
    async fn missing(&self, limit: usize) -> Result<Vec<MissingAccesses>, StoreError>;

    /// Returns the keys, then the people, that read over `orders` different orders between two instants. Read means
    /// an access of [`AccessKind::SHOWING`](crate::access::AccessKind::SHOWING) with the outcome
    /// [`DONE`](crate::access::DONE) or [`NOT_MODIFIED`](crate::access::NOT_MODIFIED).
    async fn busy_readers(
        &self,
        between: (OffsetDateTime, OffsetDateTime),
        orders: u64,
    ) -> Result<Vec<BusyReader>, StoreError>;
}
