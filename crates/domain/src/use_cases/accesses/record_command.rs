//! Use case: record what a command of an operator does with orders.

use std::sync::Arc;

use super::{
    keep_accesses::KeepAccesses,
    recorder::{AccessRecorder, ActorAccesses, BegunAccess},
};
use crate::{
    access::{AccessActor, AccessKind, RunId},
    order::OrderId,
    ports::{AccessLog, Clock, StoreError},
    use_cases::store_waiting::WaitingFacts as _,
};

/// Records the accesses of one command, which is a run of its own.
pub struct RecordCommand {
    kept: KeepAccesses,
    accesses: ActorAccesses,
}

impl RecordCommand {
    /// Returns the recorder of a command that an operator begins.
    pub fn new(
        log: Arc<dyn AccessLog>,
        run: RunId,
        clock: Arc<dyn Clock>,
        actor: AccessActor,
    ) -> Self {
        let recorder = Arc::new(AccessRecorder::new(run, clock));
        let kept = KeepAccesses { log, recorder: Arc::clone(&recorder) };
        Self { kept, accesses: ActorAccesses { recorder, actor } }
    }

    /// Returns what begins the accesses of the command.
    pub fn accesses(&self) -> &ActorAccesses {
        &self.accesses
    }

    /// Begins an access to an order.
    pub fn begin(&self, kind: AccessKind, order: OrderId) -> BegunAccess {
        self.accesses.begin(kind, order)
    }

    /// Begins an access to no single order, such as a list with so many orders.
    pub fn begin_list(&self, kind: AccessKind, orders: Option<usize>) -> BegunAccess {
        let access = self.accesses.begin_list(kind);
        if let Some(orders) = orders {
            access.lists(orders);
        }
        access
    }

    /// Begins an access to a person or a key; `None` if the command has made none.
    pub fn begin_of(&self, kind: AccessKind, subject: Option<i64>) -> BegunAccess {
        self.accesses.begin_of(kind, subject)
    }

    /// Ends an access and stores it, so that nothing is shown that has no row.
    pub async fn keep(&self, access: BegunAccess, outcome: &str) -> Result<(), StoreError> {
        access.end(outcome.to_owned());
        self.store().await
    }

    /// Stores the accesses that have ended.
    pub async fn store(&self) -> Result<(), StoreError> {
        while self.kept.store_batch().await? {}
        Ok(())
    }

    /// Stores that the command has ended, unless it had no access.
    pub async fn end(&self) -> Result<(), StoreError> {
        self.store().await?;
        self.kept.end().await
    }
}

#[cfg(test)]
mod tests {
    use time::{Duration, OffsetDateTime, macros::datetime};

    use super::*;
    use crate::{
        access::DONE,
        ports::MockAccessLog,
        test_support::{clock, down},
    };

    const NOW: OffsetDateTime = datetime!(2026-11-28 12:00 UTC);
    const RUN: RunId = RunId(7);

    fn recording(log: MockAccessLog) -> RecordCommand {
        let actor =
            AccessActor::Operator { command: "orders show".to_owned(), user: "jane".to_owned() };
        RecordCommand::new(Arc::new(log), RUN, clock(NOW), actor)
    }

    #[tokio::test]
    async fn each_access_is_stored_at_its_end_and_the_run_is_ended() {
        let mut log = MockAccessLog::new();
        let mut expected = [(1, DONE), (2, "not_found")].into_iter();
        log.expect_store().times(2).returning(move |stored| {
            let [access] = stored else { panic!("{stored:?}") };
            assert_eq!(Some((access.id.number, &*access.outcome)), expected.next());
            assert_eq!((access.id.run, access.facts.order), (RUN, Some(OrderId(3))));
            Ok(())
        });
        log.expect_end()
            .once()
            // The clock stands, and the instants of a run increase.
            .withf(|run, last, at| (*run, *last, *at) == (RUN, 2, NOW + Duration::MICROSECOND))
            .returning(|_, _, _| Ok(()));
        let recording = recording(log);
        for outcome in [DONE, "not_found"] {
            let access = recording.begin(AccessKind::Read, OrderId(3));
            recording.keep(access, outcome).await.unwrap();
        }
        recording.end().await.unwrap();
    }

    #[tokio::test]
    async fn access_without_a_row_is_an_error() {
        let mut log = MockAccessLog::new();
        log.expect_store().once().returning(|_| Err(down()));
        let recording = recording(log);
        let access = recording.begin_list(AccessKind::List, Some(2));
        recording.keep(access, DONE).await.unwrap_err();
    }

    #[tokio::test]
    async fn command_without_access_leaves_no_run() {
        recording(MockAccessLog::new()).end().await.unwrap();
    }
}
