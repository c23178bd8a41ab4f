//! Use case: erase orders, or their documents alone, that the operator keeps no longer.

use std::sync::Arc;

use time::{Duration, OffsetDateTime};

use crate::{
    order::{Due, Retained},
    ports::{Clock, OrderAdmin, StoreError},
    use_cases::{
        background::{Step, Worker},
        erase_orders::{EraseOrders, Erasure},
    },
};

/// Pause when nothing is due, and after a failure.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(60);

/// Number up to which orders that are due are counted.
pub const COUNTED: usize = 10_000;

/// How long the operator keeps orders after their appointment and their last change. `None` is for good.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// Orders.
    pub orders: Option<Duration>,
    /// Their documents alone.
    pub documents: Option<Duration>,
}

/// The numbers of orders that wait for an erasure, each up to [`COUNTED`], and of those on hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Orders that are due.
    pub orders: usize,
    /// Orders whose documents are due.
    pub documents: usize,
    /// Orders on hold, due or not.
    pub held: usize,
}

impl Retention {
    /// Returns what is due at `now`; `None` if it is kept for good.
    pub fn due(&self, what: Retained, now: OffsetDateTime) -> Option<Due> {
        let age = match what {
            Retained::Orders => self.orders?,
            Retained::Documents => self.documents?,
        };
        Some(Due { what, before: now.saturating_sub(age), now })
    }

    /// Counts what waits at `now`.
    pub async fn waiting(
        &self,
        admin: &dyn OrderAdmin,
        now: OffsetDateTime,
    ) -> Result<Waiting, StoreError> {
        let count = async |what| match self.due(what, now) {
            Some(due) => Ok(admin.due(due, COUNTED).await?.len()),
            None => Ok::<_, StoreError>(0),
        };
        Ok(Waiting {
            orders: count(Retained::Orders).await?,
            documents: count(Retained::Documents).await?,
            held: admin.held(now).await?,
        })
    }
}

/// Counts what waits for an erasure, for metrics.
pub struct CountWaiting {
    /// The retention.
    pub retention: Retention,
    /// Finds orders.
    pub admin: Arc<dyn OrderAdmin>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

impl Worker for CountWaiting {
    type Done = Waiting;

    /// Counts.
    async fn step(&mut self) -> Step<Waiting> {
        let result = self.retention.waiting(&*self.admin, self.clock.now()).await;
        Step { result, pause: PAUSE }
    }
}

/// Erases what is due. Any number of processes may do so at the same time: one erases at a time.
pub struct EraseOldOrders {
    /// What is erased.
    pub what: Retained,
    /// The retention.
    pub retention: Retention,
    /// Erases orders.
    pub erase: EraseOrders,
}

impl Worker for EraseOldOrders {
    type Done = Erasure;

    /// Erases a batch. Returns what it erased.
    async fn step(&mut self) -> Step<Erasure> {
        let Some(due) = self.retention.due(self.what, self.erase.clock.now()) else {
            return Step { result: Ok(Erasure::default()), pause: PAUSE };
        };
        match self.erase.erase_due(due).await {
            // Without progress, the same orders would be found again at once.
            Ok(Some((erasure, true))) if erasure.orders > 0 => {
                Step { result: Ok(erasure), pause: std::time::Duration::ZERO }
            }
            Ok(Some((erasure, _))) => Step { result: Ok(erasure), pause: PAUSE },
            Ok(None) => Step { result: Ok(Erasure::default()), pause: PAUSE },
            Err(error) => Step { result: Err(error), pause: PAUSE },
        }
    }
}

#[cfg(test)]
mod tests {
    use mockall::{Sequence, predicate::eq};
    use time::macros::{date, datetime};

    use super::*;
    use crate::{
        document::ObjectKey,
        order::OrderId,
        ports::{ErasedDue, MockBlobStore, MockOrderAdmin, MockUploadLedger},
        test_support::{clock, down},
        use_cases::erase_orders::DUE_BATCH,
    };

    const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);
    const RETENTION: Retention =
        Retention { orders: Some(Duration::days(30)), documents: Some(Duration::days(10)) };

    fn erasing(admin: MockOrderAdmin) -> EraseOldOrders {
        let (mut blobs, mut uploads) = (MockBlobStore::new(), MockUploadLedger::new());
        blobs.expect_delete().returning(|_| Ok(()));
        uploads.expect_forget().returning(|_| Ok(()));
        let erase = EraseOrders {
            admin: Arc::new(admin),
            uploads: Arc::new(uploads),
            blobs: Arc::new(blobs),
            clock: clock(NOW),
            accesses: None,
        };
        EraseOldOrders { what: Retained::Orders, retention: RETENTION, erase }
    }

    fn ids(count: usize) -> Vec<OrderId> {
        (1..).take(count).map(OrderId).collect()
    }

    #[test]
    fn orders_are_due_after_their_retention() {
        let due = RETENTION.due(Retained::Orders, NOW).unwrap();
        assert_eq!(due.before, NOW - Duration::days(30));
        assert_eq!(Retention::default().due(Retained::Orders, NOW), None);
        assert_eq!(due.last_date(), date!(2026 - 10 - 21));
    }

    #[tokio::test]
    async fn full_batch_is_followed_by_the_next_without_pause() {
        let mut admin = MockOrderAdmin::new();
        let mut sequence = Sequence::new();
        for (found, erased, pause) in [
            (DUE_BATCH, Some(DUE_BATCH), std::time::Duration::ZERO),
            // Others have erased them, or put them on hold.
            (DUE_BATCH, Some(0), PAUSE),
            // Another instance erases.
            (DUE_BATCH, None, PAUSE),
            (3, Some(3), PAUSE),
        ] {
            let due = RETENTION.due(Retained::Orders, NOW).unwrap();
            admin
                .expect_due()
                .with(eq(due), eq(DUE_BATCH))
                .once()
                .in_sequence(&mut sequence)
                .returning(move |_, _| Ok(ids(found)));
            admin.expect_erase_due().once().in_sequence(&mut sequence).returning(move |_, _, _| {
                let condemned = vec![ObjectKey::from_stored("a".to_owned())];
                Ok(erased.map(|count| ErasedDue { orders: ids(count), condemned }))
            });
            let step = erasing(std::mem::take(&mut admin)).step().await;
            let orders = step.result.unwrap().orders;
            assert_eq!((orders, step.pause), (erased.unwrap_or_default(), pause));
        }
    }

    #[tokio::test]
    async fn failure_is_followed_by_a_pause() {
        let mut admin = MockOrderAdmin::new();
        admin.expect_due().once().returning(|_, _| Err(down()));
        let step = erasing(admin).step().await;
        assert!(step.result.is_err());
        assert_eq!(step.pause, PAUSE);
    }
}
