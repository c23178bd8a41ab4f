//! Makes connections to the server.

mod tls;
pub(crate) mod url;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use domain::ports::{Cause, error_chain};
use tokio::time::timeout;
use tokio_postgres::{
    CancelToken, Client, Config, Connection, SimpleQueryMessage, Socket, tls::MakeTlsConnect,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use self::url::OpenError;
use crate::TimeLimits;

/// The settings of every connection, whatever the defaults of the server, the database or the role are:
/// - A statement sees what others have committed before it.
/// - Nothing ends a statement, a wait for a lock, a transaction or an idle session. Not every version
///   of the server has all of these limits.
/// - A commit is acknowledged only when it is durable.
/// - The server chooses whether it plans a statement for each call. A plan made while a table was small
///   must not read all of it later: every statement has an index, and reads it in its order up to a
///   limit, where a bitmap would have all rows that match. Compiling such short statements costs more
///   than it saves.
const PROLOGUE: &str = "SET default_transaction_isolation = 'read committed'; \
    SET default_transaction_deferrable = off; \
    SET statement_timeout = 0; SET lock_timeout = 0; \
    SELECT set_config(name, '0', false) FROM (VALUES ('idle_in_transaction_session_timeout'), \
        ('idle_session_timeout'), ('transaction_timeout')) AS limits (name) \
        WHERE current_setting(name, true) IS NOT NULL; \
    SET plan_cache_mode = auto; SET jit = off; \
    SET enable_seqscan = off; SET enable_bitmapscan = off; \
    SELECT set_config('synchronous_commit', \
    coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), false)";

/// Checks of whether two connections get one session. A pooler lends out the session that became
/// free last, so one check finds it unless others use the pooler at the same time.
const SESSION_CHECKS: usize = 5;

/// A connection to a server, and what drives it.
type Session = (Client, Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>);

/// Returns the process of the server that serves a connection. Prepares no statement, because the
/// next message may reach another session.
async fn backend(client: &Client) -> Result<Option<String>, ConnectError> {
    let answer = client.simple_query("SELECT pg_backend_pid()").await?;
    Ok(answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}

/// The reason why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The server cannot be reached, or rejects the user.
    #[error("no connection to the database")]
    Rejected(#[source] Cause),
    /// The server does not answer.
    #[error("the database does not answer in time")]
    Timeout,
    /// The server rejects the settings of the connection.
    #[error("the database connection cannot be set up")]
    Setup(#[source] Cause),
}

impl From<tokio_postgres::Error> for ConnectError {
    fn from(error: tokio_postgres::Error) -> Self {
        if let Some(words) = names::tls_failure(&error) {
            return Self::Rejected(format!("TLS with the server failed: {words}").into());
        }
        let text = error.as_db_error().map_or_else(|| error_chain(&error), ToString::to_string);
        // The server sends its detail and hint as lines of their own.
        Self::Rejected(text.lines().collect::<Vec<_>>().join("; ").into())
    }
}

fn setup(error: impl Into<Cause>) -> ConnectError {
    ConnectError::Setup(error.into())
}

/// A server, or several of which one accepts writes.
#[derive(Clone)]
pub(crate) struct Server {
    /// One for each host, in the order of the URL.
    pub(crate) hosts: Arc<[Config]>,
    /// The host that was tried last. It is tried first the next time, so that a dead host does not
    /// delay every connection.
    last: Arc<AtomicUsize>,
    tls: MakeRustlsConnect,
    pub(crate) limits: TimeLimits,
    /// Whether the server must prove that it is the host of the URL.
    pub(crate) verified: bool,
}

impl Server {
    pub(crate) fn from_url(url: &str, limits: TimeLimits) -> Result<Self, OpenError> {
        let (hosts, security) = url::parse(url)?;
        let verified = security.verified;
        Ok(Self {
            hosts: hosts.into(),
            last: Arc::default(),
            limits,
            verified,
            tls: MakeRustlsConnect::new(tls::client(security)?),
        })
    }

    /// Makes a connection whose statements have a time limit.
    pub(crate) async fn connect(&self) -> Result<AsyncPgConnection, ConnectError> {
        self.connect_with(&format!("{PROLOGUE}; {}", self.limits.session())).await
    }

    /// Makes a connection whose statements have no time limit.
    pub(crate) async fn connect_unlimited(&self) -> Result<AsyncPgConnection, ConnectError> {
        self.connect_with(PROLOGUE).await
    }

    async fn connect_with(&self, settings: &str) -> Result<AsyncPgConnection, ConnectError> {
        let connect = async {
            let (client, connection) = self.try_hosts().await?;
            let made = AsyncPgConnection::try_from_client_and_connection(client, connection).await;
            let mut made = made.map_err(setup)?;
            made.batch_execute(settings).await.map_err(setup)?;
            Ok(made)
        };
        timeout(self.limits.connect, connect).await.map_err(|_| ConnectError::Timeout)?
    }

    /// Makes a connection like [`Self::connect_unlimited`]; `None` if a pooler lends its session to other
    /// clients between transactions, as PgBouncer does unless `pool_mode` is `session`. Settings and
    /// prepared statements would get lost, or into the sessions of others.
    pub(crate) async fn connect_alone(&self) -> Result<Option<AsyncPgConnection>, ConnectError> {
        let (session, connection) = self.try_hosts().await?;
        tokio::spawn(connection);
        let first = backend(&session).await?;
        let other = async {
            let (other, connection) = self.try_hosts().await?;
            tokio::spawn(connection);
            for _ in 0..SESSION_CHECKS {
                if backend(&other).await? == backend(&session).await? {
                    return Ok::<_, ConnectError>(true);
                }
            }
            Ok(false)
        };
        // A second session may be more than the server has to give. It is not shared then.
        let is_shared = matches!(timeout(self.limits.session_check, other).await, Ok(Ok(true)));
        if is_shared || backend(&session).await? != first {
            return Ok(None);
        }
        let mut made = AsyncPgConnection::try_from(session).await.map_err(setup)?;
        made.batch_execute(PROLOGUE).await.map_err(setup)?;
        Ok(Some(made))
    }

    /// Asks the server to end the statement that a connection runs, if there is one.
    pub(crate) async fn interrupt(&self, connection: CancelToken) {
        // Without it, the statement goes on up to its time limit.
        let _ = connection.cancel_query(self.tls.clone()).await;
    }

    /// Tries each host. `tokio_postgres` has such a loop, but its `connect_timeout` ends with the
    /// TCP connection: a host that accepts and then says nothing would hide the others.
    async fn try_hosts(&self) -> Result<Session, ConnectError> {
        let (first, mut outcome) = (self.last.load(Ordering::Relaxed), Err(ConnectError::Timeout));
        for number in first..first + self.hosts.len() {
            let number = number % self.hosts.len();
            self.last.store(number, Ordering::Relaxed);
            let host = &self.hosts[number];
            // The URL's `connect_timeout`, unless there is no other host.
            let limit = host.get_connect_timeout().filter(|_| self.hosts.len() > 1);
            let limit = limit.copied().unwrap_or(self.limits.connect);
            outcome = match timeout(limit, host.connect(self.tls.clone())).await {
                Ok(Ok(session)) => return Ok(session),
                Ok(Err(error)) => Err(error.into()),
                Err(_) => Err(ConnectError::Timeout),
            };
        }
        outcome
    }
}
