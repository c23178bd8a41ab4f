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
    order::Retained,
    ports::StoreError,
    use_cases::{
        accesses::recorder::ActorAccesses,
        background::{Step, Worker},
        erase_orders::Erasure,
        upkeep::erase_old_orders::{EraseOldOrders, START_PAUSE},
    },
};
use operator::retention::erase_orders;
use telemetry::WorkerMetrics;

use super::{
    remains::ErasureRemains,
    row::{LeavesAccesses, Row},
};
use crate::{outages::DATABASE, wiring::Parts};

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

/// Returns the workers of the settings.
pub(super) fn rows(
    parts: &Parts,
    metrics: &WorkerMetrics,
    leaves_accesses: &LeavesAccesses,
) -> Result<Vec<Row>> {
    let (admin, clock) = (&parts.storage.admin, &parts.machine.clock);
    let retention = parts.settings.retention();
    let has_erased = Arc::new(AtomicBool::new(false));
    let mut rows = Vec::new();
    let ages = [(Retained::Documents, retention.documents), (Retained::Orders, retention.orders)];
    let kinds: Vec<_> = ages
        .into_iter()
        .filter(|(_, age)| age.is_some())
        .map(|(what, _)| {
            let accesses = ActorAccesses { recorder: parts.accesses.clone(), actor: actor(what) };
            let blobs = parts.blobs.clone();
            (what, erase_orders(&parts.storage, blobs, clock.clone(), Some(accesses)))
        })
        .collect();
    if !kinds.is_empty() {
        let (metrics, has_erased) = (metrics.clone(), has_erased.clone());
        let leaves_accesses = leaves_accesses.clone();
        rows.push(
            Row::new(
                "old orders could not be erased",
                DATABASE,
                EraseOldOrders::new(retention, kinds, START_PAUSE),
                move |erased: Option<(Retained, Erasure)>| {
                    // The worker drops it at its end.
                    let _leaves = &leaves_accesses;
                    if let Some((what, erasure)) = erased {
                        has_erased.fetch_or(erasure.orders > 0, Ordering::Relaxed);
                        metrics.erased(what, &erasure);
                    }
                },
            )
            .after(&parts.messages.may_leave),
        );
    }
    if retention.orders.is_some() {
        let remains = ErasureRemains::of(&parts.settings, admin.clone(), clock.clone())?;
        rows.push(Row::new(
            "mails of erased orders could not be removed",
            "what erasures leave",
            RemoveRemains { remains, has_erased },
            drop,
        ));
    }
    Ok(rows)
}

/// Removes what erasures leave outside of the database.
struct RemoveRemains {
    remains: ErasureRemains,
    /// Whether a worker has erased orders since the last step.
    has_erased: Arc<AtomicBool>,
}

impl Worker for RemoveRemains {
    type Done = ();

    async fn step(&mut self) -> Step<()> {
        let has_erased = self.has_erased.swap(false, Ordering::Relaxed);
        let removed = self.remains.remove(has_erased).await;
        let result = removed.map_err(|error| StoreError::Unavailable(error.into()));
        Step { result, pause: REMAINS_PAUSE }
    }
}
