//! Copies the write-ahead log into the database file beside the thread that writes.
//!
//! Otherwise every few hundred orders one commit would do it, which waits twice more for the disk.
//! All orders behind that commit would wait, too.

use std::{
    io,
    thread::{Builder, JoinHandle},
};

use crossbeam_channel::{Sender, bounded};
use diesel::{connection::SimpleConnection as _, sqlite::SqliteConnection};

use crate::{
    database::{Access, Database},
    failure::Failure,
};

/// Writing calls between two copies. An order writes two or three pages of the log, and a copy takes
/// each page of the database once.
pub(crate) const CALLS: usize = 800;

/// Asks a thread for copies. Dropping it waits for the copy in progress and ends the thread.
pub(crate) struct Checkpoints {
    /// Calls since the last request.
    calls: usize,
    requests: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    pub(crate) fn start(database: &Database) -> io::Result<Self> {
        let (requests, requested) = bounded(1);
        let database = database.clone();
        let thread = Builder::new().name("sqlite checkpoint".to_owned()).spawn(move || {
            let mut connection = None;
            for () in requested {
                // After a failure the log grows until the connection that writes copies it.
                if copy(&database, &mut connection).is_err() {
                    connection = None;
                }
            }
        })?;
        Ok(Self { calls: 0, requests: Some(requests), thread: Some(thread) })
    }

    /// Notes committed calls. Requests a copy if there were enough of them, and none is waiting.
    pub(crate) fn committed(&mut self, calls: usize) {
        self.calls += calls;
        if self.calls >= CALLS
            && let Some(requests) = &self.requests
            && requests.try_send(()).is_ok()
        {
            self.calls = 0;
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.requests.take();
        // The thread does not panic.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Copies what the log has now, without waiting for transactions of others.
fn copy(database: &Database, connection: &mut Option<SqliteConnection>) -> Result<(), Failure> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(database.reconnect(Access::Read)?),
    };
    Ok(connection.batch_execute("PRAGMA wal_checkpoint(PASSIVE)")?)
}
