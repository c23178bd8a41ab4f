//! Use case: store again what searches look at, of orders that another version or system has written.

use std::{sync::Arc, time::Duration};

use crate::{
    order::OrderId,
    ports::{OrderAdmin, StoreError},
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

/// The orders that keep their texts, and why these cannot be stored.
pub type KeptTexts = Vec<(OrderId, StoreError)>;

impl FoldTexts {
    /// Stores the texts of a batch. One that fails is halved, so that one order whose texts cannot be stored holds up
    /// no other. Returns the number of orders, and those that keep their texts.
    async fn fold(&self) -> Result<(usize, KeptTexts), StoreError> {
        let orders = self.admin.unfolded(BATCH).await?;
        let (mut parts, mut kept) = (vec![&orders[..]], Vec::new());
        while let Some(part) = parts.pop() {
            let Some(first) = part.first() else { continue };
            match self.admin.fold_texts(part).await {
                Ok(()) => {}
                Err(error) if !error.may_be_of_data() => return Err(error),
                Err(error) if part.len() == 1 => {
                    // A change of the order may have been in the way.
                    if self.admin.fold_texts(part).await.is_ok() {
                        continue;
                    }
                    self.admin.keep_texts(*first).await?;
                    kept.push((*first, error));
                }
                Err(_) => parts.extend(<[_; 2]>::from(part.split_at(part.len() / 2))),
            }
        }
        Ok((orders.len(), kept))
    }
}

impl Worker for FoldTexts {
    type Done = KeptTexts;

    async fn step(&mut self) -> Step<KeptTexts> {
        match self.fold().await {
            Ok((number, kept)) => {
                let pause = if number == BATCH { BATCH_PAUSE } else { PAUSE };
                Step { result: Ok(kept), pause }
            }
            Err(error) => Step { result: Err(error), pause: PAUSE },
        }
    }
}

#[cfg(test)]
mod tests {
    use mockall::predicate::eq;

    use super::*;
    use crate::{ports::MockOrderAdmin, test_support::down};

    fn unfolded(number: usize) -> Vec<OrderId> {
        (1..).take(number).map(OrderId).collect()
    }

    #[tokio::test]
    async fn full_batch_is_followed_by_another_soon() {
        for (found, expected) in [(Some(BATCH), BATCH_PAUSE), (Some(199), PAUSE), (None, PAUSE)] {
            let mut admin = MockOrderAdmin::new();
            admin.expect_unfolded().returning(move |_| found.map(unfolded).ok_or_else(down));
            admin.expect_fold_texts().times(usize::from(found.is_some())).returning(|_| Ok(()));
            let step = FoldTexts { admin: Arc::new(admin) }.step().await;
            assert_eq!((step.result.is_ok(), step.pause), (found.is_some(), expected));
        }
    }

    #[tokio::test]
    async fn order_whose_texts_cannot_be_stored_holds_up_no_other() {
        let bad = OrderId(5);
        let mut admin = MockOrderAdmin::new();
        admin.expect_unfolded().returning(|_| Ok(unfolded(8)));
        let stored = Arc::new(std::sync::Mutex::new(Vec::new()));
        let stored_by = Arc::clone(&stored);
        admin.expect_fold_texts().returning(move |orders| {
            if orders.contains(&bad) {
                return Err(StoreError::Internal("too long".into()));
            }
            stored_by.lock().unwrap().extend(orders.to_vec());
            Ok(())
        });
        admin.expect_keep_texts().with(eq(bad)).once().returning(|_| Ok(()));
        let step = FoldTexts { admin: Arc::new(admin) }.step().await;
        let kept: Vec<_> = step.result.unwrap().into_iter().map(|(order, _)| order).collect();
        assert_eq!(kept, [bad]);
        let mut stored = stored.lock().unwrap().clone();
        stored.sort_unstable();
        assert_eq!(stored, [1, 2, 3, 4, 6, 7, 8].map(OrderId));
    }

    /// The next step tries the batch again.
    #[tokio::test]
    async fn unavailable_database_keeps_no_texts() {
        let mut admin = MockOrderAdmin::new();
        admin.expect_unfolded().returning(|_| Ok(unfolded(8)));
        admin.expect_fold_texts().once().returning(|_| Err(down()));
        let step = FoldTexts { admin: Arc::new(admin) }.step().await;
        assert!(step.result.is_err());
    }
}
