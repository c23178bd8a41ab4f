//! Stores the accesses of a run, to the last one.

use std::sync::Arc;

use domain::{
    ports::error_chain,
    use_cases::{
        accesses::keep_accesses::KeepAccesses,
        background::{Step, Worker as _},
        store_waiting::StoreWaiting,
    },
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::row::{LeavesAccesses, Row, Tasks};
use crate::{outages::Outages, wiring::Parts};

/// Starts the worker. It ends after what is returned, and its clones, are dropped.
pub(super) fn spawn(parts: &Parts, outages: &Arc<Outages>, tasks: &mut Tasks) -> LeavesAccesses {
    let keep =
        KeepAccesses { log: parts.storage.accesses.clone(), recorder: parts.accesses.clone() };
    let failure = "accesses to orders are not stored until the database answers";
    let all_have_left = CancellationToken::new();
    let stored = Row::storing(failure, keep.clone()).run(outages.clone(), all_have_left.clone());
    tasks.spawn(async move {
        stored.await?;
        keep.recorder.count_last_refused();
        // An answered request has its row, even if the database answers only now. The grace period of the stop
        // ends this.
        let mut last = StoreWaiting::new(keep.clone());
        while keep.recorder.waiting() > 0 {
            let Step { pause, .. } = last.step().await;
            sleep(pause).await;
        }
        if let Err(error) = keep.end().await {
            tracing::warn!(error = error_chain(&error), "the end of the accesses is not stored");
        }
        Ok(())
    });
    Arc::new(all_have_left.drop_guard())
}
