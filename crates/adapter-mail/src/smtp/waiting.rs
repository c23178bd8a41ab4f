//! Slots for mails that wait for a slow relay.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{AcquireError, OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::failure::Failure;

/// A permit for a connection, or the slot of a mail that waits. The semaphores are never closed.
pub(super) type Permit = Result<OwnedSemaphorePermit, AcquireError>;

/// The mails that wait for one kind of reply. They hold a slot of this kind instead of a permit for a
/// connection, so other mails pass them.
pub(super) struct WaitingMails {
    size: usize,
    free: Arc<Semaphore>,
}

impl WaitingMails {
    pub(super) fn up_to(size: usize) -> Self {
        Self { size, free: Arc::new(Semaphore::new(size)) }
    }

    /// Returns the number of mails that wait.
    pub(super) fn count(&self) -> usize {
        self.size - self.free.available_permits()
    }

    /// Does a step of a mail within a time limit. A step that takes longer than `patience` swaps its
    /// permit for a slot, if one is free.
    pub(super) async fn within<T>(
        &self,
        [patience, limit]: [Duration; 2],
        permit: &mut Permit,
        step: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut step = Box::pin(step);
        if let Ok(done) = timeout(patience, step.as_mut()).await {
            return done;
        }
        if let Ok(slot) = Arc::clone(&self.free).try_acquire_owned() {
            *permit = Ok(slot);
        }
        timeout(limit.saturating_sub(patience), step).await.unwrap_or(Err(Failure::Timeout))
    }
}
