//! The workers that erase what the operator keeps no longer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use domain::{
    access::AccessActor,
    ports::{Retained, StoreError},
    use_cases::{
        accesses::recorder::ActorAccesses,
        background::Step,
        upkeep::erase_old_orders::{CountWaiting, EraseOldOrders},
    },
};
use operator::retention::{ErasureRemains, erase_orders};
use telemetry::WorkerMetrics;
use tokio_util::sync::CancellationToken;

use crate::{
    outages::{DATABASE, Outages},
    wiring::Parts,
    workers::{Fallible, LeavesAccesses, Tasks, repeat},
};

/// Pause between two looks at what erasures leave.
const REMAINS_PAUSE: Duration = Duration::from_secs(60);

/// Returns the operator whose setting erases.
fn actor(what: Retained) -> AccessActor {
    let command = match what {
        Retained::Orders => "serve --erase-after-days",
        Retained::Documents => "serve --erase-documents-after-days",
    };
    AccessActor::Operator { command: command.to_owned(), user: operator::system_user() }
}

/// Starts the workers. They end after `stop` is cancelled.
pub(crate) fn spawn(
    parts: &Parts,
    metrics: &WorkerMetrics,
    outages: &Arc<Outages>,
    stop: &CancellationToken,
    leaves_accesses: &LeavesAccesses,
    tasks: &mut Tasks,
) -> Result<()> {
    let of = |dependency| Fallible { outages: outages.clone(), dependency };
    let (admin, clock) = (&parts.storage.admin, &parts.machine.clock);
    let retention = parts.settings.retention();
    let count = CountWaiting { retention, admin: admin.clone(), clock: clock.clone() };
    let (count, waiting) = (async move || count.step().await, metrics.clone());
    let failure = "orders that wait for an erasure could not be counted";
    tasks.spawn(repeat(stop.clone(), count, of(DATABASE), failure, move |it| waiting.waiting(it)));
    let has_erased = Arc::new(AtomicBool::new(false));
    for (what, age) in
        [(Retained::Documents, retention.documents), (Retained::Orders, retention.orders)]
    {
        if age.is_none() {
            continue;
        }
        let accesses = ActorAccesses { recorder: parts.accesses.clone(), actor: actor(what) };
        let blobs = parts.blobs.clone();
        let erase = erase_orders(&parts.storage, blobs, clock.clone(), Some(accesses));
        let erase = EraseOldOrders { what, retention, erase };
        let (erase, metrics) = (async move || erase.step().await, metrics.clone());
        let has_erased = has_erased.clone();
        let failure = "old orders could not be erased";
        let leaves_accesses = leaves_accesses.clone();
        let erased = repeat(stop.clone(), erase, of(DATABASE), failure, move |erasure| {
            has_erased.fetch_or(erasure.orders > 0, Ordering::Relaxed);
            metrics.erased(what, erasure);
        });
        tasks.spawn(async move {
            let result = erased.await;
            drop(leaves_accesses);
            result
        });
    }
    if retention.orders.is_some() {
        let mut remains = ErasureRemains::of(&parts.settings, admin.clone(), clock.clone())?;
        let remove = async move || {
            let removed = remains.remove(has_erased.swap(false, Ordering::Relaxed)).await;
            let result = removed.map_err(|error| StoreError::Unavailable(error.into()));
            Step { result, pause: REMAINS_PAUSE }
        };
        let failure = "mails of erased orders could not be removed";
        tasks.spawn(repeat(stop.clone(), remove, of("what erasures leave"), failure, drop));
    }
    Ok(())
}
