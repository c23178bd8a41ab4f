//! Use case: record what a command of an operator does with orders.

use std::sync::Arc;

use super::{
    AccessActor, AccessFacts, AccessKind, RunId,
    recorder::{AccessRecorder, BegunAccess},
};
use crate::{
    order::OrderId,
    ports::{AccessLog, Clock, StoreError},
};

/// Maximum number of accesses that one call stores.
const BATCH: usize = 500;

/// Records the accesses of one command, which is a run of its own.
pub struct RecordCommand {
    log: Arc<dyn AccessLog>,
    recorder: Arc<AccessRecorder>,
    actor: AccessActor,
}

impl RecordCommand {
    /// Returns the recorder of a command that an operator begins.
    pub fn new(
        log: Arc<dyn AccessLog>,
        run: RunId,
        clock: Arc<dyn Clock>,
        actor: AccessActor,
    ) -> Self {
        Self { log, recorder: Arc::new(AccessRecorder::new(run, clock)), actor }
    }

    /// Begins an access. A list has the number of its orders instead of an order.
    pub fn begin(
        &self,
        kind: AccessKind,
        order: Option<OrderId>,
        orders: Option<u32>,
    ) -> BegunAccess {
        let facts = AccessFacts {
            kind,
            order,
            orders,
            position: None,
            actor: self.actor.clone(),
            address: None,
            request_id: None,
        };
        BegunAccess::new(Arc::clone(&self.recorder), facts)
    }

    /// Ends an access and stores it, so that nothing is shown that has no row.
    pub async fn keep(&self, access: BegunAccess, outcome: &str) -> Result<(), StoreError> {
        access.end(outcome.to_owned());
        loop {
            let (accesses, has_more) = self.recorder.take(BATCH);
            self.log.store(&accesses).await?;
            if !has_more {
                return Ok(());
            }
        }
    }

    /// Stores that the command has ended, unless it had no access.
    pub async fn end(&self) -> Result<(), StoreError> {
        match self.recorder.last_number() {
            0 => Ok(()),
            last => self.log.end(self.recorder.run(), last).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use time::{OffsetDateTime, macros::datetime};

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
        log.expect_end().once().withf(|run, last| (*run, *last) == (RUN, 2)).returning(|..| Ok(()));
        let recording = recording(log);
        for outcome in [DONE, "not_found"] {
            let access = recording.begin(AccessKind::Read, Some(OrderId(3)), None);
            recording.keep(access, outcome).await.unwrap();
        }
        recording.end().await.unwrap();
    }

    #[tokio::test]
    async fn access_without_a_row_is_an_error() {
        let mut log = MockAccessLog::new();
        log.expect_store().once().returning(|_| Err(down()));
        let recording = recording(log);
        let access = recording.begin(AccessKind::List, None, Some(2));
        recording.keep(access, DONE).await.unwrap_err();
    }

    #[tokio::test]
    async fn command_without_access_leaves_no_run() {
        recording(MockAccessLog::new()).end().await.unwrap();
    }
}
