//! Use case: forget idempotency keys that are free again.

use std::{sync::Arc, time::Duration};

use crate::{
    background::Step,
    idempotency::IdempotencyKey,
    ports::{Clock, IdempotencyLedger},
};

/// Keys that a step reads.
const BATCH: usize = 1_000;

/// Pause between the batches of a round: 2,000 keys per second do not disturb orders. At 100 orders
/// per second, the keys of a day take less than an hour and a half.
const BATCH_PAUSE: Duration = Duration::from_millis(500);

/// Share of free keys in a batch above which the walk is too slow: the ledger has a tenth more keys
/// than it needs.
const MAX_FREE: usize = BATCH / 10;

/// Pause after such a batch. The walk reads tens of thousands of keys per second then, more than
/// orders add.
const SHORT_PAUSE: Duration = Duration::from_millis(20);

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

    /// Reads the next batch of keys. After a failure, the next step reads the same batch again.
    pub async fn step(&mut self) -> Step<()> {
        let forgotten = self.ledger.forget_free(self.last.clone(), self.clock.now(), BATCH).await;
        let (result, pause) = match forgotten {
            Ok(walked) => {
                let pause = match &walked {
                    Some(walked) if walked.forgotten > MAX_FREE => SHORT_PAUSE,
                    Some(_) => BATCH_PAUSE,
                    None => ROUND_PAUSE,
                };
                self.last = walked.map(|walked| walked.last);
                (Ok(()), pause)
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
        api_key::ClientId,
        ports::{MockIdempotencyLedger, Walked},
        test_support::{clock, down},
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

    type Expected =
        (Option<IdempotencyKey>, Result<Option<Walked>, crate::ports::StoreError>, Duration);

    /// Returns the cursor of each step, the reply of the ledger, and the pause.
    fn steps() -> [Expected; 6] {
        let key = |text: &str| IdempotencyKey::new(ClientId(1), false, text);
        let walked =
            |text: &str, forgotten| Ok(Some(Walked { last: key(text).unwrap(), forgotten }));
        let failure = Err(down());
        [
            (None, walked("a", MAX_FREE), BATCH_PAUSE),
            (key("a"), walked("b", MAX_FREE + 1), SHORT_PAUSE),
            (key("b"), failure, ROUND_PAUSE),
            (key("b"), walked("c", 0), BATCH_PAUSE),
            (key("c"), Ok(None), ROUND_PAUSE),
            (None, walked("a", 0), BATCH_PAUSE),
        ]
    }

    /// Keys arrive and expire at twice the pace of long pauses.
    #[tokio::test]
    async fn walk_keeps_up_with_many_orders() {
        const KEPT_SECS: f64 = 3_600.0;
        const KEYS_PER_SEC: f64 = 4_000.0;
        // The share of free keys in each batch is that in the ledger: `kept` are in use.
        let kept = KEPT_SECS * KEYS_PER_SEC;
        let keys = Arc::new(std::sync::Mutex::new(kept));
        let mut ledger = MockIdempotencyLedger::new();
        let stored = Arc::clone(&keys);
        ledger.expect_forget_free().returning(move |_, _, _| {
            let mut keys = stored.lock().unwrap();
            let free = (1_000.0 * (*keys - kept) / *keys).floor();
            *keys -= free;
            let last = IdempotencyKey::new(ClientId(1), false, "a").unwrap();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Ok(Some(Walked { last, forgotten: free as usize }))
        });
        let mut worker = ForgetKeys::new(Arc::new(ledger), clock(NOW));
        let mut secs = 0.0;
        while secs < 8.0 * KEPT_SECS {
            // A batch itself takes some milliseconds.
            let passed = worker.step().await.pause.as_secs_f64() + 0.01;
            secs += passed;
            *keys.lock().unwrap() += passed * KEYS_PER_SEC;
        }
        let keys = *keys.lock().unwrap();
        assert!(keys < 1.2 * kept, "{keys} keys, {kept} needed");
    }
}
