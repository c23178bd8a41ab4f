//! The session in which a test runs statements of its own.

use std::{sync::LazyLock, thread};

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage, SimpleQueryRow};

/// Runs all sessions. The runtime of a test may have one thread, which waits for the answer, or a
/// clock that stands still.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap());

/// The server counts nothing that a session of tests reads, and lists it under a name of its own.
const SETTINGS: &str = "application_name=tests&options=-c%20track_counts%3Doff";

/// A session, which ends when it is dropped.
pub(super) struct Session(Client);

impl Session {
    pub(super) fn open(url: &str) -> Self {
        let url = format!("{url}?{SETTINGS}");
        let connected = wait(async move { tokio_postgres::connect(&url, NoTls).await });
        let (client, connection) = connected.unwrap();
        RUNTIME.spawn(connection);
        Self(client)
    }

    /// Returns whether the server has not ended the session.
    pub(super) fn is_open(&self) -> bool {
        !self.0.is_closed()
    }

    /// Returns one line per row, with `|` between the values.
    pub(super) fn run(&self, statements: &str) -> String {
        let messages = wait(self.0.simple_query(statements));
        let messages = messages.unwrap_or_else(|error| panic!("{statements}: {error:?}"));
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(line(row)),
            _ => None,
        });
        rows.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }
}

fn line(row: &SimpleQueryRow) -> String {
    let values = (0..row.len()).map(|column| row.get(column).unwrap_or_default());
    values.collect::<Vec<_>>().join("|")
}

/// Waits on a thread of its own: that of a test may be one of a runtime, which cannot wait for another.
fn wait<F>(future: F) -> F::Output
where
    F: Future + Send,
    F::Output: Send,
{
    thread::scope(|scope| scope.spawn(|| RUNTIME.block_on(future)).join()).unwrap()
}
