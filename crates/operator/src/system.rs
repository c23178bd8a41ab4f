//! The clock and the randomness of the machine, and its user. Only this module reads them.

use std::sync::Arc;

use domain::ports::{Clock, DatabaseTime, Entropy};
use nix::unistd::{Uid, User};
use rustix::time::{ClockId, clock_gettime};
use time::{Duration, OffsetDateTime};

use telemetry::traces::Traces;

/// Maximum length of the name of a user, in characters.
const MAX_CHARS: usize = 100;

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> OffsetDateTime {
        #[expect(clippy::disallowed_methods, reason = "this is the Clock port's adapter")]
        let now = OffsetDateTime::now_utc();
        // Stores keep microseconds, and an instant must be equal after it is read back.
        now.truncate_to_microsecond()
    }

    fn monotonic(&self) -> Duration {
        // It goes on while the machine sleeps, so that waking up is no step.
        #[cfg(target_os = "linux")]
        let clock = ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let clock = ClockId::Monotonic;
        let time = clock_gettime(clock);
        Duration::seconds(time.tv_sec) + Duration::nanoseconds(time.tv_nsec)
    }
}

/// The randomness of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        #[expect(clippy::disallowed_methods, reason = "this is the Entropy port's adapter")]
        let filled = getrandom::fill(bytes);
        #[expect(
            clippy::expect_used,
            reason = "without randomness the service cannot issue secrets"
        )]
        filled.expect("the operating system provides randomness");
    }
}

/// The ports of the machine. Tests replace them.
#[derive(Clone)]
pub struct Machine {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Provides randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Exports traces, if a collector is set.
    pub traces: Option<Arc<Traces>>,
    /// Replaces the time of the database in tests.
    pub database_time: Option<Arc<dyn DatabaseTime>>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            entropy: Arc::new(OsEntropy),
            traces: None,
            database_time: None,
        }
    }
}

/// Returns the user of this process, as the system knows it: `jane`, or `jane as root` if the process is one
/// of root that `sudo` has started for another user. Variables that users may set do not count.
pub fn system_user() -> String {
    let own = Uid::effective();
    let asker = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok().map(Uid::from_raw));
    acting(own, asker)
}

/// Only root's `sudo` can be trusted to have set the variable.
fn acting(own: Uid, asker: Option<Uid>) -> String {
    match asker.filter(|asker| own.is_root() && *asker != own) {
        Some(asker) => format!("{} as {}", shown_name(asker), shown_name(own)),
        None => shown_name(own),
    }
}

/// Returns the name of a user for a record, or its number if the system has no name.
fn shown_name(uid: Uid) -> String {
    let name = name_of(uid).unwrap_or_else(|| format!("user {uid}"));
    name.chars().filter(|character| !character.is_control()).take(MAX_CHARS).collect()
}

/// Returns the name that the system has for a user.
pub(crate) fn name_of(uid: Uid) -> Option<String> {
    User::from_uid(uid).ok().flatten().map(|user| user.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_is_the_user_of_the_process_and_who_asked_sudo() {
        let (root, nobody) = (Uid::from_raw(0), Uid::from_raw(4_294_967_000));
        assert_eq!(acting(root, None), "root");
        assert_eq!(acting(root, Some(root)), "root");
        assert_eq!(acting(root, Some(nobody)), "user 4294967000 as root");
        assert_eq!(acting(nobody, Some(root)), "user 4294967000");
        assert_eq!(acting(nobody, None), "user 4294967000");
    }
}
