//! A thread that owns a connection and runs transactions on it one after another.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread::{Builder, JoinHandle},
    time::Duration,
};

use diesel::{
    connection::{AnsiTransactionManager, TransactionManager},
    sqlite::SqliteConnection,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::{
    OpenError,
    database::{Access, Database},
    failure::Failure,
};

/// Transactions that wait for the thread before callers wait to hand theirs over.
const QUEUE: usize = 64;

/// How long a caller waits, for its turn and for its transaction. Longer than SQLite waits for a lock, so that one that
/// meets a lock learns of it; those behind it do not wait as long each.
const PATIENCE: Duration = Duration::from_secs(4);

type Job = Box<dyn FnOnce(&mut Session) + Send>;

/// The thread. Dropped, it finishes what was handed over, closes its connection and ends.
pub(crate) struct Worker {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(crate) fn start(database: Database, access: Access) -> Result<Self, OpenError> {
        let connection = Some(database.connect(access)?);
        let mut session = Session { database, access, connection };
        let (jobs, mut queue) = mpsc::channel::<Job>(QUEUE);
        let work = move || {
            while let Some(job) = queue.blocking_recv() {
                // The panic hook has told of a panic, and who waits for the job learns of it because its reply is dropped.
                let _ = catch_unwind(AssertUnwindSafe(|| job(&mut session)));
            }
        };
        let thread = Builder::new().name(format!("sqlite {access:?}")).spawn(work).map_err(OpenError::Thread)?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Runs `body` in a transaction of its own: committed when it answers `Ok`, rolled back when `Err`.
    pub(crate) async fn run<T, E>(&self, body: impl FnOnce(&mut SqliteConnection) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Failure> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = move |session: &mut Session| {
            // Work that piled up behind a lock is not done for callers that have given up waiting.
            if !reply.is_closed() {
                let _ = reply.send(session.transaction(body));
            }
        };
        let jobs = self.jobs.as_ref().ok_or(Failure::Lost)?;
        let answered = async {
            jobs.send(Box::new(job)).await.map_err(|_| Failure::Lost)?;
            answer.await.map_err(|_| Failure::Lost)
        };
        timeout(PATIENCE, answered).await.map_err(|_| Failure::Late)??
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs.take();
        if let Some(thread) = self.thread.take() {
            // It cannot have panicked: it catches what its jobs throw.
            let _ = thread.join();
        }
    }
}

/// What the thread works with. Transactions begin and end here only, so that several waiting ones can become one.
struct Session {
    database: Database,
    access: Access,
    connection: Option<SqliteConnection>,
}

impl Session {
    fn transaction<T, E: From<Failure>>(&mut self, body: impl FnOnce(&mut SqliteConnection) -> Result<T, E>) -> Result<T, E> {
        if self.access == Access::Write {
            self.database.check_place()?;
        }
        // Taken out, so that a connection whose state is in doubt after a panic is closed, and the next transaction has
        // a new one.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.database.reconnect(self.access)?,
        };
        let outcome = transaction(&mut connection, self.access, body);
        if !AnsiTransactionManager::is_broken_transaction_manager(&mut connection) {
            self.connection = Some(connection);
        }
        outcome
    }
}

fn transaction<T, E: From<Failure>>(
    connection: &mut SqliteConnection,
    access: Access,
    body: impl FnOnce(&mut SqliteConnection) -> Result<T, E>,
) -> Result<T, E> {
    AnsiTransactionManager::begin_transaction_sql(connection, access.begin()).map_err(Failure::from)?;
    match body(connection) {
        Ok(value) => AnsiTransactionManager::commit_transaction(connection).map(|()| value).map_err(|error| Failure::from(error).into()),
        Err(error) => {
            // SQLite has rolled back by itself after some errors, such as a full disk; the first error says more.
            let _ = AnsiTransactionManager::rollback_transaction(connection);
            Err(error)
        }
    }
}
