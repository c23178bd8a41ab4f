//! Time limits for the steps of a mail.

use std::time::Duration;

/// Time limits for the steps of a delivery. Those that wait for the relay are those of RFC 5321,
/// section 4.5.3.2: the relay may be slow, and may already have accepted the mail.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// After this time, a step leaves its permit to another mail, and waits on.
    pub(super) patience: Duration,
    /// Up to the reply to `MAIL FROM`, including the wait for a connection.
    pub(super) begin: Duration,
    /// From `RCPT TO` until the relay is ready for the content.
    pub(super) transfer: Duration,
    /// From the final dot until the relay has accepted the mail.
    pub(super) confirm: Duration,
    /// For the first reply on a pooled connection, after which a new one is tried beside it.
    pub(super) reuse: Duration,
    /// How long the limit on connections is lowered by one after the relay rejected a further one.
    pub(super) lowered: Duration,
    /// For resetting the connection.
    pub(super) cleanup: Duration,
    /// For a check.
    pub(super) check: Duration,
}

pub(super) const TIMEOUTS: Timeouts = Timeouts {
    patience: Duration::from_secs(5),
    begin: Duration::from_secs(5 * 60),
    transfer: Duration::from_secs(5 * 60),
    confirm: Duration::from_secs(10 * 60),
    reuse: Duration::from_secs(2),
    lowered: Duration::from_secs(10),
    cleanup: Duration::from_secs(3),
    // The port allows 5 seconds.
    check: Duration::from_millis(4_900),
};
