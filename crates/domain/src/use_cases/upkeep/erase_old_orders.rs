//! Use case: erase orders, or their documents alone, that the operator keeps no longer.

use std::sync::Arc;

use time::{Duration, OffsetDateTime};

use crate::{
    order::{Due, OrderId, Retained},
    ports::{Clock, OrderAdmin, StoreError},
    use_cases::{
        background::{Step, Worker},
        erase_orders::{EraseOrders, Erasure},
    },
};

/// Pause between two looks, and after a failure.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(60);

/// The same in the first round after a start.
const LOOK_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

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
        let count = async |what| {
            let mut counting = Counting::default();
            while counting.look(admin, self.due(what, now)).await? {}
            Ok::<_, StoreError>(counting.counted)
        };
        Ok(Waiting {
            orders: count(Retained::Orders).await?,
            documents: count(Retained::Documents).await?,
            held: admin.held(now).await?,
        })
    }
}

/// Where a round through all orders is. Due orders wait for days already, so a later round may take its
/// time: a look costs as much with any number of orders.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// The last order of the look before.
    last: Option<OrderId>,
    /// Whether a round has ended since the start.
    pub(super) is_later: bool,
}

impl Round {
    /// Returns after which order the next look begins.
    pub(super) fn after(&self) -> OrderId {
        self.last.unwrap_or(OrderId(0))
    }

    /// Goes on after an order; without one, the round ends. Returns the pause before the next look.
    pub(super) fn go_on(&mut self, last: Option<OrderId>) -> std::time::Duration {
        self.last = last;
        self.is_later |= last.is_none();
        if self.is_later { PAUSE } else { LOOK_PAUSE }
    }
}

/// Counts what is due of one kind.
#[derive(Debug, Default)]
struct Counting {
    round: Round,
    /// The number in this round.
    found: usize,
    /// The number in the round before; in the first one, what it has found.
    counted: usize,
}

impl Counting {
    /// Looks at the next orders. Returns whether the first round goes on.
    async fn look(&mut self, admin: &dyn OrderAdmin, due: Option<Due>) -> Result<bool, StoreError> {
        let Some(due) = due else { return Ok(false) };
        let found = admin.due(due, self.round.after(), COUNTED - self.found).await?;
        self.found += found.orders.len();
        // More are not counted.
        let next = found.looked_at.filter(|_| self.found < COUNTED);
        self.round.go_on(next);
        if next.is_none() || !self.round.is_later {
            self.counted = self.found;
        }
        if next.is_none() {
            self.found = 0;
        }
        Ok(!self.round.is_later)
    }
}

/// Counts what waits for an erasure, for metrics.
pub struct CountWaiting {
    retention: Retention,
    admin: Arc<dyn OrderAdmin>,
    clock: Arc<dyn Clock>,
    orders: Counting,
    documents: Counting,
}

impl CountWaiting {
    /// Returns a worker that has counted nothing.
    pub fn new(retention: Retention, admin: Arc<dyn OrderAdmin>, clock: Arc<dyn Clock>) -> Self {
        let (orders, documents) = Default::default();
        Self { retention, admin, clock, orders, documents }
    }

    async fn count(&mut self) -> Result<(Waiting, std::time::Duration), StoreError> {
        let (admin, now) = (&*self.admin, self.clock.now());
        let mut goes_on = false;
        for (what, counting) in
            [(Retained::Orders, &mut self.orders), (Retained::Documents, &mut self.documents)]
        {
            goes_on |= counting.look(admin, self.retention.due(what, now)).await?;
        }
        let (orders, documents) = (self.orders.counted, self.documents.counted);
        let waiting = Waiting { orders, documents, held: admin.held(now).await? };
        Ok((waiting, if goes_on { LOOK_PAUSE } else { PAUSE }))
    }
}

impl Worker for CountWaiting {
    type Done = Waiting;

    /// Counts what is due of the next orders.
    async fn step(&mut self) -> Step<Waiting> {
        match self.count().await {
            Ok((waiting, pause)) => Step { result: Ok(waiting), pause },
            Err(error) => Step { result: Err(error), pause: PAUSE },
        }
    }
}

/// Pause after a start: an operator who has set a wrong retention has time to stop the service.
pub const START_PAUSE: std::time::Duration = std::time::Duration::from_secs(30);

/// Erases what is due. Any number of processes may do so at the same time: one erases at a time. So one worker
/// erases orders and documents in turn: two would shut out each other.
pub struct EraseOldOrders {
    retention: Retention,
    kinds: Vec<Kind>,
}

/// The erasure of one kind.
struct Kind {
    what: Retained,
    erase: EraseOrders,
    round: Round,
    /// The pause before its next batch.
    pause: std::time::Duration,
}

impl Kind {
    /// Erases a batch. Returns what it erased.
    async fn batch(&mut self, retention: Retention) -> Result<Erasure, StoreError> {
        self.pause = PAUSE;
        let now = self.erase.clock.now_to_erase();
        let Some(due) = now.and_then(|now| retention.due(self.what, now)) else {
            return Ok(Erasure::default());
        };
        let Some((erasure, next)) = self.erase.erase_due(due, self.round.after()).await? else {
            // Another instance erases them. If it stops, this one looks at the same orders again.
            return Ok(Erasure::default());
        };
        let pause = self.round.go_on(next);
        // Where some were due, there may be more.
        let has_more = erasure.orders > 0 && next.is_some();
        self.pause = if has_more { std::time::Duration::ZERO } else { pause };
        Ok(erasure)
    }
}

impl EraseOldOrders {
    /// Returns a worker at the beginning of its first rounds, which begin after a pause.
    pub fn new(
        retention: Retention,
        kinds: impl IntoIterator<Item = (Retained, EraseOrders)>,
        pause: std::time::Duration,
    ) -> Self {
        let kind = |(what, erase)| Kind { what, erase, round: Round::default(), pause };
        Self { retention, kinds: kinds.into_iter().map(kind).collect() }
    }

    /// Returns the pause before the next batch of any kind, and takes it off the pauses of all.
    fn wait(&mut self) -> std::time::Duration {
        let next = self.kinds.iter().map(|kind| kind.pause).min().unwrap_or(PAUSE);
        for kind in &mut self.kinds {
            kind.pause -= next;
        }
        next
    }
}

impl Worker for EraseOldOrders {
    type Done = Option<(Retained, Erasure)>;

    /// Erases a batch of a kind that is due. Returns what it erased; `None` if no kind is due.
    async fn step(&mut self) -> Step<Self::Done> {
        let retention = self.retention;
        let due = self.kinds.iter().position(|kind| kind.pause.is_zero());
        let result = match due {
            Some(at) => {
                let mut kind = self.kinds.remove(at);
                let erased = kind.batch(retention).await;
                let erased = erased.map(|erasure| Some((kind.what, erasure)));
                // The other kind comes next, however much is due of this one.
                self.kinds.push(kind);
                erased
            }
            None => Ok(None),
        };
        Step { result, pause: self.wait() }
    }
}

#[cfg(test)]
mod tests {
    use mockall::{Sequence, predicate::eq};
    use time::macros::{date, datetime};

    use super::*;
    use crate::{
        document::ObjectKey,
        ports::{ErasedDue, FoundDue, MockBlobStore, MockOrderAdmin, MockUploadLedger},
        test_support::{clock, doubtful_clock, down},
        use_cases::erase_orders::DUE_BATCH,
    };

    const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);
    const RETENTION: Retention =
        Retention { orders: Some(Duration::days(30)), documents: Some(Duration::days(10)) };

    fn erase(admin: MockOrderAdmin) -> EraseOrders {
        let (mut blobs, mut uploads) = (MockBlobStore::new(), MockUploadLedger::new());
        blobs.expect_delete().returning(|_| Ok(()));
        uploads.expect_forget().returning(|_| Ok(()));
        EraseOrders {
            admin: Arc::new(admin),
            uploads: Arc::new(uploads),
            blobs: Arc::new(blobs),
            clock: clock(NOW),
            accesses: None,
        }
    }

    fn erasing(admin: MockOrderAdmin) -> EraseOldOrders {
        let kinds = [(Retained::Orders, erase(admin))];
        EraseOldOrders::new(RETENTION, kinds, std::time::Duration::ZERO)
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

    fn found(count: usize, looked_at: Option<i64>) -> FoundDue {
        FoundDue { orders: ids(count), looked_at: looked_at.map(OrderId) }
    }

    #[tokio::test]
    async fn looks_go_on_to_the_end_of_the_orders_and_begin_again() {
        const BATCH: i64 = 20;
        let (mut admin, mut sequence) = (MockOrderAdmin::new(), Sequence::new());
        let mut pauses = Vec::new();
        for (after, due, looked_at, erased, pause) in [
            // Behind a full batch, a look may have more.
            (0, DUE_BATCH, Some(50), Some(DUE_BATCH), std::time::Duration::ZERO),
            // Another instance erases.
            (BATCH, DUE_BATCH, Some(70), None, PAUSE),
            // Others have put them on hold.
            (BATCH, 2, Some(70), Some(0), LOOK_PAUSE),
            (70, 0, Some(120), None, LOOK_PAUSE),
            // The first round ends.
            (120, 3, None, Some(3), PAUSE),
            (0, 0, Some(50), None, PAUSE),
            (50, 1, Some(100), Some(1), std::time::Duration::ZERO),
        ] {
            let at = RETENTION.due(Retained::Orders, NOW).unwrap();
            admin
                .expect_due()
                .with(eq(at), eq(OrderId(after)), eq(DUE_BATCH))
                .once()
                .in_sequence(&mut sequence)
                .returning(move |_, _, _| Ok(found(due, looked_at)));
            if due > 0 {
                admin.expect_erase_due().once().in_sequence(&mut sequence).returning(
                    move |_, _, _| {
                        let condemned = vec![ObjectKey::from_stored("a".to_owned())];
                        Ok(erased.map(|count| ErasedDue { orders: ids(count), condemned }))
                    },
                );
            }
            pauses.push((erased.unwrap_or_default(), pause));
        }
        let mut worker = erasing(admin);
        for expected in pauses {
            let step = worker.step().await;
            let (what, erased) = step.result.unwrap().unwrap();
            assert_eq!(
                (what, erased.orders, step.pause),
                (Retained::Orders, expected.0, expected.1)
            );
        }
    }

    #[tokio::test]
    async fn nothing_is_erased_while_the_clock_may_be_wrong() {
        let erase = EraseOrders { clock: doubtful_clock(NOW), ..erase(MockOrderAdmin::new()) };
        let kinds = [(Retained::Orders, erase)];
        let mut worker = EraseOldOrders::new(RETENTION, kinds, std::time::Duration::ZERO);
        let step = worker.step().await;
        assert_eq!(step.result.unwrap(), Some((Retained::Orders, Erasure::default())));
        assert_eq!(step.pause, PAUSE);
    }

    #[tokio::test]
    async fn first_step_after_a_start_erases_nothing() {
        let kinds = [(Retained::Orders, erase(MockOrderAdmin::new()))];
        let mut worker = EraseOldOrders::new(RETENTION, kinds, START_PAUSE);
        let step = worker.step().await;
        assert_eq!((step.result.unwrap(), step.pause), (None, START_PAUSE));
    }

    /// One has much to do; the other is due, too.
    #[tokio::test]
    async fn each_kind_is_erased_when_it_is_due() {
        let admin = |what: Retained, looks: usize, more: Option<i64>| {
            let mut admin = MockOrderAdmin::new();
            admin
                .expect_due()
                .withf(move |due, _, _| due.what == what)
                .times(looks)
                .returning(move |_, _, _| Ok(found(1, more)));
            admin
                .expect_erase_due()
                .times(looks)
                .returning(|_, _, _| Ok(Some(ErasedDue { orders: ids(1), condemned: Vec::new() })));
            admin
        };
        let kinds = [
            (Retained::Documents, erase(admin(Retained::Documents, 3, Some(50)))),
            (Retained::Orders, erase(admin(Retained::Orders, 1, None))),
        ];
        let mut worker = EraseOldOrders::new(RETENTION, kinds, START_PAUSE);
        let mut steps = Vec::new();
        for _ in 0..5 {
            let step = worker.step().await;
            steps.push((step.result.unwrap().map(|(what, _)| what), step.pause));
        }
        let now = std::time::Duration::ZERO;
        let (documents, orders) = (Some(Retained::Documents), Some(Retained::Orders));
        let expected = [
            (None, START_PAUSE),
            (documents, now),
            (orders, now),
            (documents, now),
            (documents, now),
        ];
        assert_eq!(steps, expected);
    }

    #[tokio::test]
    async fn failure_is_followed_by_a_pause() {
        let mut admin = MockOrderAdmin::new();
        admin.expect_due().once().returning(|_, _, _| Err(down()));
        let step = erasing(admin).step().await;
        assert!(step.result.is_err());
        assert_eq!(step.pause, PAUSE);
    }

    #[tokio::test]
    async fn due_orders_are_counted_up_to_the_last_whole_round() {
        let retention = Retention { documents: None, ..RETENTION };
        let (mut admin, mut sequence) = (MockOrderAdmin::new(), Sequence::new());
        let mut counts = Vec::new();
        for (after, limit, due, looked_at, count, pause) in [
            (0, COUNTED, 3, Some(50), 3, LOOK_PAUSE),
            (50, COUNTED - 3, 2, None, 5, PAUSE),
            (0, COUNTED, 1, Some(50), 5, PAUSE),
            (50, COUNTED - 1, 0, None, 1, PAUSE),
            // More are not counted.
            (0, COUNTED, COUNTED, Some(50), COUNTED, PAUSE),
            (0, COUNTED, 0, None, 0, PAUSE),
        ] {
            admin
                .expect_due()
                .withf(move |_, from, most| (from.0, *most) == (after, limit))
                .once()
                .in_sequence(&mut sequence)
                .returning(move |_, _, _| Ok(found(due, looked_at)));
            counts.push((count, pause));
        }
        admin.expect_held().returning(|_| Ok(7));
        let mut worker = CountWaiting::new(retention, Arc::new(admin), clock(NOW));
        for (orders, pause) in counts {
            let step = worker.step().await;
            let expected = Waiting { orders, documents: 0, held: 7 };
            assert_eq!((step.result.unwrap(), step.pause), (expected, pause));
        }
    }
}
