//! Work of one kind that waits at the same time and shares a statement.

use diesel_async::AsyncPgConnection;
use futures_util::future::BoxFuture;
use group_commit::{Fit, Group, Lead};
use tokio::{sync::oneshot, time::timeout};

use crate::{
    failure::{Failure, Shared},
    pool::{CALL_TIMEOUT, Pool},
};

/// Most work of one statement. More gains little: at 64 the commit is a small part of what an order
/// costs.
const BATCH: usize = 64;

/// Batches of a kind that are under way at a time: while the server works on one, the next is made
/// ready.
const LEADS: usize = 2;

/// What can share a statement with others of its kind.
pub(crate) trait Work: Sized + Send + 'static {
    /// What each is told when it was done.
    type Done: Send + 'static;
    /// Why it was not.
    type Refusal: From<Shared> + Send + 'static;

    /// Whether both can go into one statement.
    fn goes_with(&self, other: &Self) -> bool;

    /// Does the work of a batch and tells each its outcome. An error is one after which the
    /// connection may be in doubt.
    fn commit(
        connection: &mut AsyncPgConnection,
        batch: Vec<Waiting<Self>>,
    ) -> BoxFuture<'_, Result<(), Shared>>;
}

/// Work that waits, and who waits for it.
pub(crate) struct Waiting<W: Work> {
    pub(crate) work: W,
    reply: oneshot::Sender<Result<W::Done, W::Refusal>>,
}

impl<W: Work> Waiting<W> {
    pub(crate) fn tell(self, outcome: Result<W::Done, W::Refusal>) {
        // Whoever is gone need not be told.
        let _ = self.reply.send(outcome);
    }

    fn fit(going: &[Self], waiting: &Self) -> Fit {
        if waiting.reply.is_closed() {
            // Its caller has given up; it is not begun.
            Fit::Gone
        } else if going.iter().all(|other| other.work.goes_with(&waiting.work)) {
            Fit::Goes
        } else {
            Fit::Waits
        }
    }
}

/// Does work of one kind, what waits at the same time by one statement.
pub(crate) struct Batches<W: Work> {
    group: Group<Waiting<W>>,
    pool: Pool,
}

impl<W: Work> Batches<W> {
    pub(crate) fn on(pool: Pool) -> Self {
        Self { group: Group::new(LEADS, BATCH), pool }
    }

    pub(crate) async fn run(&self, work: W) -> Result<W::Done, W::Refusal> {
        let (reply, answer) = oneshot::channel();
        if let Some(lead) = self.group.join(Waiting { work, reply }) {
            self.pool.spawn(commit_all(self.pool.clone(), lead));
        }
        match timeout(CALL_TIMEOUT, answer).await {
            Ok(Ok(outcome)) => outcome,
            // The batch was given up, which it is when its time is over.
            Ok(Err(_)) | Err(_) => Err(Shared::from(Failure::Late).into()),
        }
    }
}

/// Commits batch after batch until nobody waits.
async fn commit_all<W: Work>(pool: Pool, mut lead: Lead<Waiting<W>>) {
    loop {
        match pool.lend().await {
            Ok(connection) => {
                let Some(batch) = lead.next(Waiting::fit) else { return };
                // Everybody has been told, or learns of it because the reply is dropped.
                let _ = connection.run(|connection| W::commit(connection, batch)).await;
            }
            Err(failure) => {
                let failure = Shared::from(failure);
                return lead
                    .give_up()
                    .for_each(|waiting| waiting.tell(Err(failure.clone().into())));
            }
        }
    }
}
