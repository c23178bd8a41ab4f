//! Holds the idempotency key of a request that takes long.

use std::time::Duration;

use domain::{
    idempotency::{Answered, Claim},
    ports::error_chain,
    use_cases::{intake::Intake, order_error::OrderError},
};
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

use crate::{respond::problem::Problem, state::State};

/// Interval at which a claim is extended: a third of its duration ([`Intake::CLAIM`]).
const EXTENSION_INTERVAL: Duration =
    Duration::from_secs(Intake::CLAIM.whole_seconds().unsigned_abs() / 3);

/// The claim of a request to its key. A task extends it until it is used, released or dropped;
/// dropping releases it in the background.
pub(crate) struct ClaimGuard {
    used: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl ClaimGuard {
    /// Claims the key of a request. If an earlier request under the key was answered, returns that
    /// answer instead of a guard.
    pub(crate) async fn acquire(
        api: &State,
        claim: &Claim,
    ) -> Result<(Option<Self>, Option<Answered>), Problem> {
        let intake = &api.create_order.intake;
        let (used, end) = oneshot::channel();
        // Created before the claim, so that the claim is released if the client disconnects now.
        let task = api.detached.spawn(keep(intake.clone(), claim.clone(), end));
        let mut guard = Some(Self { used, task });
        let claimed = intake.claim(claim).await;
        if matches!(claimed, Ok(Some(_)) | Err(OrderError::InProgress { .. })) {
            guard.take().into_iter().for_each(Self::used);
        }
        Ok((guard, claimed?))
    }

    /// Ends the guard without a release: an order uses the key, or another request has claimed it.
    pub(crate) fn used(self) {
        // The task ends only then.
        let _ = self.used.send(());
    }

    /// Releases the key, if there is one. When this returns, the next attempt can claim it.
    pub(crate) async fn release(guard: Option<Self>) {
        if let Some(Self { used, task }) = guard {
            drop(used);
            // The task logs its own failures.
            let _ = task.await;
        }
    }
}

/// Extends a claim until its guard ends, and releases it unless it is used. A claim that could not
/// be extended may end early, which is safe: the database ensures that a key creates one order.
async fn keep(intake: Intake, claim: Claim, mut end: oneshot::Receiver<()>) {
    let end = loop {
        match timeout(EXTENSION_INTERVAL, &mut end).await {
            Ok(end) => break end,
            Err(_) => {
                if let Err(error) = intake.claim(&claim).await {
                    tracing::debug!(
                        error = error_chain(&error),
                        "could not extend the claim of an idempotency key"
                    );
                }
            }
        }
    };
    if end.is_err()
        && let Err(error) = intake.idempotency.release(&claim).await
    {
        tracing::warn!(
            error = error_chain(&error),
            "could not release an idempotency key; its claim ends by itself soon"
        );
    }
}
