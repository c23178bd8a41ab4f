//! The connection pool. A call of a port holds a connection until it ends.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use diesel_async::{
    AnsiTransactionManager, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _,
    TransactionManager as _,
    methods::{ExecuteDsl, LoadQuery},
    pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod, deadpool},
};
use domain::api_key::Party;
use futures_util::{FutureExt as _, TryFutureExt as _};
use permits::{Permits, Share};
use scopeguard::ScopeGuard;
use sql_rows::Unreadable;
use tokio::{
    runtime::Handle,
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};

use crate::{
    TimeLimits,
    connect::{ConnectError, Server},
    failure::Failure,
    statement::Prepared,
};

/// Attempts at a change that conflicts with other transactions.
const CHANGE_ATTEMPTS: usize = 3;

/// The connection pool.
#[derive(Clone)]
pub(crate) struct Pool {
    pub(crate) connections: deadpool::Pool<AsyncPgConnection>,
    server: Server,
    /// Leaves connections to other calls while reads are slow.
    pub(crate) reads: Arc<Permits>,
    /// Leaves connections to other calls, and to changes of other clients, while other systems lock orders.
    pub(crate) changes: Arc<Permits>,
    /// Runs connections and batches to their end. The runtimes of requests end earlier than that of
    /// the deliveries.
    pub(crate) runtime: Handle,
    pub(crate) limits: TimeLimits,
}

impl Pool {
    /// Makes an empty pool of up to `size` connections. Must be called within a runtime.
    pub(crate) fn new(server: Server, size: usize) -> Result<Self, deadpool::BuildError> {
        let (runtime, limits) = (Handle::current(), server.limits);
        let (reads, changes) = ((size / 2).max(1), (size / 4).max(1));
        // As many as leave a place to others: a client that changes much is held up little by its share.
        let of_client = (changes - changes.div_ceil(4)).max(1);
        let mut config = ManagerConfig::default();
        // Checking each connection before its use would cost a round trip.
        config.recycling_method = RecyclingMethod::Fast;
        let (within, other) = (runtime.clone(), server.clone());
        config.custom_setup = Box::new(move |_| {
            let (server, runtime) = (other.clone(), within.clone());
            async move {
                // Ends with the call that waits for it.
                let mut connecting = JoinSet::new();
                connecting.spawn_on(async move { server.connect().await }, &runtime);
                let connected = connecting.join_next().await.and_then(Result::ok);
                connected.unwrap_or(Err(ConnectError::Timeout)).map_err(|error| {
                    diesel::ConnectionError::BadConnection(domain::ports::error_chain(&error))
                })
            }
            .boxed()
        });
        let manager = AsyncDieselConnectionManager::new_with_config(String::new(), config);
        Ok(Self {
            connections: deadpool::Pool::builder(manager).max_size(size).build()?,
            server,
            reads: Arc::new(Permits::new(reads, reads)),
            changes: Arc::new(Permits::new(changes, of_client)),
            runtime,
            limits,
        })
    }

    /// Runs `work` on a connection. Outside of a transaction, each statement is its own.
    pub(crate) async fn run<T>(
        &self,
        work: impl AsyncFnOnce(&mut AsyncPgConnection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let connection = self.acquire(Instant::now()).await?;
        let deadline = connection.deadline;
        connection.run(async |connection| until(deadline, work(connection)).await).await
    }

    /// Runs a read like [`Self::run`]. Such reads use at most half of the connections. The server ends the
    /// statement of one that is dropped.
    pub(crate) async fn read<T>(
        &self,
        work: impl AsyncFnOnce(&mut AsyncPgConnection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut connection = self.acquire_within(self.reads.of_no_client()).await?;
        connection.held.reads_on = Some(self.server.clone());
        let deadline = connection.deadline;
        connection.run(async |connection| until(deadline, work(connection)).await).await
    }

    /// Runs `work`, which changes an order, in a transaction that waits only shortly for locks. Runs it
    /// again after a conflict with other transactions. Such calls use at most a quarter of the
    /// connections, and those of one client leave a quarter of these to others. `None` is for no client.
    pub(crate) async fn change_in_transaction<T>(
        &self,
        party: Option<Party>,
        work: impl AsyncFn(&mut AsyncPgConnection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let no_client = || self.changes.of_no_client();
        let share = party.map_or_else(no_client, |party| self.changes.of(party));
        let connection = self.acquire_within(share).await?;
        let deadline = connection.deadline;
        let begin = self.limits.begin_change();
        let change = async |connection: &mut AsyncPgConnection| {
            for _ in 1..CHANGE_ATTEMPTS {
                match transaction(connection, &begin, &work).await {
                    Err(failure) if failure.is_conflict() => {}
                    outcome => return outcome,
                }
            }
            transaction(connection, &begin, &work).await
        };
        connection.run(async |connection| until(deadline, change(connection)).await).await
    }

    /// Runs one statement like [`Self::change_in_transaction`], without a transaction around it. The
    /// statement sets its own time limit of locks.
    pub(crate) async fn change_by_statement<T>(
        &self,
        party: Party,
        statement: impl AsyncFn(&mut AsyncPgConnection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let connection = self.acquire_within(self.changes.of(party)).await?;
        let deadline = connection.deadline;
        let change = async |connection: &mut AsyncPgConnection| {
            for _ in 1..CHANGE_ATTEMPTS {
                match statement(connection).await {
                    Err(failure) if failure.is_conflict() => {}
                    outcome => return outcome,
                }
            }
            statement(connection).await
        };
        connection.run(async |connection| until(deadline, change(connection)).await).await
    }

    /// Runs `work` in a transaction.
    pub(crate) async fn transaction<T>(
        &self,
        work: impl AsyncFnOnce(&mut AsyncPgConnection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let connection = self.acquire(Instant::now()).await?;
        let deadline = connection.deadline;
        let work = async |connection: &mut AsyncPgConnection| {
            until(deadline, transaction(connection, "BEGIN", work)).await
        };
        connection.run(work).await
    }

    /// Runs a statement, and returns what its rows mean. Reads them to the end: an error of the
    /// commit comes after the rows.
    pub(crate) async fn all<'q, Q, R, T>(
        &self,
        statement: Q,
        meaning: impl Fn(R) -> Result<T, Unreadable>,
    ) -> Result<Vec<T>, Failure>
    where
        R: Send,
        Prepared<Q>: LoadQuery<'q, AsyncPgConnection, R> + 'q,
    {
        let mut pooled = self.acquire(Instant::now()).await?;
        let rows = Prepared(statement).get_results(&mut pooled.held.connection);
        let rows = rows.map_err(Failure::from).boxed();
        let ended = limited(pooled.deadline, self.limits.statement, rows).await;
        Ok(pooled.end(ended)?.into_iter().map(meaning).collect::<Result<_, _>>()?)
    }

    /// Runs a statement, and returns how many rows it changed.
    pub(crate) async fn write<Q>(&self, statement: Q) -> Result<usize, Failure>
    where
        Prepared<Q>: ExecuteDsl<AsyncPgConnection>,
    {
        write(self.acquire(Instant::now()).await?, statement).await
    }

    /// Gets a connection for a call of a kind that may use only some of the connections. The call waits for a
    /// permit of its share.
    async fn acquire_within(&self, mut share: Share) -> Result<PooledConnection<'_>, Failure> {
        let began = Instant::now();
        let taken = timeout_at(began + self.limits.acquire, share.take()).await;
        taken.map_err(|_| Failure::Timeout)?.map_err(|_| Failure::Lost)?;
        let mut connection = self.acquire(began).await?;
        connection.held.permit = Some(share);
        Ok(connection)
    }

    /// Gets a connection for a call that began at an instant.
    pub(crate) async fn acquire(&self, began: Instant) -> Result<PooledConnection<'_>, Failure> {
        let connection = timeout_at(began + self.limits.acquire, self.connections.get()).await;
        let connection = connection.map_err(|_| Failure::Timeout)??;
        let (runtime, limit) = (self.runtime.clone(), self.limits.call);
        let held = Held { connection, permit: None, reads_on: None, runtime, limit };
        let held = scopeguard::guard(held, Held::abandon as fn(Held));
        Ok(PooledConnection { held, deadline: began + limit, pool: self })
    }
}

/// A connection of the pool with the limits of a call.
struct Held {
    connection: deadpool::Object<AsyncPgConnection>,
    /// Of a call that may use only some of the connections.
    permit: Option<Share>,
    /// The server, if the call only reads.
    reads_on: Option<Server>,
    runtime: Handle,
    /// Of a call.
    limit: Duration,
}

impl Held {
    /// Keeps a connection from other calls while the statement of a dropped call runs on it. The
    /// futures of requests are dropped when their clients leave.
    fn abandon(self) {
        let Self { mut connection, permit, reads_on, runtime, limit } = self;
        runtime.spawn(async move {
            let answered = timeout(limit, async {
                if let Some(server) = reads_on {
                    server.interrupt(connection.cancel_token()).await;
                }
                // The server answers after that statement.
                connection.batch_execute("SELECT 1").await
            });
            let answered = answered.await;
            let is_idle = matches!(answered, Ok(Ok(())))
                && !AnsiTransactionManager::is_broken_transaction_manager(&mut *connection);
            if is_idle {
                drop(connection);
            } else {
                drop(deadpool::Object::take(connection));
            }
            drop(permit);
        });
    }
}

/// A connection that one call holds.
pub(crate) struct PooledConnection<'p> {
    held: ScopeGuard<Held, fn(Held)>,
    pub(crate) deadline: Instant,
    pool: &'p Pool,
}

impl PooledConnection<'_> {
    pub(crate) async fn run<T>(
        mut self,
        work: impl AsyncFnOnce(&mut AsyncPgConnection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let work = work(&mut self.held.connection);
        let ended = limited(self.deadline, self.pool.limits.statement, work).await;
        self.end(ended)
    }

    /// Gives back a connection that was not used.
    pub(crate) fn release(self) {
        drop(ScopeGuard::into_inner(self.held));
    }

    /// Gives back the connection, or closes it if it may be broken.
    fn end<T>(self, ended: Result<T, Failure>) -> Result<T, Failure> {
        let Held { connection, permit: _permit, .. } = ScopeGuard::into_inner(self.held);
        if matches!(ended, Err(Failure::Gone)) {
            // The server is gone for all connections. Otherwise a call would time out on each.
            self.pool.connections.retain(|_, _| false);
        }
        if ended.as_ref().is_err_and(Failure::breaks_connection) {
            // An abandoned statement may still run on it.
            drop(deadpool::Object::take(connection));
        }
        ended
    }
}

/// Runs a statement, and returns how many rows it changed.
async fn write<Q>(mut pooled: PooledConnection<'_>, statement: Q) -> Result<usize, Failure>
where
    Prepared<Q>: ExecuteDsl<AsyncPgConnection>,
{
    let written = Prepared(statement).execute(&mut pooled.held.connection);
    let written = written.map_err(Failure::from).boxed();
    let ended = limited(pooled.deadline, pooled.pool.limits.statement, written).await;
    pooled.end(ended)
}

/// Runs `work` in a transaction that a statement begins.
pub(crate) async fn transaction<T>(
    connection: &mut AsyncPgConnection,
    begin: &str,
    work: impl AsyncFnOnce(&mut AsyncPgConnection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    AnsiTransactionManager::begin_transaction_sql(connection, begin).await?;
    let outcome = work(connection).await;
    if outcome.is_ok() {
        AnsiTransactionManager::commit_transaction(connection).await?;
    } else {
        AnsiTransactionManager::rollback_transaction(connection).await?;
    }
    outcome
}

/// Runs several statements until a deadline. None of them need have taken long: the server may be slow, but
/// is not gone.
async fn until<T>(
    deadline: Instant,
    statements: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout_at(deadline, statements).await.unwrap_or(Err(Failure::Timeout))
}

/// Runs one statement until its deadline. The server ends a statement after its limit, unless it is gone.
async fn limited<T>(
    deadline: Instant,
    limit: Duration,
    call: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let began = Instant::now();
    match timeout_at(deadline, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(ended) => ended.unwrap_or(Err(Failure::Lost)),
        Err(_) if began.elapsed() > limit => Err(Failure::Gone),
        Err(_) => Err(Failure::Timeout),
    }
}
