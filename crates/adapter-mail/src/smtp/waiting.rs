//! Slots for mails that wait for a slow relay.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, pending, select};
use tokio::{
    sync::{AcquireError, OwnedSemaphorePermit, Semaphore, watch},
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
    /// Whether the service stops. `None` if a step must not end early: the relay may have the mail.
    stopping: Option<watch::Sender<bool>>,
}

impl WaitingMails {
    /// Mails that find no slot keep their permit.
    pub(super) fn up_to(size: usize) -> Self {
        Self { size, free: Arc::new(Semaphore::new(size)), stopping: None }
    }

    /// Mails that find no slot fail, and so do those that wait when the service stops. The relay knows nothing of
    /// them, so they are tried again later.
    pub(super) fn given_up_above(size: usize) -> Self {
        Self { stopping: Some(watch::Sender::new(false)), ..Self::up_to(size) }
    }

    /// Ends the steps that wait, now and from now on, if they may end early.
    pub(super) fn stop(&self) {
        if let Some(stopping) = &self.stopping {
            stopping.send_replace(true);
        }
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
        match Arc::clone(&self.free).try_acquire_owned() {
            Ok(slot) => *permit = Ok(slot),
            Err(_) if self.stopping.is_some() => return Err(Failure::Timeout),
            Err(_) => {}
        }
        let done = timeout(limit.saturating_sub(patience), step);
        match select(pin!(done), pin!(self.stopped())).await {
            Either::Left((done, _)) => done.unwrap_or(Err(Failure::Timeout)),
            Either::Right(((), _)) => Err(Failure::Stopping),
        }
    }

    /// Completes when waiting steps must end; never, if they must not.
    async fn stopped(&self) {
        match &self.stopping {
            Some(stopping) => {
                // The sender is not dropped before.
                let _ = stopping.subscribe().wait_for(|stops| *stops).await;
            }
            None => pending().await,
        }
    }
}
