//! The clock and the randomness of the machine. Only this module reads them.

use std::{cell::RefCell, sync::Arc};

use domain::ports::{Clock, Entropy};
use time::OffsetDateTime;

use crate::traces::Traces;

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
}

/// The randomness of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsEntropy;

/// Bytes that a thread asks the system for at once. A request takes 12 for its id.
const BLOCK: usize = 1024;

thread_local! {
    /// Random bytes that no caller has got yet. Asking the system for the id of each request costs a
    /// hundredth of the time of an order.
    static UNUSED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Entropy for OsEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        if bytes.len() > BLOCK {
            return fill_from_system(bytes);
        }
        UNUSED.with_borrow_mut(|unused| {
            if unused.len() < bytes.len() {
                unused.resize(BLOCK, 0);
                fill_from_system(unused);
            }
            let rest = unused.len() - bytes.len();
            bytes.copy_from_slice(&unused[rest..]);
            // A secret stays only where its caller has it.
            unused[rest..].fill(0);
            unused.truncate(rest);
        });
    }
}

fn fill_from_system(bytes: &mut [u8]) {
    #[expect(clippy::disallowed_methods, reason = "this is the Entropy port's adapter")]
    let filled = getrandom::fill(bytes);
    #[expect(clippy::expect_used, reason = "without randomness the service cannot issue secrets")]
    filled.expect("the operating system provides randomness");
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
}

impl Default for Machine {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), entropy: Arc::new(OsEntropy), traces: None }
    }
}
