//! Connections that are shared, each for one call of a port at a time.

use std::{panic::AssertUnwindSafe, time::Duration};

use diesel_async::{
    AsyncPgConnection,
    pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod, deadpool},
};
use futures_util::future::{BoxFuture, FutureExt as _};
use tokio::{
    runtime::Handle,
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use crate::{
    connect::Server,
    failure::{BreaksConnection, Failure},
};

/// How long a call may take in all: waiting for a connection, making one if there is none, and the
/// statement. A request makes two calls at least, and the first of them meets a server that does
/// not answer.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_millis(2_500);

/// How long of it there may be no connection. A statement that got one late is not cut off when it
/// has just begun, for that would close a connection which nothing is wrong with when they are
/// needed most.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the server lets a statement run (`connect`). One that says nothing for longer is gone.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(2);

/// The pool.
#[derive(Clone)]
pub(crate) struct Pool {
    connections: deadpool::Pool<AsyncPgConnection>,
    /// Where calls run to their end, even when whoever asked is gone, and where connections are
    /// driven: the threads of requests end before those of the follow-ups.
    runtime: Handle,
}

impl Pool {
    /// A pool of up to `size` connections, none of which is made yet. Must be called within a
    /// runtime.
    pub(crate) fn of(server: Server, size: usize) -> Result<Self, deadpool::BuildError> {
        let mut config = ManagerConfig::default();
        // A connection that is known to be closed is not given out; asking each before would cost a
        // round trip.
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
        Ok(Self {
            connections: deadpool::Pool::builder(manager).max_size(size).build()?,
            runtime: Handle::current(),
        })
    }

    /// Runs `work` on a connection. Without a transaction of its own, each statement of it is one.
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
        self.spawn(async move { pool.lend().await?.run(work).await })
            .await
            .map_err(|_| Failure::Lost)?
    }

    /// Runs a call to its end, whoever waits for it.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.runtime.spawn(call)
    }

    /// A connection for one call, which must be one that was spawned.
    pub(crate) async fn lend(&self) -> Result<Lent<'_>, Failure> {
        let called = Instant::now();
        let connection = timeout_at(called + ACQUIRE_TIMEOUT, self.connections.get()).await;
        let connection = connection.map_err(|_| Failure::Late)?.map_err(Failure::from)?;
        Ok(Lent { connection, until: called + CALL_TIMEOUT, pool: self })
    }
}

/// A connection that is lent to a call.
pub(crate) struct Lent<'p> {
    connection: deadpool::Object<AsyncPgConnection>,
    until: Instant,
    pool: &'p Pool,
}

impl Lent<'_> {
    pub(crate) async fn run<T, E>(
        mut self,
        work: impl for<'c> FnOnce(&'c mut AsyncPgConnection) -> BoxFuture<'c, Result<T, E>>,
    ) -> Result<T, E>
    where
        E: From<Failure> + BreaksConnection,
    {
        let began = Instant::now();
        let ended =
            timeout_at(self.until, AssertUnwindSafe(work(&mut self.connection)).catch_unwind())
                .await;
        if ended.is_err() && began.elapsed() > STATEMENT_TIMEOUT {
            // If the server is gone without a word, then for all of them, and each would have a
            // call wait for it.
            self.pool.connections.retain(|_, _| false);
        }
        let outcome = ended
            .map_err(|_| Failure::Late.into())
            .and_then(|ended| ended.unwrap_or_else(|_| Err(Failure::Lost.into())));
        if outcome.as_ref().is_err_and(E::breaks_connection) {
            // Closed, because nobody knows what a statement that was given up is still doing on it.
            drop(deadpool::Object::take(self.connection));
        }
        outcome
    }
}
