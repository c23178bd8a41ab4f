//! Holds the idempotency key of a request that takes long.

use std::time::Duration;

use domain::{
    idempotency::{Answered, Claim},
    orders::{create_order::CreateOrder, intake::Intake, order_error::OrderError},
    ports::error_chain,
};
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{respond::problem::Problem, state::State};

/// Interval at which a claim is extended: a third of its duration ([`Intake::CLAIM`]).
const EXTENSION_INTERVAL: Duration =
    Duration::from_secs(Intake::CLAIM.whole_seconds().unsigned_abs() / 3);

/// The claim of a request to its key. It is extended until it is used, released or dropped;
/// dropping releases it in the background.
pub(crate) struct ClaimGuard {
    api: State,
    claim: Claim,
    ended: CancellationToken,
    extending: Option<JoinHandle<()>>,
}

impl ClaimGuard {
    /// Claims the key of a request. If an earlier request under the key was answered, returns that
    /// answer instead of a guard.
    pub(crate) async fn acquire(
        api: &State,
        claim: &Claim,
    ) -> Result<(Option<Self>, Option<Answered>), Problem> {
        let ended = CancellationToken::new();
        let extending = extend(api.create_order.clone(), claim.clone(), ended.clone());
        let extending = Some(api.detached.spawn(extending));
        // Created before the claim, so that the claim is released if the client disconnects now.
        let mut guard = Some(Self { api: api.clone(), claim: claim.clone(), ended, extending });
        let claimed = api.create_order.intake.claim(claim).await;
        if matches!(claimed, Ok(Some(_)) | Err(OrderError::InProgress { .. })) {
            guard.take().into_iter().for_each(Self::used);
        }
        Ok((guard, claimed?))
    }

    /// Ends the guard without a release: an order uses the key, or another request has claimed it.
    pub(crate) fn used(mut self) {
        self.ended.cancel();
        self.extending = None;
    }

    /// Releases the key, if there is one. When this returns, the next attempt can claim it.
    pub(crate) async fn release(guard: Option<Self>) {
        if let Some(releasing) = guard.and_then(|mut guard| guard.start_release()) {
            // The task logs its own failures.
            let _ = releasing.await;
        }
    }

    fn start_release(&mut self) -> Option<JoinHandle<()>> {
        let extending = self.extending.take()?;
        self.ended.cancel();
        let (create_order, claim) = (self.api.create_order.clone(), self.claim.clone());
        Some(self.api.detached.spawn(async move {
            // An extension that is still running would claim the key again.
            let _ = extending.await;
            if let Err(error) = create_order.intake.idempotency.release(&claim).await {
                tracing::warn!(
                    error = error_chain(&error),
                    "could not release an idempotency key; its claim ends by itself soon"
                );
            }
        }))
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        self.start_release();
    }
}

/// Extends a claim. A claim that could not be extended may end early, which is safe: the database
/// ensures that a key creates one order.
async fn extend(create_order: CreateOrder, claim: Claim, ended: CancellationToken) {
    while timeout(EXTENSION_INTERVAL, ended.cancelled()).await.is_err() {
        if let Err(error) = create_order.intake.claim(&claim).await {
            tracing::debug!(
                error = error_chain(&error),
                "could not extend the claim of an idempotency key"
            );
        }
    }
}
