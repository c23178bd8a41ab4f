//! The store, on which every port is implemented.

use async_trait::async_trait;
use diesel::{
    Expression, Selectable,
    dsl::{AsSelect, sql},
    pg::Pg,
    query_dsl::methods::SelectDsl,
    sql_types::Nullable,
};
use diesel_async::{
    AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _,
    methods::{ExecuteDsl, LoadQuery},
};
use domain::ports::{Clock, DatabaseTime, DatabaseTimes, StoreError};
use futures_util::{FutureExt as _, TryFutureExt as _, future::BoxFuture};
use sql_rows::{BatchObserver, Instant, ObservedDatabase, Unreadable, Utc, instant::NEWEST_STORED};

use crate::{
    Inspection, MigrateError, OpenError, TimeLimits,
    connect::Server,
    failure::Failure,
    group_commit::create::Orders,
    inspect, migrations,
    pool::{Pool, transaction},
    statement::{Prepared, columns},
};

/// Every storage port on one PostgreSQL database.
pub struct PostgresStore {
    pub(crate) server: Server,
    pub(crate) pool: Pool,
    pub(crate) orders: Orders,
}

impl PostgresStore {
    /// Opens a store on the database of a URL, `postgres://user:password@host:5432/database`, with
    /// at most `connections` connections. The runtime in which this is called runs them. Connects
    /// when a port is used. Calls have time limits, except those of operators that may take long.
    ///
    /// - Of several hosts, the store finds the one that accepts writes.
    /// - `sslmode` is `disable`, `prefer` (the default), `require` or `verify-full`.
    /// - `sslrootcert` names a file of root certificates; by default those of the system are used.
    ///
    /// # Errors
    /// The URL is invalid, or TLS cannot be set up.
    pub fn open(url: &str, connections: usize, limits: TimeLimits) -> Result<Self, OpenError> {
        let server = Server::from_url(url, limits)?;
        let pool = Pool::new(server.clone(), connections)?;
        Ok(Self { server, orders: Orders::new(&pool), pool })
    }

    /// Applies the missing migrations and returns their number. Must be called before the ports are
    /// used. Any number of processes may call it at once.
    ///
    /// # Errors
    /// The database cannot be reached or migrated, or does not belong to this program.
    pub async fn migrate(&self) -> Result<usize, MigrateError> {
        migrations::migrate(&self.server).await
    }

    /// Returns what an operator should know about the database. Changes nothing. `clock` is
    /// compared with that of the server.
    ///
    /// # Errors
    /// The database cannot be reached, or a pooler shares its sessions.
    pub async fn inspect(&self, clock: &dyn Clock) -> Result<Inspection, MigrateError> {
        inspect::inspect(&self.server, clock).await
    }

    /// Runs a call that reads. Each of its statements is a transaction.
    pub(crate) async fn read<T>(
        &self,
        call: impl AsyncFnOnce(&mut AsyncPgConnection) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        Ok(self.pool.run(call).await?)
    }

    /// Runs a call that reads and may take long, on a connection of its own without a time limit.
    pub(crate) async fn survey<T>(
        &self,
        call: impl AsyncFnOnce(&mut AsyncPgConnection) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        let mut connection = self.server.connect_unlimited().await.map_err(Failure::from)?;
        Ok(call(&mut connection).await?)
    }

    /// Runs a call that reads what a client asks for. Such calls use at most half of the
    /// connections.
    pub(crate) async fn read_orders<T>(
        &self,
        call: impl AsyncFnOnce(&mut AsyncPgConnection) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        Ok(self.pool.read(call).await?)
    }

    /// Runs a call in a transaction.
    pub(crate) async fn transaction<T, E: From<Failure>>(
        &self,
        call: impl AsyncFnOnce(&mut AsyncPgConnection) -> Result<T, Failure>,
    ) -> Result<T, E> {
        Ok(self.pool.transaction(call).await?)
    }

    /// Runs a call in a transaction without a time limit, on a connection of its own.
    pub(crate) async fn maintain<T, E: From<Failure>>(
        &self,
        call: impl AsyncFnOnce(&mut AsyncPgConnection) -> Result<T, Failure>,
    ) -> Result<T, E> {
        let mut connection = self.server.connect().await.map_err(Failure::from)?;
        connection.batch_execute("SET statement_timeout = 0").await.map_err(Failure::from)?;
        Ok(transaction(&mut connection, "BEGIN", call).await?)
    }

    /// Runs a query, and returns what its rows mean. The compiler proves the bounds of a named type once, and those of
    /// an `async fn` a dozen times at each call, which took most of its time.
    pub(crate) fn select<'q, Q, R, T>(
        &'q self,
        query: Q,
        meaning: fn(R) -> Result<T, Unreadable>,
    ) -> BoxFuture<'q, Result<Vec<T>, StoreError>>
    where
        AsSelect<R, Pg>: Expression,
        Q: SelectDsl<AsSelect<R, Pg>, Output: Send> + 'q,
        R: Selectable<Pg> + Send + 'q,
        T: Send + 'q,
        Prepared<Q::Output>: LoadQuery<'q, AsyncPgConnection, R> + 'q,
    {
        let query = SelectDsl::select(query, columns::<R>());
        self.pool.all(query, meaning).map_err(StoreError::from).boxed()
    }

    /// Runs a statement, and returns how many rows it changed.
    pub(crate) async fn execute<Q>(&self, statement: Q) -> Result<usize, StoreError>
    where
        Prepared<Q>: ExecuteDsl<AsyncPgConnection>,
    {
        Ok(self.pool.write(statement).await?)
    }
}

#[async_trait]
impl DatabaseTime for PostgresStore {
    async fn times(&self) -> Result<DatabaseTimes, StoreError> {
        let times = async |connection: &mut AsyncPgConnection| {
            let times = format!("SELECT clock_timestamp(), ({NEWEST_STORED})");
            let times = Prepared(sql::<(Instant, Nullable<Instant>)>(&times));
            let (now, newest): (Utc, Option<Utc>) = times.get_result(connection).await?;
            Ok(DatabaseTimes { now: Some(now.0), newest: newest.map(|at| at.0) })
        };
        self.read(times).await
    }
}

impl ObservedDatabase for PostgresStore {
    fn observe_batches(&self, observer: BatchObserver) {
        self.orders.observe(observer);
    }

    fn open_connections(&self) -> usize {
        self.pool.connections.status().size
    }

    fn waiting_calls(&self) -> usize {
        self.pool.connections.status().waiting
    }

    fn walks(&self) -> usize {
        // Half of what reads may use.
        (self.pool.connections.status().max_size / 4).max(1)
    }
}
