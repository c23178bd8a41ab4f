//! Use case: store again what searches look at, of orders that another version or system has written.

use std::{sync::Arc, time::Duration};

use crate::{
    ports::OrderAdmin,
    use_cases::background::{Step, Worker},
};

/// Number of orders of a step. Their rows are locked meanwhile.
const BATCH: usize = 200;

/// Pause when none is left, and after a failure. An order that another system assigns is found by its notary then.
const PAUSE: Duration = Duration::from_secs(5);

/// Pause between two batches: requests need the database, too.
const BATCH_PAUSE: Duration = Duration::from_millis(50);

/// Stores these texts again. Any number of processes may do so at the same time.
pub struct FoldTexts {
    /// Stores orders.
    pub admin: Arc<dyn OrderAdmin>,
}

impl Worker for FoldTexts {
    type Done = ();

    async fn step(&mut self) -> Step<()> {
        match self.admin.fold_texts(BATCH).await {
            Ok(folded) => {
                let pause = if folded == BATCH { BATCH_PAUSE } else { PAUSE };
                Step { result: Ok(()), pause }
            }
            Err(error) => Step { result: Err(error), pause: PAUSE },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ports::MockOrderAdmin, test_support::down};

    #[tokio::test]
    async fn full_batch_is_followed_by_another_soon() {
        for (folded, expected) in [(Some(BATCH), BATCH_PAUSE), (Some(199), PAUSE), (None, PAUSE)] {
            let mut admin = MockOrderAdmin::new();
            admin.expect_fold_texts().returning(move |_| folded.ok_or_else(down));
            let step = FoldTexts { admin: Arc::new(admin) }.step().await;
            assert_eq!((step.result.is_ok(), step.pause), (folded.is_some(), expected));
        }
    }
}
