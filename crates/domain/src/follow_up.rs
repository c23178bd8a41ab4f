//! Work that follows an order: a mail to each of its recipients, retried until delivered or given up.

use time::{Duration, OffsetDateTime};

use crate::{
    hex,
    order::{EmailAddress, OrderId, PlacedOrder},
    ports::Entropy,
};

/// Identifier of a follow-up, given by the queue; positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FollowUpId(pub i64);

/// A mail to be sent once its order is placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFollowUp {
    /// Random and stable: the `Message-ID` of the mail is made of it, so that a mail delivered twice can be told.
    pub message_key: String,
    /// Who gets the mail.
    pub recipient: EmailAddress,
}

impl NewFollowUp {
    /// A mail to `recipient` under a new message key of 128 random bits.
    pub fn mail(recipient: EmailAddress, entropy: &dyn Entropy) -> Self {
        let mut key = [0; 16];
        entropy.fill(&mut key);
        Self { message_key: hex::encode(&key), recipient }
    }
}

/// A follow-up as the queue keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowUp {
    /// Its identifier.
    pub id: FollowUpId,
    /// The order it belongs to.
    pub order_id: OrderId,
    /// What is to be done.
    pub task: NewFollowUp,
    /// Failed deliveries so far.
    pub attempts: u32,
    /// When it was enqueued.
    pub created_at: OffsetDateTime,
    /// When it is to be tried next.
    pub due_at: OffsetDateTime,
    /// Since when nobody tries it any more, until an operator says so.
    pub buried_at: Option<OffsetDateTime>,
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
    pub order: PlacedOrder,
}

/// When a failed delivery is tried again, and when it is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Wait after the first failure; doubled after each further one.
    pub first_delay: Duration,
    /// Longest wait.
    pub max_delay: Duration,
    /// Age at which a follow-up that still fails is buried (RFC 5321 section 4.5.4.1 asks for four to five days).
    pub give_up_after: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { first_delay: Duration::seconds(5), max_delay: Duration::HOUR, give_up_after: Duration::days(5) }
    }
}

impl RetryPolicy {
    /// When to try again after `attempts` failures, the last of them at `now`; `None` when it is time to give up.
    ///
    /// The wait is between half of the exponential delay and the whole, at random, so that what failed together is
    /// not tried again together.
    pub fn next_attempt(&self, created_at: OffsetDateTime, attempts: u32, now: OffsetDateTime, entropy: &dyn Entropy) -> Option<OffsetDateTime> {
        if now - created_at >= self.give_up_after {
            return None;
        }
        let doublings = attempts.saturating_sub(1).min(20);
        let delay = self.first_delay.checked_mul(1 << doublings).unwrap_or(self.max_delay).min(self.max_delay);
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
        assert!(policy.next_attempt(START, 99, START + Duration::days(5) - Duration::SECOND, &entropy).is_some());
        assert_eq!(policy.next_attempt(START, 1, START + Duration::days(5), &entropy), None);
    }

    proptest! {
        #[test]
        fn waits_double_up_to_the_longest(attempts in 1_u32..1000, random: [u8; 4]) {
            let mut entropy = crate::ports::MockEntropy::new();
            entropy.expect_fill().returning(move |bytes| bytes.copy_from_slice(&random));
            let policy = RetryPolicy::default();
            let wait = policy.next_attempt(START, attempts, START, &entropy).unwrap() - START;
            let whole = Duration::seconds_f64((5.0 * 2_f64.powi(attempts.cast_signed() - 1)).min(3_600.0));
            prop_assert!(wait >= whole / 2 && wait <= whole, "{} after {} attempts", wait, attempts);
        }
    }
}
