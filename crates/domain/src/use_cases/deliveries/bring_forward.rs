//! Use case: attempt deliveries that a clock which was ahead has put off for years.

use std::{sync::Arc, time::Duration};

use crate::{
    ports::{Clock, DeliveryQueue, StoreError, WebhookQueue},
    use_cases::background::{Step, Worker},
};

/// Deliveries of each kind that a step makes due.
const BATCH: usize = 500;

/// Pause between two batches. It leaves most of the database's time to orders.
const BATCH_PAUSE: Duration = Duration::from_millis(50);

/// Pause between rounds, and after a failure.
const ROUND_PAUSE: Duration = Duration::from_secs(60);

/// The numbers of deliveries that a step has made due.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BroughtForward {
    /// Mails.
    pub mails: usize,
    /// Webhooks.
    pub webhooks: usize,
}

/// Makes deliveries due that wait longer than any delay.
pub struct BringForward {
    /// Stores mails.
    pub mails: Arc<dyn DeliveryQueue>,
    /// Stores webhooks.
    pub webhooks: Arc<dyn WebhookQueue>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

impl BringForward {
    async fn bring_forward(&self) -> Result<BroughtForward, StoreError> {
        // A clock that is behind by days takes each delay for too long.
        let (Some(now), Some(_)) = (self.clock.now_to_lease(), self.clock.now_to_erase()) else {
            return Ok(BroughtForward::default());
        };
        let mails = self.mails.bring_forward(now, BATCH).await?;
        let webhooks = self.webhooks.bring_forward(now, BATCH).await?;
        Ok(BroughtForward { mails, webhooks })
    }
}

impl Worker for BringForward {
    type Done = BroughtForward;

    /// Makes a batch of mails and a batch of webhooks due.
    async fn step(&mut self) -> Step<BroughtForward> {
        let result = self.bring_forward().await;
        let is_full = result.as_ref().is_ok_and(|done| done.mails.max(done.webhooks) == BATCH);
        Step { result, pause: if is_full { BATCH_PAUSE } else { ROUND_PAUSE } }
    }
}

#[cfg(test)]
mod tests {
    use mockall::predicate::eq;
    use time::{OffsetDateTime, macros::datetime};

    use super::*;
    use crate::{
        ports::{MockDeliveryQueue, MockWebhookQueue},
        test_support::{clock, doubtful_clock},
    };

    const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

    #[tokio::test]
    async fn full_batch_is_followed_by_the_next_soon() {
        for (mails, webhooks, pause) in
            [(0, 0, ROUND_PAUSE), (BATCH, 1, BATCH_PAUSE), (1, BATCH, BATCH_PAUSE)]
        {
            let (mut queue, mut webhook_queue) =
                (MockDeliveryQueue::new(), MockWebhookQueue::new());
            queue
                .expect_bring_forward()
                .with(eq(NOW), eq(BATCH))
                .return_once(move |_, _| Ok(mails));
            webhook_queue
                .expect_bring_forward()
                .with(eq(NOW), eq(BATCH))
                .return_once(move |_, _| Ok(webhooks));
            let (mails_of, webhooks_of) = (Arc::new(queue), Arc::new(webhook_queue));
            let mut worker =
                BringForward { mails: mails_of, webhooks: webhooks_of, clock: clock(NOW) };
            let step = worker.step().await;
            let expected = BroughtForward { mails, webhooks };
            assert_eq!((step.result.unwrap(), step.pause), (expected, pause));
        }
    }

    #[tokio::test]
    async fn nothing_is_brought_forward_while_a_clock_is_in_doubt() {
        let (mails, webhooks) = (MockDeliveryQueue::new(), MockWebhookQueue::new());
        let mut worker = BringForward {
            mails: Arc::new(mails),
            webhooks: Arc::new(webhooks),
            clock: doubtful_clock(NOW),
        };
        let step = worker.step().await;
        assert_eq!((step.result.unwrap(), step.pause), (BroughtForward::default(), ROUND_PAUSE));
    }
}
