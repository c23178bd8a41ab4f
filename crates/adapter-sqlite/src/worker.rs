//! A thread that owns a connection and runs transactions on it one after another.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    thread::{Builder, JoinHandle},
    time::Duration,
};

use diesel::{
    connection::{AnsiTransactionManager, SimpleConnection as _, TransactionManager},
    sqlite::SqliteConnection,
};
use group_commit::{Fit, Group, Lead, Shared};
use tokio::{sync::oneshot, time::timeout};

use crate::{
    OpenError,
    database::{Access, Database},
    failure::Failure,
};

/// Most calls that share a transaction.
const BATCH: usize = 64;

/// How long a caller waits, for its turn and for its transaction. Longer than SQLite waits for a
/// lock, so that one that meets a lock learns of it.
const PATIENCE: Duration = Duration::from_secs(4);

/// The thread. Dropped, it finishes what was handed over, closes its connection and ends.
pub(crate) struct Worker {
    group: Group<Box<dyn Call>>,
    leads: Option<mpsc::Sender<Lead<Box<dyn Call>>>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(crate) fn start(database: Database, access: Access) -> Result<Self, OpenError> {
        let connection = Some(database.connect(access)?);
        let mut session = Session { database, access, connection };
        let (leads, queue) = mpsc::channel::<Lead<Box<dyn Call>>>();
        let work = move || {
            for mut lead in queue {
                // Work that piled up behind a lock is not done for callers that have given up
                // waiting.
                while let Some(batch) =
                    lead.next(|_, call| if call.is_awaited() { Fit::Goes } else { Fit::Gone })
                {
                    session.run(batch);
                }
            }
        };
        let thread = Builder::new()
            .name(format!("sqlite {access:?}"))
            .spawn(work)
            .map_err(OpenError::Thread)?;
        Ok(Self { group: Group::new(1, BATCH), leads: Some(leads), thread: Some(thread) })
    }

    /// Runs `body` in a transaction, which it shares with others that wait at the same time: when
    /// it answers `Err`, what it did is rolled back, and nothing else. `Ok` is returned once it is
    /// committed.
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
            // The thread ends after this handle is dropped.
            let _ = self.leads.as_ref().map(|leads| leads.send(lead));
        }
        timeout(PATIENCE, answer).await.map_err(|_| Failure::Late)?.map_err(|_| Failure::Lost)?
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.leads.take();
        if let Some(thread) = self.thread.take() {
            // It cannot have panicked: it catches what its calls throw.
            let _ = thread.join();
        }
    }
}

/// A call of a port, in the steps of its transaction.
trait Call: Send {
    /// Whether somebody waits for the outcome.
    fn is_awaited(&self) -> bool;

    /// Does the work, and answers whether it is to be kept.
    fn run(&mut self, connection: &mut SqliteConnection) -> bool;

    /// Tells the outcome, or what failed the whole transaction.
    fn end(self: Box<Self>, failure: Option<&SharedFailure>);
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

    fn end(self: Box<Self>, failure: Option<&SharedFailure>) {
        let outcome = match (self.outcome, failure) {
            // What failed by itself knows better why.
            (Some(Err(error)), _) => Err(error),
            (None, _) if self.body.is_none() => Err(Failure::Lost.into()),
            (_, Some(failure)) => Err(Failure::Shared(failure.clone()).into()),
            (Some(Ok(value)), None) => Ok(value),
            (None, None) => Err(Failure::GivenUp.into()),
        };
        // Whoever is gone need not be told.
        let _ = self.reply.send(outcome);
    }
}

/// A failure that all calls of a transaction have met.
pub(crate) type SharedFailure = Shared<Box<Failure>>;

/// What the thread works with. Transactions begin and end here only.
struct Session {
    database: Database,
    access: Access,
    connection: Option<SqliteConnection>,
}

impl Session {
    fn run(&mut self, mut batch: Vec<Box<dyn Call>>) {
        // The panic hook has told of a panic.
        let committed = catch_unwind(AssertUnwindSafe(|| self.transaction(&mut batch)))
            .unwrap_or(Err(Failure::GivenUp));
        let failure = committed.err().map(|failure| SharedFailure::from(Box::new(failure)));
        for call in batch {
            call.end(failure.as_ref());
        }
    }

    fn transaction(&mut self, batch: &mut [Box<dyn Call>]) -> Result<(), Failure> {
        if self.access == Access::Write {
            self.database.check_create()?;
        }
        // Taken out, so that a connection whose state is in doubt after a panic is closed, and the
        // next transaction has a new one.
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
            // SQLite has rolled back by itself after some errors, such as a full disk; the first
            // error says more.
            let _ = AnsiTransactionManager::rollback_transaction(connection);
            failure.map_or(Ok(()), Err)
        }
    }
}

/// Runs a call so that what it did can be rolled back alone. An error is one of the whole
/// transaction.
fn run_among_others(connection: &mut SqliteConnection, call: &mut dyn Call) -> Result<(), Failure> {
    connection.batch_execute("SAVEPOINT call")?;
    let kept = call.run(connection);
    // After some errors, such as a full disk, there is no transaction any more.
    connection
        .batch_execute(if kept { "RELEASE call" } else { "ROLLBACK TO call; RELEASE call" })
        .map_err(|_| Failure::GivenUp)
}
