//! The connection pool. A call of a port holds a connection until it ends.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use diesel_async::{
    AsyncConnection as _, AsyncPgConnection,
    pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod, deadpool},
};
use futures_util::future::{BoxFuture, FutureExt as _};
use tokio::{
    runtime::Handle,
    sync::Semaphore,
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use crate::{
    connect::Server,
    failure::{BreaksConnection, Failure},
};

/// Time limit of a whole call: getting or making a connection, and the statement. A request makes
/// at least two calls, and the first meets a server that does not answer.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_millis(2_500);

/// Time limit for getting a connection. Shorter than [`CALL_TIMEOUT`]: a statement that started
/// late would be cut off, and its healthy connection closed, when connections are scarce.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);

/// The server ends a statement after this time (`connect::SETTINGS`). If it does not, it is gone.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(2);

/// The connection pool.
#[derive(Clone)]
pub(crate) struct Pool {
    server: Server,
    connections: deadpool::Pool<AsyncPgConnection>,
    /// The connections of this pool and of those [beside](Self::beside) it.
    all: Arc<Mutex<Vec<deadpool::Pool<AsyncPgConnection>>>>,
    /// Leaves connections to other calls while reads are slow.
    reads: Arc<Semaphore>,
    /// Runs calls and connections to their end. The runtimes of requests end earlier than that of
    /// the deliveries.
    runtime: Handle,
}

impl Pool {
    /// Makes an empty pool of up to `size` connections. Must be called within a runtime.
    pub(crate) fn new(server: Server, size: usize) -> Result<Self, deadpool::BuildError> {
        let connections = connections(server.clone(), size)?;
        Ok(Self {
            server,
            all: Arc::new(Mutex::new(vec![connections.clone()])),
            connections,
            reads: Arc::new(Semaphore::new((size / 2).max(1))),
            runtime: Handle::current(),
        })
    }

    /// Makes an empty pool for the calls of the current runtime.
    pub(crate) fn beside(&self, size: usize) -> Result<Self, deadpool::BuildError> {
        let connections = connections(self.server.clone(), size)?;
        self.all().push(connections.clone());
        Ok(Self { connections, runtime: Handle::current(), ..self.clone() })
    }

    fn all(&self) -> MutexGuard<'_, Vec<deadpool::Pool<AsyncPgConnection>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many connections of all pools are open.
    pub(crate) fn open(&self) -> usize {
        self.all().iter().map(|connections| connections.status().size).sum()
    }

    /// Returns how many calls wait for a connection of any pool.
    pub(crate) fn waiting(&self) -> usize {
        self.all().iter().map(|connections| connections.status().waiting).sum()
    }

    /// Runs `work` on a connection. Outside of a transaction, each statement is its own.
    pub(crate) async fn run<T, E>(
        &self,
        work: impl for<'c> FnOnce(&'c mut AsyncPgConnection) -> BoxFuture<'c, Result<T, E>>
        + Send
        + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Failure> + BreaksConnection + Send + 'static,
    {
        let pool = self.clone();
        self.spawn(async move { pool.acquire().await?.run(work).await })
            .await
            .map_err(|_| Failure::Lost)?
    }

    /// Runs a read like [`Self::run`]. Such reads use at most half of the connections.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl for<'c> FnOnce(&'c mut AsyncPgConnection) -> BoxFuture<'c, Result<T, Failure>>
        + Send
        + 'static,
    ) -> Result<T, Failure> {
        let (pool, began) = (self.clone(), Instant::now());
        let read = async move {
            let permit = timeout_at(began + ACQUIRE_TIMEOUT, pool.reads.acquire()).await;
            let _permit = permit.map_err(|_| Failure::Timeout)?;
            pool.acquire_since(began).await?.run(work).await
        };
        self.spawn(read).await.map_err(|_| Failure::Lost)?
    }

    /// Runs `work` in a transaction.
    pub(crate) async fn transaction<T: Send + 'static>(
        &self,
        work: impl for<'c> FnOnce(&'c mut AsyncPgConnection) -> BoxFuture<'c, Result<T, Failure>>
        + Send
        + 'static,
    ) -> Result<T, Failure> {
        self.run(|connection| {
            connection.transaction(async move |connection| work(connection).await).boxed()
        })
        .await
    }

    /// Runs a call to its end, even if its caller gives up.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.runtime.spawn(call)
    }

    /// Gets a connection for one call. The call must run in [`Self::spawn`].
    pub(crate) async fn acquire(&self) -> Result<PooledConnection<'_>, Failure> {
        self.acquire_since(Instant::now()).await
    }

    async fn acquire_since(&self, began: Instant) -> Result<PooledConnection<'_>, Failure> {
        let connection = timeout_at(began + ACQUIRE_TIMEOUT, self.connections.get()).await;
        let connection = connection.map_err(|_| Failure::Timeout)?.map_err(Failure::from)?;
        Ok(PooledConnection { connection, deadline: began + CALL_TIMEOUT, pool: self })
    }
}

/// Makes an empty pool of up to `size` connections. Each runs in the runtime that first needs it.
fn connections(
    server: Server,
    size: usize,
) -> Result<deadpool::Pool<AsyncPgConnection>, deadpool::BuildError> {
    let mut config = ManagerConfig::default();
    // Checking each connection before its use would cost a round trip.
    config.recycling_method = RecyclingMethod::Fast;
    config.custom_setup = Box::new(move |_| {
        let server = server.clone();
        async move {
            server.connect().await.map_err(|error| {
                diesel::ConnectionError::BadConnection(domain::ports::error_chain(&error))
            })
        }
        .boxed()
    });
    let manager = AsyncDieselConnectionManager::new_with_config(String::new(), config);
    deadpool::Pool::builder(manager).max_size(size).build()
}

/// A connection that one call holds.
pub(crate) struct PooledConnection<'p> {
    connection: deadpool::Object<AsyncPgConnection>,
    deadline: Instant,
    pool: &'p Pool,
}

impl PooledConnection<'_> {
    pub(crate) async fn run<T, E>(
        mut self,
        work: impl for<'c> FnOnce(&'c mut AsyncPgConnection) -> BoxFuture<'c, Result<T, E>>,
    ) -> Result<T, E>
    where
        E: From<Failure> + BreaksConnection,
    {
        let began = Instant::now();
        let ended =
            timeout_at(self.deadline, AssertUnwindSafe(work(&mut self.connection)).catch_unwind())
                .await;
        if ended.is_err() && began.elapsed() > STATEMENT_TIMEOUT {
            // The server is gone for all connections. Otherwise a call would time out on each.
            for connections in self.pool.all().iter() {
                connections.retain(|_, _| false);
            }
        }
        let outcome = ended
            .map_err(|_| Failure::Timeout.into())
            .and_then(|ended| ended.unwrap_or_else(|_| Err(Failure::Lost.into())));
        if outcome.as_ref().is_err_and(E::breaks_connection) {
            // An abandoned statement may still run on it.
            drop(deadpool::Object::take(self.connection));
        }
        outcome
    }
}
