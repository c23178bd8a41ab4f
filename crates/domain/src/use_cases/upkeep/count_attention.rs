//! Use case: count the orders that are late, for metrics.

use std::{sync::Arc, time::Duration};

use super::erase_old_orders::Round;
use crate::{
    order::attention::Attention,
    ports::{Clock, OrderAdmin, StoreError},
    use_cases::background::{Step, Worker},
};

/// Longest pause between two looks: orders become late within minutes.
const PAUSE: Duration = Duration::from_secs(10);

/// Maximum number of orders that may be late that a step reads.
const READ: usize = 2_000;

/// Number of them that are in memory at the same time. An order may have 100 kB.
const AT_ONCE: usize = 100;

/// The numbers of late orders, by code. Test orders do not count.
pub type LateOrders = [(Attention, usize); Attention::ALL.len()];

fn none() -> LateOrders {
    Attention::ALL.map(|code| (code, 0))
}

/// Counts the orders that are late, in rounds through all orders.
pub struct CountAttention {
    admin: Arc<dyn OrderAdmin>,
    clock: Arc<dyn Clock>,
    round: Round,
    /// The numbers in this round.
    found: LateOrders,
    /// The numbers in the round before; in the first one, what it has found.
    counted: LateOrders,
}

impl CountAttention {
    /// Returns a worker that has counted nothing.
    pub fn new(admin: Arc<dyn OrderAdmin>, clock: Arc<dyn Clock>) -> Self {
        Self { admin, clock, round: Round::default(), found: none(), counted: none() }
    }

    /// Counts those of the next orders. Returns the pause before the next step.
    async fn count(&mut self) -> Result<Duration, StoreError> {
        let mut left = READ / AT_ONCE;
        loop {
            let (is_full, pause) = self.look().await?;
            left -= 1;
            if !is_full || left == 0 {
                return Ok(pause);
            }
        }
    }

    /// Counts those of some orders. Returns whether the next ones may have others at once, and the pause before them.
    async fn look(&mut self) -> Result<(bool, Duration), StoreError> {
        let now = self.clock.now();
        let look = self.admin.maybe_late(now, self.round.after(), AT_ONCE).await?;
        let is_full = look.orders.len() == AT_ONCE && look.looked_at.is_some();
        for order in look.orders.iter().filter(|order| !order.stored.is_test) {
            let codes = Attention::of(&order.stored, order.counts, now);
            for (code, count) in &mut self.found {
                *count += usize::from(codes.contains(code));
            }
        }
        if look.looked_at.is_none() || !self.round.is_later {
            self.counted = self.found;
        }
        if look.looked_at.is_none() {
            self.found = none();
        }
        Ok((is_full, self.round.go_on(look.looked_at).min(PAUSE)))
    }
}

impl Worker for CountAttention {
    type Done = LateOrders;

    /// Counts the late ones of the next orders.
    async fn step(&mut self) -> Step<LateOrders> {
        match self.count().await {
            Ok(pause) => Step { result: Ok(self.counted), pause },
            Err(error) => Step { result: Err(error), pause: PAUSE },
        }
    }
}

#[cfg(test)]
mod tests {
    use time::{Duration, OffsetDateTime, macros::datetime};

    use super::*;
    use crate::{
        order::OrderId,
        ports::{FoundLate, ListedOrder, MockOrderAdmin},
        test_support::{clock, stored_order},
    };

    /// A day after the appointment of the sample.
    const NOW: OffsetDateTime = datetime!(2026-12-02 20:30 UTC);

    /// Only a few of them are in memory at the same time.
    #[tokio::test]
    async fn step_reads_many_orders_a_few_at_a_time() {
        let stored = stored_order(NOW - Duration::days(9));
        let mut admin = MockOrderAdmin::new();
        admin.expect_maybe_late().times(READ / AT_ONCE).returning(move |_, after, limit| {
            assert_eq!(limit, AT_ONCE);
            let orders = vec![ListedOrder::from(stored.clone()); limit];
            Ok(FoundLate { orders, looked_at: Some(OrderId(after.0 + 100)) })
        });
        let mut worker = CountAttention::new(Arc::new(admin), clock(NOW));
        let counts = worker.step().await.result.unwrap();
        assert!(counts.contains(&(Attention::Unassigned, READ)), "{counts:?}");
    }

    #[tokio::test]
    async fn round_counts_late_orders_without_test_orders() {
        let order = |is_test| {
            let stored = stored_order(NOW - Duration::days(9));
            ListedOrder::from(crate::order::StoredOrder { is_test, ..stored })
        };
        let mut admin = MockOrderAdmin::new();
        admin.expect_maybe_late().returning(move |now, after, _| {
            assert_eq!(now, NOW);
            let looked_at = (after == OrderId(0)).then_some(OrderId(9));
            Ok(FoundLate { orders: vec![order(false), order(true)], looked_at })
        });
        let mut worker = CountAttention::new(Arc::new(admin), clock(NOW));
        let mut counts = Vec::new();
        for _ in 0..4 {
            counts.push(worker.step().await.result.unwrap());
        }
        let late = |number| {
            let is_late = |code| {
                matches!(code, Attention::Unassigned | Attention::NoDocuments | Attention::NoResult)
            };
            Attention::ALL.map(|code| (code, if is_late(code) { number } else { 0 }))
        };
        // The second round shows its numbers at its end.
        assert_eq!(counts, [late(1), late(2), late(2), late(2)]);
    }
}
