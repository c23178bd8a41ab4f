//! Threads, each with a connection of its own on which it runs transactions one after another.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread::{Builder, JoinHandle},
    time::Duration,
};

use crossbeam_channel::{Receiver, Sender, unbounded};
use diesel::{
    connection::{AnsiTransactionManager, TransactionManager},
    sql_query,
    sqlite::SqliteConnection,
};
use group_commit::{BatchObserver, Committer, Fit, Group};
use sql_rows::Prepared;
use tokio::{sync::oneshot, time::timeout};

use crate::{
    checkpoints::Checkpoints,
    database::{Access, Database, OpenError},
    failure::{Failure, SharedFailure},
};

/// Most writing calls that share a transaction.
const WRITES: usize = 64;

/// Most reading calls that share a transaction. Each waits for those before it.
const READS: usize = 16;

/// Time limit of a call, from joining the queue to the end of its transaction. Longer than SQLite
/// waits for a lock, so that the caller learns of the lock.
const TIMEOUT: Duration = Duration::from_secs(4);

/// The handle of the threads. Dropping it runs the remaining calls, closes the connections and ends
/// the threads.
pub(crate) struct Worker {
    group: Group<Box<dyn Call>>,
    leads: Option<Sender<Committer<Box<dyn Call>>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread that writes.
    pub(crate) fn writing(database: &Database) -> Result<Self, OpenError> {
        Self::start(database, Access::Write, 1, WRITES)
    }

    /// Starts threads that read at the same time.
    pub(crate) fn reading(database: &Database, threads: usize) -> Result<Self, OpenError> {
        Self::start(database, Access::Read, threads, READS)
    }

    fn start(
        database: &Database,
        access: Access,
        threads: usize,
        batch: usize,
    ) -> Result<Self, OpenError> {
        let (leads, queue) = unbounded();
        let thread = |_| {
            let connection = Some(database.connect(access)?);
            let checkpoints = match access {
                Access::Read => None,
                Access::Write => Some(Checkpoints::start(database).map_err(OpenError::Thread)?),
            };
            let database = database.clone();
            let mut session = Session { database, access, connection, checkpoints };
            let queue = queue.clone();
            Builder::new()
                .name(format!("sqlite {access:?}"))
                .spawn(move || session.work(&queue))
                .map_err(OpenError::Thread)
        };
        let group = Group::new(threads, batch);
        let threads = (0..threads).map(thread).collect::<Result<_, _>>()?;
        Ok(Self { group, leads: Some(leads), threads })
    }

    pub(crate) fn observe(&self, observer: BatchObserver) {
        self.group.observe(observer);
    }

    /// Returns the number of connections.
    pub(crate) fn connections(&self) -> usize {
        self.threads.len()
    }

    /// Returns how many calls wait for a transaction.
    pub(crate) fn waiting(&self) -> usize {
        self.group.waiting()
    }

    /// Runs `body` in a transaction, which it shares with the other calls that wait. `Err` rolls
    /// back what `body` did and nothing else. `Ok` is returned after the commit.
    pub(crate) async fn run<T, E>(
        &self,
        body: impl FnOnce(&mut SqliteConnection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Failure> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        if let Some(lead) =
            self.group.join(Box::new(Waiting { body: Some(body), outcome: None, reply }))
        {
            // The threads end after this handle is dropped.
            let _ = self.leads.as_ref().map(|leads| leads.send(lead));
        }
        timeout(TIMEOUT, answer).await.map_err(|_| Failure::TimedOut)?.map_err(|_| Failure::Lost)?
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.leads.take();
        for thread in self.threads.drain(..) {
            // The threads do not panic: they catch the panics of their calls.
            let _ = thread.join();
        }
    }
}

/// A call of a port.
trait Call: Send {
    /// Returns whether the caller still waits for the outcome.
    fn is_awaited(&self) -> bool;

    /// Does the work and returns whether to commit it.
    fn run(&mut self, connection: &mut SqliteConnection) -> bool;

    /// Sends the outcome, or the failure of the whole transaction, to the caller.
    fn reply(self: Box<Self>, failure: Option<&SharedFailure>);
}

struct Waiting<F, T, E> {
    body: Option<F>,
    outcome: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> Call for Waiting<F, T, E>
where
    F: FnOnce(&mut SqliteConnection) -> Result<T, E> + Send,
    T: Send,
    E: From<Failure> + Send,
{
    fn is_awaited(&self) -> bool {
        !self.reply.is_closed()
    }

    fn run(&mut self, connection: &mut SqliteConnection) -> bool {
        self.outcome = self.body.take().map(|body| body(connection));
        matches!(self.outcome, Some(Ok(_)))
    }

    fn reply(self: Box<Self>, failure: Option<&SharedFailure>) {
        let outcome = match (self.outcome, failure) {
            // The call's own error says more.
            (Some(Err(error)), _) => Err(error),
            (None, _) if self.body.is_none() => Err(Failure::Lost.into()),
            (_, Some(failure)) => Err(Failure::Shared(failure.clone()).into()),
            (Some(Ok(value)), None) => Ok(value),
            (None, None) => Err(Failure::Abandoned.into()),
        };
        // The caller may have stopped waiting.
        let _ = self.reply.send(outcome);
    }
}

/// The connection of the thread. Transactions begin and end here only.
struct Session {
    database: Database,
    access: Access,
    connection: Option<SqliteConnection>,
    /// Only of the thread that writes.
    checkpoints: Option<Checkpoints>,
}

impl Session {
    fn work(&mut self, queue: &Receiver<Committer<Box<dyn Call>>>) {
        for mut lead in queue {
            // Calls whose callers stopped waiting, such as behind a lock, are dropped.
            while let Some(batch) =
                lead.next(|_, call| if call.is_awaited() { Fit::Goes } else { Fit::Gone })
            {
                match self.access {
                    Access::Read => self.read(batch),
                    Access::Write => self.write(batch),
                }
            }
        }
    }

    /// Runs reading calls in one transaction, and replies to each at once: there is nothing to
    /// commit, and a call that fails changes nothing for the others.
    fn read(&mut self, batch: Vec<Box<dyn Call>>) {
        let mut calls = batch.into_iter();
        let read = |connection: &mut SqliteConnection| {
            AnsiTransactionManager::begin_transaction_sql(connection, Access::Read.begin())?;
            for mut call in calls.by_ref() {
                call.run(connection);
                call.reply(None);
            }
            AnsiTransactionManager::commit_transaction(connection).map_err(Failure::from)
        };
        // The panic hook has logged a panic. The caller of that call learns that it was lost.
        let done = catch_unwind(AssertUnwindSafe(|| self.with_connection(read)))
            .unwrap_or(Err(Failure::Abandoned));
        if let Err(failure) = done {
            let failure = SharedFailure::from(failure);
            calls.for_each(|call| call.reply(Some(&failure)));
        }
    }

    fn write(&mut self, mut batch: Vec<Box<dyn Call>>) {
        // The panic hook has logged a panic.
        let committed = catch_unwind(AssertUnwindSafe(|| self.commit(&mut batch)))
            .unwrap_or(Err(Failure::Abandoned));
        let failure = committed.err().map(SharedFailure::from);
        let committed = if failure.is_none() { batch.len() } else { 0 };
        for call in batch {
            call.reply(failure.as_ref());
        }
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.committed(committed);
        }
    }

    fn commit(&mut self, batch: &mut [Box<dyn Call>]) -> Result<(), Failure> {
        self.database.check_file()?;
        self.with_connection(|connection| transaction(connection, batch))
    }

    fn with_connection(
        &mut self,
        body: impl FnOnce(&mut SqliteConnection) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        // Taken out, so that a panic closes the connection, whose state is unknown then. The next
        // transaction opens a new one.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.database.reconnect(self.access)?,
        };
        let outcome = body(&mut connection);
        if !AnsiTransactionManager::is_broken_transaction_manager(&mut connection) {
            self.connection = Some(connection);
        }
        outcome
    }
}

fn transaction(
    connection: &mut SqliteConnection,
    batch: &mut [Box<dyn Call>],
) -> Result<(), Failure> {
    AnsiTransactionManager::begin_transaction_sql(connection, Access::Write.begin())?;
    let done = match batch {
        [call] => call.run(connection).then_some(()).ok_or(None),
        calls => calls
            .iter_mut()
            .try_for_each(|call| run_among_others(connection, &mut **call))
            .map_err(Some),
    };
    match done {
        Ok(()) => {
            AnsiTransactionManager::commit_transaction(connection).map_err(Failure::NotCommitted)
        }
        Err(failure) => {
            // SQLite rolls back by itself after some errors, such as a full disk. The first error
            // says more.
            let _ = AnsiTransactionManager::rollback_transaction(connection);
            failure.map_or(Ok(()), Err)
        }
    }
}

/// Runs a call so that it can be rolled back alone. Returns an error if the whole transaction
/// failed.
fn run_among_others(connection: &mut SqliteConnection, call: &mut dyn Call) -> Result<(), Failure> {
    let execute = |connection: &mut _, statement| Prepared(sql_query(statement)).run(connection);
    execute(connection, "SAVEPOINT call")?;
    let commit = call.run(connection);
    // After some errors, such as a full disk, there is no transaction any more.
    let undone = if commit { Ok(()) } else { execute(connection, "ROLLBACK TO call") };
    undone.and_then(|()| execute(connection, "RELEASE call")).map_err(|_| Failure::Abandoned)
}
