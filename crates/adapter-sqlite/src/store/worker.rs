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
    database::{Database, Mode, OpenError},
    failure::Failure,
};

/// Most writing calls that share a transaction.
const MAX_WRITES: usize = 64;

/// The handle of the threads. Dropping it runs the remaining calls, closes the connections and ends
/// the threads.
pub(crate) struct Worker {
    calls: Option<Sender<Call>>,
    threads: Vec<JoinHandle<()>>,
    /// Of a call; `None` waits without a limit.
    limit: Option<Duration>,
    observer: Arc<OnceLock<BatchObserver>>,
}

impl Worker {
    /// Starts threads. One that reads runs one call at a time. The one that writes commits all calls
    /// that wait together, so that they share the wait for the disk.
    pub(crate) fn start(
        database: &Database,
        mode: Mode,
        threads: usize,
    ) -> Result<Self, OpenError> {
        let (calls, queue) = unbounded();
        let observer = Arc::new(OnceLock::new());
        let start = |_| {
            let mut session = Session {
                database: database.clone(),
                mode,
                connection: database.connect(mode)?,
                tried_log: 0,
                observer: Arc::clone(&observer),
            };
            let queue = queue.clone();
            Builder::new()
                .name(format!("sqlite {mode:?}"))
                .spawn(move || session.work(&queue))
                .map_err(OpenError::Thread)
        };
        let threads = (0..threads).map(start).collect::<Result<_, _>>()?;
        let limit = database.limits.map(|limits| limits.call);
        Ok(Self { calls: Some(calls), threads, limit, observer })
    }

    /// Reports the number of calls of each transaction. There is one observer; a second one is
    /// ignored.
    pub(crate) fn observe(&self, observer: BatchObserver) {
        let _ = self.observer.set(observer);
    }

    /// Returns how many calls wait for a transaction.
    pub(crate) fn waiting(&self) -> usize {
        self.calls.as_ref().map_or(0, Sender::len)
    }

    /// Runs `body` in a transaction. `Err` rolls back what `body` did, and nothing of other calls.
    /// `Ok` is returned after the commit.
    pub(crate) async fn run<T: Send + 'static, E: From<Failure> + Send + 'static>(
        &self,
        body: impl FnOnce(&mut SqliteConnection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let Some(limit) = self.limit else { return self.maintain(body).await };
        timeout(limit, self.maintain(body)).await.map_err(|_| Failure::TimedOut)?
    }

    /// Runs `body` like [`Self::run`], without a time limit.
    pub(crate) async fn maintain<T: Send + 'static, E: From<Failure> + Send + 'static>(
        &self,
        body: impl FnOnce(&mut SqliteConnection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let (keep, mut outcome) = oneshot::channel();
        let (ended, end) = oneshot::channel();
        let run = move |connection: &mut SqliteConnection| {
            // The panic hook has logged a panic.
            let ran = catch_unwind(AssertUnwindSafe(|| body(connection)));
            let outcome = ran.unwrap_or_else(|_| Err(Failure::Lost.into()));
            let is_ok = outcome.is_ok();
            // The caller may have stopped waiting.
            let _ = keep.send(outcome);
            is_ok
        };
        if let Some(calls) = &self.calls {
            // The threads end after this handle is dropped.
            let _ = calls.send(Call { run: Box::new(run), ended });
        }
        let committed = end.await.map_err(|_| Failure::Lost)?;
        match (outcome.try_recv(), committed) {
            // The call's own error says more.
            (Ok(Err(error)), _) => Err(error),
            (_, Err(failure)) => Err(Failure::Shared(failure).into()),
            (outcome, Ok(())) => outcome.unwrap_or_else(|_| Err(Failure::Lost.into())),
        }
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

/// Does the work of a call, keeps its outcome, and returns whether to commit it.
type Run = Box<dyn FnOnce(&mut SqliteConnection) -> bool + Send>;

/// Gets the outcome of the whole transaction.
type Ended = oneshot::Sender<Result<(), Arc<Failure>>>;

/// A call of a port.
struct Call {
    run: Run,
    ended: Ended,
}

/// The connection of a thread. Transactions begin and end here only.
struct Session {
    database: Database,
    mode: Mode,
    connection: SqliteConnection,
    /// See [`Database::begin_log_anew`].
    tried_log: u64,
    observer: Arc<OnceLock<BatchObserver>>,
}

impl Session {
    fn work(&mut self, queue: &Receiver<Call>) {
        let others = match self.mode {
            Mode::Read => 0,
            Mode::Write => MAX_WRITES - 1,
        };
        while let Ok(first) = queue.recv() {
            let calls = iter::once(first).chain(queue.try_iter().take(others));
            // Calls whose callers stopped waiting, such as behind a lock, are dropped.
            let awaited = calls.filter(|call| !call.ended.is_closed());
            let (batch, ends): (Vec<_>, Vec<_>) =
                awaited.map(|call| (call.run, call.ended)).unzip();
            if batch.is_empty() {
                continue;
            }
            if let Some(observer) = self.observer.get() {
                observer(batch.len());
            }
            let committed = self.commit(batch, &ends).map_err(Arc::new);
            for end in ends {
                let _ = end.send(committed.clone());
            }
            if self.mode == Mode::Write {
                self.database.begin_log_anew(&mut self.connection, &mut self.tried_log);
            }
        }
    }

    /// Runs the calls in a transaction. `ends` are theirs.
    fn commit(&mut self, batch: Vec<Run>, ends: &[Ended]) -> Result<(), Failure> {
        if self.mode == Mode::Write {
            self.database.check_file()?;
        }
        if AnsiTransactionManager::is_broken_transaction_manager(&mut self.connection) {
            self.connection = self.database.reconnect(self.mode)?;
        }
        let connection = &mut self.connection;
        AnsiTransactionManager::begin_transaction_sql(connection, self.mode.begin())?;
        // The lock of another process may have taken longer than callers wait. They have answered that nothing
        // was stored.
        let mut awaited = batch.into_iter().zip(ends).filter(|(_, end)| !end.is_closed());
        match awaited.try_for_each(|(run, _)| run_alone(connection, run)) {
            Ok(()) => AnsiTransactionManager::commit_transaction(connection)
                .map_err(Failure::NotCommitted),
            Err(failure) => {
                // SQLite rolls back by itself after some errors, such as a full disk. The first
                // error says more.
                let _ = AnsiTransactionManager::rollback_transaction(connection);
                Err(failure)
            }
        }
    }
}

/// Runs a call so that it can be rolled back alone. Returns an error if the whole transaction
/// failed.
fn run_alone(connection: &mut SqliteConnection, run: Run) -> Result<(), Failure> {
    connection.batch_execute("SAVEPOINT call")?;
    let end = if run(connection) { "RELEASE call" } else { "ROLLBACK TO call; RELEASE call" };
    // After some errors, such as a full disk, there is no transaction any more.
    connection.batch_execute(end).map_err(|_| Failure::Abandoned)
}
