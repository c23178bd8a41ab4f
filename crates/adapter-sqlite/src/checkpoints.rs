//! Copies the write-ahead log into the database file beside the thread that writes.
//!
//! Without this thread, a commit copies the log every few hundred orders. It then waits for the disk
//! two more times, and all orders behind it wait, too.

use std::{
    io,
    thread::{Builder, JoinHandle},
};

use crossbeam_channel::{Receiver, Sender, bounded};
use diesel::{connection::SimpleConnection as _, sqlite::SqliteConnection};

use crate::{
    database::{Access, Database},
    failure::Failure,
};

/// Committed calls between the end of a copy and the next one. An order writes two or three pages.
/// A commit can empty a full log only while there is no copy.
pub(crate) const CALLS: usize = 800;

/// Committed calls that a copy may take. Then the thread that writes waits for it, so that the log
/// does not grow without limit on a slow disk.
const MAX_CALLS: usize = 4 * CALLS;

/// Asks a thread for copies. Dropping it waits for the copy in progress and ends the thread.
pub(crate) struct Checkpoints {
    /// Since the last copy ended.
    calls: usize,
    is_copying: bool,
    requests: Option<Sender<()>>,
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    pub(crate) fn start(database: &Database) -> io::Result<Self> {
        let (database, mut connection) = (database.clone(), None);
        Self::start_with(move || {
            // The next copy tries again, and so does a commit when the log is full.
            if copy(&database, &mut connection).is_err() {
                connection = None;
            }
        })
    }

    fn start_with(mut copy: impl FnMut() + Send + 'static) -> io::Result<Self> {
        let ((requests, requested), (end, ended)) = (bounded(1), bounded(1));
        let thread = Builder::new().name("sqlite checkpoint".to_owned()).spawn(move || {
            for () in requested {
                copy();
                // Has room: there is one request at a time.
                let _ = end.send(());
            }
        })?;
        let requests = Some(requests);
        Ok(Self { calls: 0, is_copying: false, requests, ended, thread: Some(thread) })
    }

    /// Notes committed calls. Requests a copy after [`CALLS`] of them. Waits for a copy that takes
    /// longer than [`MAX_CALLS`].
    pub(crate) fn committed(&mut self, calls: usize) {
        self.calls += calls;
        if self.is_copying {
            let is_late = self.calls >= MAX_CALLS;
            let has_ended =
                if is_late { self.ended.recv().is_ok() } else { self.ended.try_recv().is_ok() };
            if is_late || has_ended {
                (self.is_copying, self.calls) = (false, 0);
            }
        } else if self.calls >= CALLS
            && let Some(requests) = &self.requests
        {
            self.is_copying = requests.try_send(()).is_ok();
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

/// Copies what the log has now, without waiting for transactions of others. Fails if the path names
/// another file: the log may be that file's.
fn copy(database: &Database, connection: &mut Option<SqliteConnection>) -> Result<(), Failure> {
    database.check_file()?;
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(database.connect(Access::Read)?),
    };
    Ok(connection.batch_execute("PRAGMA wal_checkpoint(PASSIVE)")?)
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        thread,
    };

    use super::*;

    /// Returns checkpoints whose copies wait to be released, the number of ended copies, and what
    /// releases them.
    fn held() -> (Checkpoints, Arc<AtomicUsize>, Sender<()>) {
        let (release, released) = bounded(1);
        let copies = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&copies);
        let copy = move || {
            let _ = released.recv();
            counted.fetch_add(1, Ordering::SeqCst);
        };
        (Checkpoints::start_with(copy).unwrap(), copies, release)
    }

    #[test]
    fn writer_waits_for_a_late_copy() {
        let (mut checkpoints, copies, release) = held();
        checkpoints.committed(CALLS);
        let releasing = thread::spawn(move || release.send(()));
        checkpoints.committed(MAX_CALLS);
        assert_eq!(copies.load(Ordering::SeqCst), 1);
        releasing.join().unwrap().unwrap();
    }

    #[test]
    fn copies_leave_gaps_in_which_a_commit_can_empty_the_log() {
        let (mut checkpoints, copies, release) = held();
        checkpoints.committed(CALLS);
        release.send(()).unwrap();
        while checkpoints.is_copying {
            checkpoints.committed(0);
        }
        checkpoints.committed(CALLS - 1);
        assert!(!checkpoints.is_copying);
        checkpoints.committed(1);
        assert!(checkpoints.is_copying);
        release.send(()).unwrap();
        drop(checkpoints);
        assert_eq!(copies.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn log_is_not_copied_into_a_moved_database() {
        let directory = tempfile::tempdir().unwrap();
        let [path, aside] = ["orders.db", "aside.db"].map(|name| directory.path().join(name));
        let database = Database::at(&path).unwrap();
        let mut writer = database.connect(Access::Write).unwrap();
        let mut copying = None;
        writer.batch_execute("CREATE TABLE noted (number INTEGER)").unwrap();
        copy(&database, &mut copying).unwrap();
        writer.batch_execute("INSERT INTO noted VALUES (1)").unwrap();

        std::fs::rename(&path, &aside).unwrap();
        std::fs::copy(&aside, &path).unwrap();
        let before = std::fs::read(&aside).unwrap();
        assert!(copy(&database, &mut copying).is_err());
        assert_eq!(std::fs::read(&aside).unwrap(), before);
    }
}
