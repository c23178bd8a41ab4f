//! Shares one statement among calls of one kind that wait at the same time.

use diesel_async::AsyncPgConnection;
use futures_util::future::BoxFuture;
use group_commit::{BatchObserver, Fit, Group, Lead};
use tokio::{sync::oneshot, task::yield_now, time::timeout};

use crate::{
    failure::{Failure, Shared},
    pool::{CALL_TIMEOUT, Pool},
};

/// Maximum number of calls in one statement. At 64 the commit is a small part of an order's cost.
const BATCH: usize = 64;

/// A call that can share a statement with others of its kind.
pub(crate) trait Work: Sized + Send + 'static {
    /// The outcome of a call that succeeded.
    type Done: Send + 'static;
    /// The outcome of a call that was rejected or failed.
    type Error: From<Shared> + Send + 'static;

    /// Returns whether both calls fit into one statement. Most kinds of calls always do.
    fn fits_with(&self, _other: &Self) -> bool {
        true
    }

    /// Runs a batch and replies to each call. An error means that the connection may be broken.
    fn commit(
        connection: &mut AsyncPgConnection,
        batch: Vec<Waiting<Self>>,
    ) -> BoxFuture<'_, Result<(), Shared>>;
}

/// A call that waits for its outcome.
pub(crate) struct Waiting<W: Work> {
    pub(crate) work: W,
    sender: oneshot::Sender<Result<W::Done, W::Error>>,
}

impl<W: Work> Waiting<W> {
    pub(crate) fn reply(self, outcome: Result<W::Done, W::Error>) {
        // The caller may have given up; then the outcome is dropped.
        let _ = self.sender.send(outcome);
    }

    fn fit(batch: &[Self], waiting: &Self) -> Fit {
        if waiting.sender.is_closed() {
            Fit::Gone
        } else if batch.iter().all(|other| other.work.fits_with(&waiting.work)) {
            Fit::Goes
        } else {
            Fit::Waits
        }
    }
}

/// Runs calls of one kind in batches.
pub(crate) struct Batches<W: Work> {
    group: Group<Waiting<W>>,
    pool: Pool,
}

impl<W: Work> Batches<W> {
    /// Works on at most `leads` batches at the same time.
    pub(crate) fn new(pool: Pool, leads: usize) -> Self {
        Self { group: Group::new(leads, BATCH), pool }
    }

    pub(crate) fn observe(&self, observer: BatchObserver) {
        self.group.observe(observer);
    }

    pub(crate) async fn run(&self, work: W) -> Result<W::Done, W::Error> {
        let (sender, receiver) = oneshot::channel();
        if let Some(lead) = self.group.join(Waiting { work, sender }) {
            self.pool.spawn(commit_all(self.pool.clone(), lead));
        }
        match timeout(CALL_TIMEOUT, receiver).await {
            Ok(Ok(outcome)) => outcome,
            // The batch was dropped without a reply because its own time was over.
            Ok(Err(_)) | Err(_) => Err(Shared::from(Failure::Timeout).into()),
        }
    }
}

/// Commits batch after batch until no call waits.
async fn commit_all<W: Work>(pool: Pool, mut lead: Lead<Waiting<W>>) {
    loop {
        match pool.acquire().await {
            Ok(connection) => {
                let Some(batch) = lead.next(Waiting::fit) else { return };
                let size = batch.len();
                // Each call has its reply, or learns of the failure because its sender is dropped.
                let _ = connection.run(|connection| W::commit(connection, batch)).await;
                // Requests that have arrived join the next batch. It goes at once if at least as many
                // calls wait as the last one had.
                if lead.waiting() < size {
                    yield_now().await;
                }
            }
            Err(failure) => {
                let failure = Shared::from(failure);
                return lead
                    .give_up()
                    .for_each(|waiting| waiting.reply(Err(failure.clone().into())));
            }
        }
    }
}
