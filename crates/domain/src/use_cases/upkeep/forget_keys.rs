//! Use case: forget idempotency keys that are free again.

use std::{sync::Arc, time::Duration};

use crate::{
    idempotency::IdempotencyKey,
    ports::{Clock, IdempotencyLedger},
    use_cases::background::{Step, Worker},
};

/// Keys that a step reads.
const BATCH: usize = 1_000;

/// Pause between the batches of a round: 20,000 keys per second are several times as many as orders
/// add, and the rest of the database's time is left to orders.
const BATCH_PAUSE: Duration = Duration::from_millis(50);

/// Pause between rounds, and after a failure.
const ROUND_PAUSE: Duration = Duration::from_secs(60);

/// Reads all idempotency keys in rounds, and forgets those that are free.
pub struct ForgetKeys {
    ledger: Arc<dyn IdempotencyLedger>,
    clock: Arc<dyn Clock>,
    /// The last key that the round has read.
    last: Option<IdempotencyKey>,
}

impl ForgetKeys {
    /// Returns a worker at the beginning of a round.
    pub fn new(ledger: Arc<dyn IdempotencyLedger>, clock: Arc<dyn Clock>) -> Self {
        Self { ledger, clock, last: None }
    }
}

impl Worker for ForgetKeys {
    type Done = ();

    /// Reads the next batch of keys. After a failure, the next step reads the same batch again.
    async fn step(&mut self) -> Step<()> {
        let Some(now) = self.clock.now_to_erase() else {
            return Step { result: Ok(()), pause: ROUND_PAUSE };
        };
        let forgotten = self.ledger.forget_free(self.last.clone(), now, BATCH).await;
        let (result, pause) = match forgotten {
            Ok(last) => {
                self.last = last;
                (Ok(()), if self.last.is_some() { BATCH_PAUSE } else { ROUND_PAUSE })
            }
            Err(error) => (Err(error), ROUND_PAUSE),
        };
        Step { result, pause }
    }
}

#[cfg(test)]
mod tests {
    use mockall::{Sequence, predicate::eq};
    use time::{OffsetDateTime, macros::datetime};

    use super::*;
    use crate::{
        api_key::{ClientId, Owner},
        ports::MockIdempotencyLedger,
        test_support::{clock, doubtful_clock, down},
    };

    const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

    #[tokio::test]
    async fn round_reads_on_after_the_last_key() {
        let mut ledger = MockIdempotencyLedger::new();
        let mut sequence = Sequence::new();
        for (after, result, _) in steps() {
            ledger
                .expect_forget_free()
                .with(eq(after), eq(NOW), eq(BATCH))
                .once()
                .in_sequence(&mut sequence)
                .return_once(|_, _, _| result);
        }
        let mut worker = ForgetKeys::new(Arc::new(ledger), clock(NOW));
        for (_, result, pause) in steps() {
            let step = worker.step().await;
            assert_eq!((step.result.is_ok(), step.pause), (result.is_ok(), pause));
        }
    }

    /// A repeat of its request would create a second order.
    #[tokio::test]
    async fn no_key_is_forgotten_while_the_clock_may_be_wrong() {
        let mut worker =
            ForgetKeys::new(Arc::new(MockIdempotencyLedger::new()), doubtful_clock(NOW));
        let step = worker.step().await;
        assert_eq!((step.result.is_ok(), step.pause), (true, ROUND_PAUSE));
    }

    type Expected = (
        Option<IdempotencyKey>,
        Result<Option<IdempotencyKey>, crate::ports::StoreError>,
        Duration,
    );

    /// Returns the cursor of each step, the reply of the ledger, and the pause.
    fn steps() -> [Expected; 5] {
        let key = |text: &str| IdempotencyKey::new(Owner::client(ClientId(1), false), text);
        [
            (None, Ok(key("a")), BATCH_PAUSE),
            (key("a"), Err(down()), ROUND_PAUSE),
            (key("a"), Ok(key("b")), BATCH_PAUSE),
            (key("b"), Ok(None), ROUND_PAUSE),
            (None, Ok(key("a")), BATCH_PAUSE),
        ]
    }
}
