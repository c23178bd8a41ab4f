//! Makes the entries of folders durable. Calls that wait at the same time share a sync.

use std::{io, path::PathBuf, sync::Arc};

use domain::ports::StoreError;
use group_commit::{Fit, Group};
use tokio::sync::oneshot;

use crate::disk::{sync, unavailable};

/// Syncs at the same time: while one is in progress, the next can begin.
const LEADS: usize = 2;
/// Maximum number of calls that share a sync.
const BATCH: usize = 256;

/// Gets the outcome of a call.
pub(crate) struct Done(pub(crate) oneshot::Sender<Result<bool, StoreError>>);

impl Done {
    pub(crate) fn report(self, outcome: Result<bool, StoreError>) {
        // The caller may have gone.
        let _ = self.0.send(outcome);
    }
}

/// Calls that wait for the sync of a folder.
pub(crate) struct FolderSyncs(Group<Waiting>);

struct Waiting {
    folder: PathBuf,
    done: Done,
}

impl Default for FolderSyncs {
    fn default() -> Self {
        Self(Group::new(LEADS, BATCH))
    }
}

impl FolderSyncs {
    /// Reports `true` when the entries of a folder are durable. This thread may sync for other
    /// calls, too, or leave the sync to another thread.
    pub(crate) fn sync(&self, folder: PathBuf, done: Done) {
        let Some(mut lead) = self.0.join(Waiting { folder, done }) else { return };
        let same_folder = |batch: &[Waiting], waiting: &Waiting| match batch.first() {
            Some(first) if first.folder != waiting.folder => Fit::Waits,
            _ => Fit::Goes,
        };
        while let Some(batch) = lead.next(same_folder) {
            let synced =
                batch.first().map_or(Ok(()), |first| sync(&first.folder)).map_err(Arc::new);
            for Waiting { done, .. } in batch {
                done.report(match &synced {
                    Ok(()) => Ok(true),
                    Err(error) => Err(unavailable(io::Error::new(error.kind(), error.clone()))),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use super::*;

    #[test]
    fn every_call_learns_the_outcome_of_its_own_folder() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let (syncs, start) = (FolderSyncs::default(), Barrier::new(16));
        thread::scope(|scope| {
            for at in 0..16 {
                let exists = at % 3 > 0;
                let path = if exists { folder.path().to_owned() } else { missing.clone() };
                let (syncs, start) = (&syncs, &start);
                scope.spawn(move || {
                    let (done, outcome) = oneshot::channel();
                    start.wait();
                    syncs.sync(path, Done(done));
                    assert_eq!(outcome.blocking_recv().unwrap().is_ok(), exists);
                });
            }
        });
    }
}
