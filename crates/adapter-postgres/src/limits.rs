//! The time limits of a store.

use std::time::Duration;

use crate::statement::DURABLE;

/// How long a store waits for the server, other systems and its own connections. [`Default`] has the
/// limits of the service: a client gets its answer within 3 seconds, whatever the server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimits {
    /// A connection to any of the hosts, with its settings.
    pub connect: Duration,
    /// A second connection, to find out whether a pooler shares sessions.
    pub session_check: Duration,
    /// Getting a connection of the pool. Shorter than [`Self::call`]: a statement that started late
    /// would be cut off, and its healthy connection closed, when connections are scarce.
    pub acquire: Duration,
    /// A statement. The server ends it then; a server that does not is gone.
    pub statement: Duration,
    /// A whole call: getting or making a connection, and the statements. Longer than
    /// [`Self::statement`], so that the caller learns the outcome from the server. A request makes at
    /// least two calls, and the first meets a server that does not answer.
    pub call: Duration,
    /// A pause of the store within a transaction. The server ends the transaction then.
    pub idle_transaction: Duration,
    /// A lock of an order that is changed. Another system may hold it for long; the caller tries again
    /// later.
    pub lock: Duration,
    /// The wait of a new order for its batch. An order that has waited longer is not created: its
    /// caller would give up before the outcome is known.
    pub batch: Duration,
    /// A batch that the server rejects within this time is tried again, each order alone.
    pub fast_rejection: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            session_check: Duration::from_secs(2),
            acquire: Duration::from_secs(2),
            statement: Duration::from_secs(2),
            call: Duration::from_millis(2_500),
            idle_transaction: Duration::from_secs(10),
            lock: Duration::from_millis(200),
            batch: Duration::from_millis(1_500),
            fast_rejection: Duration::from_secs(1),
        }
    }
}

impl TimeLimits {
    /// Returns the settings of a session whose statements are limited.
    pub(crate) fn session(&self) -> String {
        let [statement, idle] = [self.statement, self.idle_transaction].map(milliseconds);
        format!(
            "SET statement_timeout = '{statement}'; \
            SET idle_in_transaction_session_timeout = '{idle}'"
        )
    }

    /// Returns what begins a transaction that changes an order.
    pub(crate) fn begin_change(&self) -> String {
        format!("BEGIN; SET LOCAL lock_timeout = '{}'", milliseconds(self.lock))
    }

    /// Returns the condition of a statement that changes an order. It is true, makes the commit durable,
    /// and limits the wait for a lock: the server knows that before it looks for the row.
    pub(crate) fn change(&self) -> String {
        let lock = milliseconds(self.lock);
        format!("{DURABLE} AND (SELECT set_config('lock_timeout', '{lock}', true)) IS NOT NULL")
    }
}

/// Returns a time as PostgreSQL reads it.
pub(crate) fn milliseconds(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client gets its answer within three seconds, and the server tells the outcome.
    #[test]
    fn limits_of_the_service_leave_time_for_the_answer() {
        let limits = TimeLimits::default();
        assert!(limits.call < Duration::from_secs(3));
        assert!(limits.acquire.max(limits.statement).max(limits.batch) < limits.call);
        assert!(limits.lock < limits.statement && limits.fast_rejection < limits.statement);
    }
}
