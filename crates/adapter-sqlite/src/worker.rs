//! Threads, each with a connection of its own, that run the calls of the ports in transactions.

use std::{
    iter,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
    thread::{Builder, JoinHandle},
    time::Duration,
};

use crossbeam_channel::{Receiver, Sender, unbounded};
use diesel::{
    connection::{AnsiTransactionManager, SimpleConnection as _, TransactionManager},
    sqlite::SqliteConnection,
};
use sql_rows::BatchObserver;
use tokio::{sync::oneshot, time::timeout};

use crate::{
    database::{Access, Database, OpenError},
    failure::Failure,
};

/// Most writing calls that share a transaction.
const MAX_WRITES: usize = 64;

/// Time limit of a call, from joining the queue to the end of its transaction. Longer than SQLite
/// waits for a lock, so that the caller learns of the lock.
const TIMEOUT: Duration = Duration::from_secs(4);

/// The handle of the threads. Dropping it runs the remaining calls, closes the connections and ends
/// the threads.
pub(crate) struct Worker {
    calls: Option<Sender<Box<dyn Call>>>,
    threads: Vec<JoinHandle<()>>,
    is_patient: bool,
    observer: Arc<OnceLock<BatchObserver>>,
}

impl Worker {
    /// Starts threads. One that reads runs one call at a time. The one that writes commits all calls
    /// that wait together, so that they share the wait for the disk.
    pub(crate) fn start(
        database: &Database,
        access: Access,
        threads: usize,
    ) -> Result<Self, OpenError> {
        let (calls, queue) = unbounded();
        let observer = Arc::new(OnceLock::new());
        let start = |_| {
            let mut session = Session {
                database: database.clone(),
                access,
                connection: Some(database.connect(access)?),
                tried_log: 0,
                observer: Arc::clone(&observer),
            };
            let queue = queue.clone();
            Builder::new()
                .name(format!("sqlite {access:?}"))
                .spawn(move || session.work(&queue))
                .map_err(OpenError::Thread)
        };
        let threads = (0..threads).map(start).collect::<Result<_, _>>()?;
        Ok(Self { calls: Some(calls), threads, is_patient: database.is_patient, observer })
    }

    /// Reports the number of calls of each transaction. There is one observer; a second one is
    /// ignored.
    pub(crate) fn observe(&self, observer: BatchObserver) {
        let _ = self.observer.set(observer);
    }

    /// Returns the number of connections.
    pub(crate) fn connections(&self) -> usize {
        self.threads.len()
    }

    /// Returns how many calls wait for a transaction.
    pub(crate) fn waiting(&self) -> usize {
        self.calls.as_ref().map_or(0, Sender::len)
    }

    /// Runs `body` in a transaction. `Err` rolls back what `body` did, and nothing of other calls.
    /// `Ok` is returned after the commit.
    pub(crate) async fn run<T, E>(
        &self,
        body: impl FnOnce(&mut SqliteConnection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Failure> + Send + 'static,
    {
        if self.is_patient {
            return self.maintain(body).await;
        }
        timeout(TIMEOUT, self.maintain(body)).await.map_err(|_| Failure::TimedOut)?
    }

    /// Runs `body` like [`Self::run`], without a time limit.
    pub(crate) async fn maintain<T, E>(
        &self,
        body: impl FnOnce(&mut SqliteConnection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Failure> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        if let Some(calls) = &self.calls {
            // The threads end after this handle is dropped.
            let _ = calls.send(Box::new(Waiting { body: Some(body), outcome: None, reply }));
        }
        answer.await.map_err(|_| Failure::Lost)?
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.calls.take();
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
    fn reply(self: Box<Self>, failure: Option<&Arc<Failure>>);
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

    fn reply(self: Box<Self>, failure: Option<&Arc<Failure>>) {
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

/// The connection of a thread. Transactions begin and end here only.
struct Session {
    database: Database,
    access: Access,
    connection: Option<SqliteConnection>,
    /// See [`Database::begin_log_anew`].
    tried_log: u64,
    observer: Arc<OnceLock<BatchObserver>>,
}

impl Session {
    fn work(&mut self, queue: &Receiver<Box<dyn Call>>) {
        let others = match self.access {
            Access::Read => 0,
            Access::Write => MAX_WRITES - 1,
        };
        while let Ok(first) = queue.recv() {
            let calls = iter::once(first).chain(queue.try_iter().take(others));
            // Calls whose callers stopped waiting, such as behind a lock, are dropped.
            let mut batch: Vec<_> = calls.filter(|call| call.is_awaited()).collect();
            if batch.is_empty() {
                continue;
            }
            if let Some(observer) = self.observer.get() {
                observer(batch.len());
            }
            // The panic hook has logged a panic.
            let committed = catch_unwind(AssertUnwindSafe(|| self.commit(&mut batch)))
                .unwrap_or(Err(Failure::Abandoned));
            let failure = committed.err().map(Arc::new);
            for call in batch {
                call.reply(failure.as_ref());
            }
            if let (Access::Write, Some(connection)) = (self.access, &mut self.connection) {
                self.database.begin_log_anew(connection, &mut self.tried_log);
            }
        }
    }

    fn commit(&mut self, batch: &mut [Box<dyn Call>]) -> Result<(), Failure> {
        if self.access == Access::Write {
            self.database.check_file()?;
        }
        // Taken out, so that a panic closes the connection, whose state is unknown then. The next
        // transaction opens a new one.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.database.reconnect(self.access)?,
        };
        let outcome = transaction(&mut connection, self.access, batch);
        if !AnsiTransactionManager::is_broken_transaction_manager(&mut connection) {
            self.connection = Some(connection);
        }
        outcome
    }
}

fn transaction(
    connection: &mut SqliteConnection,
    access: Access,
    batch: &mut [Box<dyn Call>],
) -> Result<(), Failure> {
    AnsiTransactionManager::begin_transaction_sql(connection, access.begin())?;
    match batch.iter_mut().try_for_each(|call| run_alone(connection, &mut **call)) {
        Ok(()) => {
            AnsiTransactionManager::commit_transaction(connection).map_err(Failure::NotCommitted)
        }
        Err(failure) => {
            // SQLite rolls back by itself after some errors, such as a full disk. The first error
            // says more.
            let _ = AnsiTransactionManager::rollback_transaction(connection);
            Err(failure)
        }
    }
}

/// Runs a call so that it can be rolled back alone. Returns an error if the whole transaction
/// failed.
fn run_alone(connection: &mut SqliteConnection, call: &mut dyn Call) -> Result<(), Failure> {
    connection.batch_execute("SAVEPOINT call")?;
    let end = if call.run(connection) { "RELEASE call" } else { "ROLLBACK TO call; RELEASE call" };
    // After some errors, such as a full disk, there is no transaction any more.
    connection.batch_execute(end).map_err(|_| Failure::Abandoned)
}
