//! Use case: remove sessions and ceremonies that have ended.

use std::{sync::Arc, time::Duration};

use crate::{
    ports::{Clock, SessionRepo},
    use_cases::background::{Step, Worker},
};

/// Pause between two removals.
const PAUSE: Duration = Duration::from_secs(60);

/// Removes what has ended by itself.
pub struct ForgetSessions {
    /// Stores sessions.
    pub sessions: Arc<dyn SessionRepo>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

impl Worker for ForgetSessions {
    type Done = ();

    async fn step(&mut self) -> Step<()> {
        let result = match self.clock.now_to_erase() {
            Some(now) => self.sessions.remove_before(now).await,
            None => Ok(()),
        };
        Step { result, pause: PAUSE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        person::tests::NOW,
        ports::MockSessionRepo,
        test_support::{clock, doubtful_clock},
    };

    #[tokio::test]
    async fn sessions_are_removed_unless_the_clock_may_be_wrong() {
        let mut sessions = MockSessionRepo::new();
        sessions.expect_remove_before().once().withf(|at| *at == NOW).returning(|_| Ok(()));
        let mut worker = ForgetSessions { sessions: Arc::new(sessions), clock: clock(NOW) };
        assert!(worker.step().await.result.is_ok());
        worker.clock = doubtful_clock(NOW);
        assert!(worker.step().await.result.is_ok());
    }
}
