//! Removes old mails from a mail drop.

use std::{
    ffi::OsStr,
    fs::{self, DirEntry, ReadDir},
    io,
    path::PathBuf,
    sync::Arc,
};

use domain::{
    background::Step,
    ports::{Clock, StoreError},
};
use time::{Duration, OffsetDateTime};

/// Entries of the folder that a step reads.
const BATCH: usize = 1_000;

/// Pause between the batches of a round.
const BATCH_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// Pause between rounds, and after a failure.
const ROUND_PAUSE: std::time::Duration = std::time::Duration::from_secs(3_600);

/// Reads a mail drop in rounds, and removes the mails that are older than a number of days.
pub struct RemoveOldMails {
    folder: PathBuf,
    age: Duration,
    clock: Arc<dyn Clock>,
    /// What the round has not read yet.
    entries: Option<ReadDir>,
}

impl RemoveOldMails {
    /// Default of the age, in days, above which mails are removed.
    pub const DAYS: u32 = 30;

    /// Returns a worker at the beginning of a round.
    pub fn new(folder: PathBuf, days: u32, clock: Arc<dyn Clock>) -> Self {
        Self { folder, age: Duration::days(days.into()), clock, entries: None }
    }

    /// Reads the next entries of the folder. Returns the number of mails that it removed. Must be
    /// called within a runtime.
    pub async fn step(&mut self) -> Step<usize> {
        let (folder, entries) = (self.folder.clone(), self.entries.take());
        let before = self.clock.now() - self.age;
        let read = tokio::task::spawn_blocking(move || {
            let mut entries = entries.map_or_else(|| fs::read_dir(folder), Ok)?;
            let (read, removed) = remove(&mut entries, before)?;
            Ok::<_, io::Error>(((read == BATCH).then_some(entries), removed))
        });
        match read.await.unwrap_or_else(|error| Err(error.into())) {
            Ok((entries, removed)) => {
                self.entries = entries;
                let pause = if self.entries.is_some() { BATCH_PAUSE } else { ROUND_PAUSE };
                Step { result: Ok(removed), pause }
            }
            Err(error) => {
                Step { result: Err(StoreError::Unavailable(error.into())), pause: ROUND_PAUSE }
            }
        }
    }
}

/// Returns how many entries it has read, and how many of them it has removed.
fn remove(entries: &mut ReadDir, before: OffsetDateTime) -> io::Result<(usize, usize)> {
    let (mut read, mut removed) = (0, 0);
    for entry in entries.take(BATCH) {
        let entry = entry?;
        read += 1;
        if is_mail(&entry.file_name()) && is_older(&entry, before)? {
            fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    Ok((read, removed))
}

/// Returns whether the mail drop gives such a name. Other files in the folder stay.
pub(crate) fn is_mail(name: &OsStr) -> bool {
    let key = name.to_str().and_then(|name| name.strip_suffix(".eml"));
    key.is_some_and(|key| key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_older(entry: &DirEntry, before: OffsetDateTime) -> io::Result<bool> {
    let file = entry.metadata()?;
    Ok(file.is_file() && OffsetDateTime::from(file.modified()?) < before)
}

#[cfg(test)]
pub(crate) mod tests {
    use domain::ports::MockClock;
    use tempfile::TempDir;

    use super::*;

    /// Returns a worker for whose clock new files have this age.
    fn worker(folder: &TempDir, age: Duration) -> RemoveOldMails {
        let file = tempfile::tempfile_in(folder.path()).unwrap();
        let now = OffsetDateTime::from(file.metadata().unwrap().modified().unwrap()) + age;
        let mut clock = MockClock::new();
        clock.expect_now().return_const(now);
        RemoveOldMails::new(folder.path().to_owned(), 30, Arc::new(clock))
    }

    /// Returns the names of the entries of a folder, sorted.
    pub(crate) fn names(folder: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    #[tokio::test]
    async fn only_old_mails_are_removed() {
        let folder = TempDir::new().unwrap();
        let mail = format!("{:032x}.eml", 7);
        for name in [&*mail, "letter.eml", "notes.txt", &mail[..20]] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join(format!("{:032x}.eml", 8))).unwrap();
        let before = names(&folder);
        // A margin for the time that the test takes.
        let mut worker_before = worker(&folder, Duration::days(29));
        let Step { result, pause } = worker_before.step().await;
        assert_eq!((result.unwrap(), pause), (0, ROUND_PAUSE));
        assert_eq!(names(&folder), before);
        let Step { result, pause } = worker(&folder, Duration::days(31)).step().await;
        assert_eq!((result.unwrap(), pause), (1, ROUND_PAUSE));
        let left: Vec<_> = before.into_iter().filter(|name| *name != mail).collect();
        assert_eq!(names(&folder), left);
    }

    #[tokio::test]
    async fn many_mails_are_removed_in_batches() {
        let folder = TempDir::new().unwrap();
        for number in 0..BATCH + 5 {
            fs::write(folder.path().join(format!("{number:032x}.eml")), "").unwrap();
        }
        let mut worker = worker(&folder, Duration::days(31));
        for (removed, next) in [(BATCH, BATCH_PAUSE), (5, ROUND_PAUSE), (0, ROUND_PAUSE)] {
            let Step { result, pause } = worker.step().await;
            assert_eq!((result.unwrap(), pause), (removed, next));
        }
    }

    #[tokio::test]
    async fn missing_folder_is_an_error_until_it_is_there() {
        let folder = TempDir::new().unwrap();
        let mut worker = worker(&folder, Duration::days(31));
        let away = folder.path().with_extension("away");
        fs::rename(folder.path(), &away).unwrap();
        let step = worker.step().await;
        assert!(matches!(step.result, Err(StoreError::Unavailable(_))));
        assert_eq!(step.pause, ROUND_PAUSE);
        fs::rename(&away, folder.path()).unwrap();
        assert!(worker.step().await.result.is_ok());
    }
}
