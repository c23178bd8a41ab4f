//! Work that follows an order: a mail to each of its recipients, retried until delivered or given
//! up.

use time::{Duration, OffsetDateTime};

use crate::{
    hex,
    order::{EmailAddress, OrderId, StoredOrder},
    ports::Entropy,
};

/// Identifier of a follow-up, given by the queue; positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryId(pub i64);

/// A mail to be sent once its order is placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDelivery {
    /// Random and stable: the `Message-ID` of the mail is made of it, so that a mail delivered
    /// twice can be told.
    pub message_key: String,
    /// Who gets the mail.
    pub recipient: EmailAddress,
}

impl NewDelivery {
    /// A mail to `recipient` under a new message key of 128 random bits.
    pub fn mail(recipient: EmailAddress, entropy: &dyn Entropy) -> Self {
        let mut key = [0; 16];
        entropy.fill(&mut key);
        Self { message_key: hex::encode(&key), recipient }
    }
}

/// A follow-up as the queue keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its identifier.
    pub id: DeliveryId,
    /// The order it belongs to.
    pub order_id: OrderId,
    /// What is to be done.
    pub task: NewDelivery,
    /// Failed deliveries so far.
    pub attempts: u32,
    /// When it was enqueued.
    pub created_at: OffsetDateTime,
    /// When it is to be tried next.
    pub due_at: OffsetDateTime,
    /// Since when nobody tries it any more, until an operator says so.
    pub failed_at: Option<OffsetDateTime>,
    /// What the last failed delivery said.
    pub last_error: Option<String>,
}

/// What a mail says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// Random and stable over retries.
    pub message_key: String,
    /// Who gets it.
    pub recipient: EmailAddress,
    /// The order it tells of.
    pub order: StoredOrder,
}

/// When a failed delivery is tried again, and when it is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Wait after the first failure; doubled after each further one.
    pub first_delay: Duration,
    /// Longest wait.
    pub max_delay: Duration,
    /// Wait while nobody's mail is taken. It does not grow: a relay that is back is to be noticed
    /// soon, however long it was away.
    pub outage_delay: Duration,
    /// Age at which a follow-up that still fails is buried (RFC 5321 section 4.5.4.1 asks for four
    /// to five days).
    pub give_up_after: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            first_delay: Duration::seconds(5),
            max_delay: Duration::HOUR,
            outage_delay: Duration::seconds(4),
            give_up_after: Duration::days(5),
        }
    }
}

impl RetryPolicy {
    /// When to try again after `attempts` failures, the last of them at `now`; `None` when it is
    /// time to give up.
    pub fn next_attempt(
        &self,
        created_at: OffsetDateTime,
        attempts: u32,
        now: OffsetDateTime,
        entropy: &dyn Entropy,
    ) -> Option<OffsetDateTime> {
        let doublings = attempts.saturating_sub(1).min(20);
        let delay = self
            .first_delay
            .checked_mul(1 << doublings)
            .unwrap_or(self.max_delay)
            .min(self.max_delay);
        self.after(delay, created_at, now, entropy)
    }

    /// When to try again after a failure at `now` that is everybody's; `None` when it is time to
    /// give up.
    pub fn next_attempt_in_outage(
        &self,
        created_at: OffsetDateTime,
        now: OffsetDateTime,
        entropy: &dyn Entropy,
    ) -> Option<OffsetDateTime> {
        self.after(self.outage_delay, created_at, now, entropy)
    }

    /// Between half of the delay and the whole, at random, so that what failed together is not
    /// tried again together.
    fn after(
        &self,
        delay: Duration,
        created_at: OffsetDateTime,
        now: OffsetDateTime,
        entropy: &dyn Entropy,
    ) -> Option<OffsetDateTime> {
        if now - created_at >= self.give_up_after {
            return None;
        }
        let mut random = [0; 4];
        entropy.fill(&mut random);
        let jitter = f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX);
        Some(now + delay * (0.5 + jitter / 2.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::macros::datetime;

    use super::*;
    use crate::test_support::CountingEntropy;

    const START: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

    #[test]
    fn five_days_of_failures_are_enough() {
        let policy = RetryPolicy::default();
        let entropy = CountingEntropy::default();
        assert!(
            policy
                .next_attempt(START, 99, START + Duration::days(5) - Duration::SECOND, &entropy)
                .is_some()
        );
        assert_eq!(policy.next_attempt(START, 1, START + Duration::days(5), &entropy), None);
        assert!(
            policy
                .next_attempt_in_outage(
                    START,
                    START + Duration::days(5) - Duration::SECOND,
                    &entropy
                )
                .is_some()
        );
        assert_eq!(policy.next_attempt_in_outage(START, START + Duration::days(5), &entropy), None);
    }

    fn entropy_of(random: [u8; 4]) -> impl Entropy {
        let mut entropy = crate::ports::MockEntropy::new();
        entropy.expect_fill().returning(move |bytes| bytes.copy_from_slice(&random));
        entropy
    }

    proptest! {
        #[test]
        fn an_outage_is_waited_out_in_steps_of_two_to_four_seconds(age in 0_i64..432_000, random: [u8; 4]) {
            let now = START + Duration::seconds(age);
            let wait = RetryPolicy::default().next_attempt_in_outage(START, now, &entropy_of(random)).unwrap() - now;
            prop_assert!(wait >= Duration::seconds(2) && wait <= Duration::seconds(4), "{}", wait);
        }

        #[test]
        fn waits_double_up_to_the_longest(attempts in 1_u32..1000, random: [u8; 4]) {
            let wait = RetryPolicy::default().next_attempt(START, attempts, START, &entropy_of(random)).unwrap() - START;
            let whole = Duration::seconds_f64((5.0 * 2_f64.powi(attempts.cast_signed() - 1)).min(3_600.0));
            prop_assert!(wait >= whole / 2 && wait <= whole, "{} after {} attempts", wait, attempts);
        }
    }
}
